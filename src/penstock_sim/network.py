"""A simulated network of machines with links that delay, stall and break on command.

Bytes travel in packets, in order in each direction of a connection. A blocked link delivers nothing and reports
nothing; its packets arrive when it opens again, as with TCP retransmission. A killed process resets its connections, a
machine without power is silent. Frames are passed in a buffer that is scrambled after the call, so that code that
keeps a reference fails.
"""

from __future__ import annotations

import contextlib
import errno
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from struct import Struct
from zlib import crc32

from penstock.ports.network import (
    Accept,
    FileSlice,
    KeptFrame,
    Limits,
    Opened,
    Part,
    Renewed,
    Session,
    TlsError,
    TlsSettings,
    copied,
)
from penstock_sim.certificates import STALLED_S, CertificateFaults, certificate_of, handshake_problem
from penstock_sim.disk import Crashed, SimFile
from penstock_sim.loop import Owner, SimLoop
from penstock_sim.trace import Trace

CONNECT_S_MAX = 5.0
CONNECT_RETRY_S = 1.0
FIRST_FREE_PORT = 30_000
_SCRAMBLED = b"\xdb"
_size_of = Struct(">i").unpack_from


@dataclass(slots=True)
class Weather:
    """The current behaviour of the links."""

    latency_s: float = 0.0005
    jitter_s: float = 0.001
    spike_chance: float = 0.0
    spike_s: float = 0.0
    send_delay_chance: float = 0.0
    """How often a response is delayed before its file slices are read."""


class Pipe:
    """One direction of a connection: packets in order, None for its end."""

    __slots__ = ("busy", "last_at", "queue", "source", "target")

    def __init__(self, source: SimConnection, target: SimConnection) -> None:
        self.source = source
        self.target = target
        self.queue: deque[tuple[float, bytes | None]] = deque()
        self.last_at = 0.0
        self.busy = False


class SimConnection:
    """One end of a connection, on one machine and in one process."""

    def __init__(self, hub: Hub, owner: Owner, machine: str, *, local_port: int, peer: tuple[str, int]) -> None:
        self._hub = hub
        self.owner = owner
        self.machine = machine
        self.local_port = local_port
        self.peer_host, self.peer_port = peer
        self.session: Session | None = None
        self.is_node = False
        self.peer_certificate: bytes | None = None
        self._frame_size_max = hub.limits.frame_size_max
        self.asks = False
        """Whether this end opened the connection, so that it sends requests."""
        self.out: Pipe | None = None
        self.closed = False
        self._parts: list[Part] = []
        self._flush_asked = False
        self._paused = False
        self._cutting = False
        self._unread = bytearray()
        self._ended = False

    # -- sending ---------------------------------------------------------------------------

    def send(self, parts: Sequence[Part]) -> None:
        if self.closed or not self.owner.alive:
            return
        # The caller may reuse its buffers; files are read when the bytes are sent.
        for part in parts:
            self._parts.append(part if isinstance(part, FileSlice) else bytes(part))
        if not self._flush_asked:
            self._flush_asked = True
            delay = self._hub.send_delay()
            if delay:
                self._hub.loop.as_owner_at(self.owner, self._hub.loop.now + delay, self._flush)
            else:
                self._hub.loop.as_owner(self.owner, self._flush)

    def send_now(self, parts: Sequence[Part]) -> None:
        # The hub decides when the bytes are delivered anyway.
        self.send(parts)

    def keep_frame(self, frame: memoryview) -> KeptFrame:
        return copied(frame)

    def _flush(self) -> None:
        self._flush_asked = False
        if self.closed or not self._parts:
            return
        parts, self._parts = self._parts, []
        if len(parts) == 1 and isinstance(parts[0], bytes):
            if self.owner.alive and self.out is not None:
                self._hub.transmit(self.out, parts[0])
            return
        data = bytearray()
        for part in parts:
            if isinstance(part, FileSlice):
                try:
                    read = _read_to_send(part)
                except OSError as error:
                    self._read_failed(part, error)
                    return
                except Crashed:
                    return
                if len(read) < part.size:
                    self._read_failed(part, OSError(errno.EIO, "the file is shorter than the slice to send"))
                    return
                data += read
            else:
                data += part
        if self.owner.alive and self.out is not None:
            self._hub.transmit(self.out, bytes(data))

    def _read_failed(self, piece: FileSlice, error: OSError) -> None:
        self.drop(error)
        if piece.owner is not None:
            with contextlib.suppress(Crashed):
                piece.owner.read_failed(piece, error)

    # -- receiving -------------------------------------------------------------------------

    def receive(self, data: bytes | None) -> None:
        if self.closed:
            return
        if data is None:
            self._ended = True
        else:
            self._unread += data
        self._cut()

    def take_session(self, session: Session) -> None:
        self.session = session
        self._cut()

    def _cut(self) -> None:
        if self._cutting or self.session is None:
            return
        self._cutting = True
        try:
            while not (self._paused or self.closed) and len(self._unread) >= 4:
                size: int = _size_of(self._unread)[0]
                if size <= 0 or size > self._frame_size_max:
                    self.close()
                    return
                if len(self._unread) < 4 + size:
                    break
                frame = self._unread[4 : 4 + size]
                if len(self._unread) == 4 + size:
                    self._unread.clear()
                else:
                    del self._unread[: 4 + size]
                self.session.frame(memoryview(frame))
                frame[:] = _SCRAMBLED * size
        finally:
            self._cutting = False
        if self._ended and not self._paused:
            self.drop(None)

    def limit_frames(self, size_max: int | None) -> None:
        whole = self._hub.limits.frame_size_max
        self._frame_size_max = whole if size_max is None else min(size_max, whole)

    def pause_frames(self) -> None:
        self._paused = True

    def resume_frames(self) -> None:
        if self._paused:
            self._paused = False
            self._hub.loop.as_owner(self.owner, self._cut)

    # -- ending ----------------------------------------------------------------------------

    def close(self) -> None:
        if not self.closed and self.owner.alive:
            self._flush()
            self.drop(None)

    def drop(self, error: Exception | None) -> None:
        """End the connection on this side; the other side is notified later."""
        if self.closed:
            return
        self.vanish()
        if self.out is not None:
            self._hub.transmit(self.out, None)
        if self.session is not None and self.owner.alive:
            self.session.lost(error)

    def vanish(self) -> None:
        self.closed = True
        self._parts.clear()
        self._unread.clear()
        self._hub.forget(self)


class SimListener:
    def __init__(self, hub: Hub, owner: Owner, machine: str, port: int, tls: TlsSettings | None) -> None:
        self._hub = hub
        self.owner = owner
        self.machine = machine
        self.port = port
        self.tls = tls
        self.accept: Accept | None = None
        self._waiting: list[SimConnection] = []

    def renew(self, tls: TlsSettings, done: Renewed) -> None:
        self.tls = tls
        done(None)

    def serve(self, accept: Accept) -> None:
        self.accept = accept
        waiting, self._waiting = self._waiting, []
        for end in waiting:
            self.welcome(end)

    def welcome(self, end: SimConnection) -> None:
        if self.accept is None:
            self._waiting.append(end)
            return
        session = self.accept(end)
        if session is None:
            end.drop(None)
        elif not end.closed:
            end.take_session(session)

    def close(self) -> None:
        self._hub.unlisten(self)
        for end in self._waiting:
            end.drop(None)


class NetworkPort:
    """The network as seen by one process."""

    def __init__(self, hub: Hub, owner: Owner, machine: str) -> None:
        self._hub = hub
        self._owner = owner
        self._machine = machine

    def limit(self, limits: Limits) -> None:
        self._hub.limits = limits

    def listen(self, host: str, port: int, tls: TlsSettings | None = None) -> SimListener:
        return self._hub.listen(self._owner, self._machine, port, tls)

    def own_certificate(self, tls: TlsSettings) -> bytes | None:
        return certificate_of(tls)

    def connect(self, host: str, port: int, opened: Opened, tls: TlsSettings | None = None) -> None:
        self._hub.dial(self._owner, self._machine, host, port, opened, tls)


class Hub:
    """All machines and links of one simulation."""

    def __init__(self, loop: SimLoop, trace: Trace, random: Random) -> None:
        self.loop = loop
        self.trace = trace
        self.random = random
        self.limits = Limits()
        self.weather = Weather()
        self.certificates = CertificateFaults()
        self.spikes_end_at = 0.0
        """When the last packet delayed by a spike arrives; its connection delivers nothing after it until then."""
        self.on_request: Callable[[SimConnection, bytes], None] | None = None
        """Called with the data sent by the end that opened the connection: one or more requests."""
        self.blocked: set[tuple[str, str]] = set()
        self.without_power: set[str] = set()
        self._listeners: dict[tuple[str, int], SimListener] = {}
        self.advertised: dict[tuple[str, int], tuple[str, int]] = {}
        """The listeners of nodes that advertise the name of a machine with several nodes."""
        self._connections: dict[SimConnection, None] = {}
        self._stalled: list[Pipe] = []
        self._next_port = FIRST_FREE_PORT

    # -- what processes do -----------------------------------------------------------------

    def listen(self, owner: Owner, machine: str, port: int, tls: TlsSettings | None = None) -> SimListener:
        if port == 0:
            port = self._free_port()
        if (machine, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, "address in use")
        listener = self._listeners[machine, port] = SimListener(self, owner, machine, port, tls)
        return listener

    def unlisten(self, listener: SimListener) -> None:
        if self._listeners.get((listener.machine, listener.port)) is listener:
            del self._listeners[listener.machine, listener.port]

    def dial(
        self, owner: Owner, machine: str, host: str, port: int, opened: Opened, tls: TlsSettings | None = None
    ) -> None:
        deadline = self.loop.now + CONNECT_S_MAX
        host, port = self.advertised.get((host, port), (host, port))
        arrive = partial(self._arrive, owner, machine, host, port, opened, deadline, tls)
        self.loop.as_owner_at(self.loop.world, self.loop.now + self._latency(), arrive)

    def _arrive(
        self,
        owner: Owner,
        machine: str,
        host: str,
        port: int,
        opened: Opened,
        deadline: float,
        tls: TlsSettings | None,
    ) -> None:
        loop = self.loop
        if self.is_blocked(machine, host) or self.is_blocked(host, machine):
            if loop.now >= deadline:
                loop.as_owner(owner, opened, TimeoutError(errno.ETIMEDOUT, "no answer"))
            else:
                again = loop.now + CONNECT_RETRY_S
                arrive = partial(self._arrive, owner, machine, host, port, opened, deadline, tls)
                loop.as_owner_at(loop.world, again, arrive)
            return
        listener = self._listeners.get((host, port))
        answer_at = loop.now + self._latency()
        if listener is None or not listener.owner.alive:
            loop.as_owner_at(owner, answer_at, opened, ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
            return
        if self.certificates.stalls(host, listener.tls):
            late = TlsError("the TLS handshake did not end in time")
            loop.as_owner_at(owner, loop.now + STALLED_S, opened, late)
            return
        refusal = handshake_problem(tls, listener.tls) or self.certificates.problem(machine, host, listener.tls)
        if refusal is not None:
            loop.as_owner_at(owner, answer_at, opened, TlsError(refusal))
            return
        near = SimConnection(self, owner, machine, local_port=self._free_port(), peer=(host, port))
        far = SimConnection(self, listener.owner, host, local_port=port, peer=(machine, near.local_port))
        near.out, far.out = Pipe(near, far), Pipe(far, near)
        near.asks = True
        if tls is not None and listener.tls is not None:
            near.peer_certificate = certificate_of(listener.tls)
            far.peer_certificate = certificate_of(tls) if listener.tls.client_auth != "none" else None
        near.out.last_at = far.out.last_at = answer_at
        self._connections[near] = self._connections[far] = None
        loop.as_owner(listener.owner, listener.welcome, far)
        loop.as_owner_at(owner, answer_at, self._opened, near, opened)

    def _opened(self, near: SimConnection, opened: Opened) -> None:
        if near.closed:
            opened(ConnectionResetError(errno.ECONNRESET, "reset"))
            return
        session = opened(near)
        if session is None:
            near.drop(None)
        elif not near.closed:
            near.take_session(session)

    def transmit(self, pipe: Pipe, data: bytes | None) -> None:
        if self.on_request is not None and data is not None and pipe.source.asks:
            self.on_request(pipe.source, data)
        pipe.last_at = max(pipe.last_at, self.loop.now + self._latency())
        pipe.queue.append((pipe.last_at, data))
        if not pipe.busy:
            self._await_head(pipe)

    def _await_head(self, pipe: Pipe) -> None:
        pipe.busy = True
        self.loop.as_owner_at(self.loop.world, pipe.queue[0][0], self._deliver, pipe)

    def _deliver(self, pipe: Pipe) -> None:
        source, target = pipe.source, pipe.target
        if self.is_blocked(source.machine, target.machine):
            self._stalled.append(pipe)
            return
        data = pipe.queue.popleft()[1]
        if not target.closed and target.owner.alive:
            sent = data or b""
            self.trace.packet(source.owner.name, target.owner.name, len(sent), crc32(sent))
            self.loop.as_owner(target.owner, target.receive, data)
        elif data is not None and not source.closed and target.out is not None:
            # The connection is unknown there: send a reset.
            self.transmit(target.out, None)
        if pipe.queue:
            self._await_head(pipe)
        else:
            pipe.busy = False

    def forget(self, end: SimConnection) -> None:
        self._connections.pop(end, None)

    # -- what the world does ---------------------------------------------------------------

    def is_blocked(self, source: str, target: str) -> bool:
        if self.blocked and (source, target) in self.blocked:
            return True
        return bool(self.without_power) and (source in self.without_power or target in self.without_power)

    def set_blocked(self, edges: set[tuple[str, str]]) -> None:
        self.blocked = edges
        self.wake_stalled()

    def wake_stalled(self) -> None:
        """Continue delivery on links that are open again."""
        stalled, self._stalled = self._stalled, []
        for pipe in stalled:
            self.loop.as_owner_at(self.loop.world, self.loop.now + self._latency(), self._deliver, pipe)

    def process_ended(self, owner: Owner, *, power_lost: bool) -> None:
        """Remove the ports of a process that has ended; peers are notified unless its machine has lost power."""
        for listener in [each for each in self._listeners.values() if each.owner is owner]:
            self.unlisten(listener)
        for end in [each for each in self._connections if each.owner is owner]:
            end.vanish()
            if not power_lost and end.out is not None:
                self.transmit(end.out, None)

    def reset_some(self, machine: str, chance: float) -> int:
        """Reset some connections of a machine; data in flight is lost."""
        count = 0
        for end in [each for each in self._connections if each.machine == machine]:
            if not end.closed and self.random.random() < chance:
                count += 1
                self._break(end)
                if end.out is not None:
                    self._break(end.out.target)
        return count

    def _break(self, end: SimConnection) -> None:
        if not end.closed:
            end.vanish()
            if end.owner.alive and end.session is not None:
                self.loop.as_owner(end.owner, end.session.lost, ConnectionResetError(errno.ECONNRESET, "reset"))

    def send_delay(self) -> float:
        weather = self.weather
        if weather.send_delay_chance and self.random.random() < weather.send_delay_chance:
            return self.random.random() * 0.2
        return 0.0

    def _latency(self) -> float:
        weather = self.weather
        delay = weather.latency_s + self.random.random() * weather.jitter_s
        if weather.spike_chance and self.random.random() < weather.spike_chance:
            delay += self.random.random() * weather.spike_s
            self.spikes_end_at = max(self.spikes_end_at, self.loop.now + delay)
        return delay

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port


def _read_to_send(piece: FileSlice) -> bytes:
    file = piece.file
    return (file.read_to_send if isinstance(file, SimFile) else file.read)(piece.size, piece.position)
