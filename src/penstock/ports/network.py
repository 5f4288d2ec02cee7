"""Connections that carry size-prefixed frames.

The port splits the byte stream into frames and passes each to the session as a memoryview
that is valid only during the call, unless it is kept with `keep_frame`. A reply is a list of
parts, bytes or slices of files, sent in the order of the calls. No code above this port
knows whether a slice is sent with sendfile or copied.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.ports.disk import Buffer, File


class SliceOwner(Protocol):
    """The owner of a file whose bytes are sent."""

    def read_failed(self, piece: "FileSlice", error: OSError) -> None:
        """Handle bytes that could not be read while being sent. The port has logged it and closed the connection."""
        ...


class FileSlice:
    """Bytes of a file that are sent without passing through Python."""

    __slots__ = ("file", "is_cached", "is_cut", "owner", "position", "size")

    def __init__(self, file: File, position: int, size: int, owner: SliceOwner | None = None) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.owner = owner
        self.is_cached = False
        """Whether the network port has seen the bytes in the page cache."""
        self.is_cut = False
        """Whether the log has more records for the reader, which it has yet to check."""


Part = Buffer | FileSlice


class KeptFrame:
    """A frame that stays valid after the call it was passed in, until `release`."""

    __slots__ = ("_on_release", "view")

    def __init__(self, view: memoryview, on_release: Callable[[], None] | None = None) -> None:
        self.view = view
        self._on_release = on_release

    def release(self) -> None:
        """Release the frame. Its memory counts against the budget until then."""
        on_release, self._on_release = self._on_release, None
        if on_release is not None:
            on_release()


def copied(frame: memoryview) -> KeptFrame:
    return KeptFrame(memoryview(bytearray(frame)))


class TlsError(OSError):
    """A TLS handshake failed, or a peer does not use TLS as expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsStore:
    """A key store or a trust store: a file, or PEM texts. None of its secrets is ever shown."""

    location: str | None = None
    kind: str = "JKS"
    password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How one side of a connection uses TLS."""

    key_store: TlsStore | None = None
    """This side's key and certificates."""
    trust_store: TlsStore | None = None
    """The authorities that this side trusts; without it a client trusts those of the operating system."""
    client_auth: str = "none"
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    checks_host_name: bool = True
    allows_other_name: bool = False
    """Whether a changed key store may have another distinguished name."""
    allows_fewer_hosts: bool = False
    """Whether the certificate of a changed key store may lack host names of the present one."""


class Connection(Protocol):
    """The port's side of a connection, as the session sees it."""

    peer_host: str
    peer_port: int
    local_port: int
    is_node: bool
    """Whether the peer may act as a node of the cluster. The server decides it (docs/internals/security.md)."""

    @property
    def peer_certificate(self) -> bytes | None:
        """Return the peer's verified certificate as DER bytes, after the handshake; None without one."""
        ...

    def limit_frames(self, size_max: int | None) -> None:
        """Accept no larger frames; None removes the limit of this connection. Not for frames that have begun."""
        ...

    def send(self, parts: Sequence[Part]) -> None:
        """Queue parts; they leave in order. Flushed at the end of the present read."""
        ...

    def send_now(self, parts: Sequence[Part]) -> None:
        """Send parts, and everything queued before, without waiting for the end of the present read.

        For replies that a peer waits for when no other reply that could share the system call is about to follow.
        """
        ...

    def keep_frame(self, frame: memoryview) -> KeptFrame:
        """Keep the frame that is being passed in; a large one is not copied."""
        ...

    def pause_frames(self) -> None:
        """Pass in no more frames until `resume_frames`; the peer sees back-pressure."""
        ...

    def resume_frames(self) -> None: ...

    def close(self) -> None: ...


class Session(Protocol):
    """The server's side of a connection, as the port sees it."""

    def frame(self, frame: memoryview) -> bool | None:
        """Handle one whole frame without its size prefix. It is writable, so that offsets can be patched.

        Return True if the reply is large: it is then sent before the next frame is passed in.
        """
        ...

    def lost(self, error: Exception | None) -> None:
        """Handle the end of the connection. Called exactly once."""
        ...


Accept = Callable[[Connection], Session | None]


Renewed = Callable[[TlsError | None], None]
"""Called later and on the event loop, when other TLS settings are in use or with the reason why they are not."""


class Listener(Protocol):
    """A bound port. Peers wait in its queue until it is served."""

    port: int

    def renew(self, tls: TlsSettings, done: Renewed) -> None:
        """Use other TLS settings for new connections. `done` gets the error, and then the present ones stay in use."""
        ...

    def serve(self, accept: Accept) -> None:
        """Accept connections from now on. `accept` may return None to refuse one."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what a peer may use before its requests are handled."""

    frame_size_max: int = 100 * 1024 * 1024
    memory_budget: int = 512 * 1024 * 1024
    frame_s_max: float = 30.0
    send_stall_s_max: float = 60.0
    idle_s_max: float = 600.0
    backlog: int = 1024
    """How many connections may wait to be accepted."""
    receive_buffer_size: int = -1
    send_buffer_size: int = -1
    """Socket buffer sizes to request from the operating system; -1 leaves them to the system."""


Opened = Callable[[Connection | OSError], Session | None]
"""Called with the connection, returns the session for its frames (None closes it); or called with the error, mostly
ConnectionRefusedError: the peer's machine answers, but no process listens on the port."""


class Dialer(Protocol):
    """What opens connections to other nodes: the network, or a dialer that adds TLS and a login."""

    def connect(self, host: str, port: int, opened: Opened) -> None:
        """Open a connection to a peer. `opened` is called exactly once, later and on the event loop."""
        ...


class Network(Protocol):
    def limit(self, limits: Limits) -> None:
        """Apply these limits to every connection from now on."""
        ...

    def listen(self, host: str, port: int, tls: TlsSettings | None = None) -> Listener:
        """Bind a port (0: a free one). Raises OSError, mostly EADDRINUSE; TlsError if the settings cannot be used."""
        ...

    def own_certificate(self, tls: TlsSettings) -> bytes | None:
        """Return the certificate in the key store, as DER bytes. Raises TlsError."""
        ...

    def connect(self, host: str, port: int, opened: Opened, tls: TlsSettings | None = None) -> None:
        """Open a connection to a peer. `opened` is called exactly once, later and on the event loop.

        With TLS, the handshake has ended by then.
        """
        ...
