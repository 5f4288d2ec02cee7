"""Connections that carry size-prefixed frames.

The port cuts the byte stream into frames and hands each to the session as a memoryview
that is only valid during the call, unless it is kept with `keep_frame`. A reply is a list of
parts, bytes or slices of files, sent in the order of the calls. Nothing above this port
knows whether a slice leaves by sendfile or by copy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.ports.disk import Buffer, File


class SliceOwner(Protocol):
    """The owner of a file whose bytes are sent."""

    def read_failed(self, piece: "FileSlice", error: OSError) -> None:
        """Learn that bytes could not be read when they were sent. The port has logged it and closed the connection."""
        ...


class FileSlice:
    """Bytes of a file that are to be sent without passing through Python."""

    __slots__ = ("file", "owner", "position", "size")

    def __init__(self, file: File, position: int, size: int, owner: SliceOwner | None = None) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.owner = owner


Part = Buffer | FileSlice


class KeptFrame:
    """A frame that outlives the call it was handed over in, until `release`."""

    __slots__ = ("_on_release", "view")

    def __init__(self, view: memoryview, on_release: Callable[[], None] | None = None) -> None:
        self.view = view
        self._on_release = on_release

    def release(self) -> None:
        """The frame is not needed any more. Its memory counts against the budget until then."""
        on_release, self._on_release = self._on_release, None
        if on_release is not None:
            on_release()


def copied(frame: memoryview) -> KeptFrame:
    return KeptFrame(memoryview(bytearray(frame)))


class Connection(Protocol):
    """The port's side of a connection, as the session sees it."""

    peer_host: str
    peer_port: int
    local_port: int

    def send(self, parts: Sequence[Part]) -> None:
        """Queue parts; they leave in order. Flushed at the end of the present read."""
        ...

    def send_now(self, parts: Sequence[Part]) -> None:
        """Send parts, and all that was queued before, without waiting for the end of the present read.

        For what somebody waits for elsewhere, when nothing that could leave together with it is near.
        """
        ...

    def unsent_size(self) -> int:
        """Bytes queued that the peer has not taken yet."""
        ...

    def keep_frame(self, frame: memoryview) -> KeptFrame:
        """Keep the frame that is being handed over; a large one is not copied."""
        ...

    def pause_frames(self) -> None:
        """Hand over no more frames until `resume_frames`; the peer feels back-pressure."""
        ...

    def resume_frames(self) -> None: ...

    def close(self) -> None: ...


class Session(Protocol):
    """The server's side of a connection, as the port sees it."""

    def frame(self, frame: memoryview) -> bool | None:
        """One whole frame without its size prefix. Writable, so offsets can be patched.

        True if the reply is large: it is sent before the next frame is handed over.
        """
        ...

    def lost(self, error: Exception | None) -> None:
        """The connection is gone. Called exactly once."""
        ...


Accept = Callable[[Connection], Session | None]


class Listener(Protocol):
    """A bound port. Peers wait in its queue until it is served."""

    port: int

    def serve(self, accept: Accept) -> None:
        """Take connections from now on. `accept` may return None to refuse one."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a peer may ask of this node before anybody looks at its requests."""

    frame_size_max: int = 100 * 1024 * 1024
    memory_budget: int = 512 * 1024 * 1024
    frame_s_max: float = 30.0
    send_stall_s_max: float = 60.0
    idle_s_max: float = 600.0
    backlog: int = 1024
    """How many connections may wait to be accepted."""
    receive_buffer_size: int = -1
    send_buffer_size: int = -1
    """What the operating system is asked for; -1 leaves it to the system."""


Opened = Callable[[Connection | OSError], Session | None]
"""Given the connection, returns the session that hears its frames (None closes it); or given the error,
ConnectionRefusedError above all: the peer's machine is there, and nobody listens."""


class Network(Protocol):
    def limit(self, limits: Limits) -> None:
        """Hold every connection to these from now on."""
        ...

    def listen(self, host: str, port: int) -> Listener:
        """Bind a port (0: a free one). Raises OSError, EADDRINUSE above all."""
        ...

    def connect(self, host: str, port: int, opened: Opened) -> None:
        """Open a connection to a peer. Exactly one call of `opened` follows, later and on the event loop."""
        ...
