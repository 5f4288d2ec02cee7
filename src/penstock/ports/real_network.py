"""The network port on raw sockets, `add_reader` and sendfile.

One receive buffer serves every connection of the loop; a frame that does not fit in one
read moves to a buffer of its own. All replies to the frames of one read leave in one
`sendmsg`. A peer that does not take its replies is not read from; one that dawdles in the
middle of a frame, or stops reading for good, is cut off by the sweep.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import cast

from penstock.ports.buffers import BufferPool, FrameBuffer
from penstock.ports.dialing import dial
from penstock.ports.instruments import NetworkUsage
from penstock.ports.network import Accept, FileSlice, Limits, Opened, Part, Session
from penstock.ports.real_disk import RealFile
from penstock.ports.real_listener import ServerSocket, bound_sockets
from penstock.ports.unsent import UnsentBudget

log = logging.getLogger(__name__)

KIB = 1024
MIB = 1024 * KIB
READ_SIZE = 256 * KIB
# A partial frame up to this size is copied back to the front of the shared buffer.
SMALL_FRAME_MAX = 16 * KIB
# So little of a large frame is no more than a promise and gets no buffer yet.
PROMISE_MAX = 4 * KIB
# Measured: below this, one read and one sendmsg beat sendmsg + sendfile.
COPIED_SLICE_MAX = 64 * KIB
# What is kept of a peer that goes on sending while its frames are paused.
UNREAD_SIZE_MAX = 64 * KIB
PARTS_PER_SEND_MAX = 256
# Replies to the frames of one read leave together, unless they are many: who does not read them gets no more.
PARTS_UNSENT_MAX = 128
# Of thousands of small requests in one read, so many are handled before others have their turn.
FRAMES_PER_TURN_MAX = 256
SWEEP_INTERVAL_S = 5.0
FRAME_BYTES_PER_SECOND_MIN = 1 * KIB

now_ns = time.monotonic_ns
_size_of = Struct(">i").unpack_from


class SocketConnection:
    """One accepted socket: cuts frames, queues replies, feels back-pressure."""

    __slots__ = (
        "_closed",
        "_cut_asked",
        "_flush_asked",
        "_frame",
        "_last_heard",
        "_last_progress",
        "_network",
        "_out",
        "_partial_since",
        "_paused",
        "_reading",
        "_session",
        "_socket",
        "_starved",
        "_unread",
        "_writing",
        "local_port",
        "peer_host",
        "peer_port",
    )

    def __init__(self, network: "RealNetwork", sock: socket.socket, peer: tuple[str, int]) -> None:
        self._network = network
        self._socket = sock
        self.peer_host, self.peer_port = peer
        self.local_port: int = sock.getsockname()[1]
        self._session: Session | None = None
        self._unread: bytes | bytearray = b""
        self._frame: FrameBuffer | None = None
        self._out: deque[Part] = deque()
        self._last_progress = self._partial_since = 0.0
        self._last_heard = now_ns()
        self._closed = self._paused = self._reading = self._writing = self._starved = False
        self._cut_asked = self._flush_asked = False

    def start(self, session: Session) -> None:
        self._session = session
        self._watch(True)

    # -- reading ---------------------------------------------------------------------------

    def _watch(self, wanted: bool) -> None:
        if wanted != self._reading and not self._closed:
            self._reading = wanted
            if wanted:
                self._network.loop.add_reader(self._socket.fileno(), self._readable)
            else:
                self._network.loop.remove_reader(self._socket.fileno())

    def _readable(self) -> None:
        network = self._network
        network.is_reading = True
        try:
            if self._paused or self._writing:
                self._read_ahead()
            elif self._frame is not None:
                self._read_large(self._frame)
            else:
                kept = len(self._unread)
                if kept:
                    network.received[:kept] = self._unread
                count = self._socket.recv_into(network.received_view[kept:] if kept else network.received_view)
                if count == 0:
                    self._drop(None)
                    return
                self._unread = b""
                self._last_heard = network.turn_began = now_ns()
                self._cut(network.received_view, kept + count)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._drop(error)
        finally:
            network.is_reading = False
            if network.unflushed:
                network.flush()

    def _read_ahead(self) -> None:
        """Keep reading a little while paused: that is how a peer's departure shows."""
        data = self._socket.recv(UNREAD_SIZE_MAX)
        if not data:
            self._drop(None)
            return
        self._unread += data
        if len(self._unread) >= UNREAD_SIZE_MAX:
            self._watch(False)

    def _read_large(self, buffer: FrameBuffer) -> None:
        if buffer.filled == len(buffer.data) and not self._network.pool.grow(buffer):
            self._starved = True
            self._watch(False)
            self._network.starving.append(self)
            return
        end = min(len(buffer.data), buffer.size)
        view = memoryview(buffer.data)
        count = self._socket.recv_into(view[buffer.filled : end])
        if count == 0:
            self._drop(None)
            return
        buffer.filled += count
        if buffer.filled == buffer.size:
            self._frame = None
            self._network.turn_began = now_ns()
            cast(Session, self._session).frame(view[: buffer.size])
            self._network.give_back(buffer)

    def _cut(self, view: memoryview, end: int) -> None:
        """Hand over every whole frame in view[:end] and keep the rest for later."""
        session = cast(Session, self._session)
        size_max = self._network.limits.frame_size_max
        position = 0
        frames_left = FRAMES_PER_TURN_MAX
        while end - position >= 4 and not (self._paused or self._closed or self._writing):
            if not frames_left:
                self._cut_more_later()
                break
            frames_left -= 1
            size: int = _size_of(view, position)[0]
            if size <= 0 or size > size_max:
                self._network.say_once(self.peer_host, size)
                self.close()
                return
            after = position + 4 + size
            if after > end:
                if size > SMALL_FRAME_MAX and end - position > PROMISE_MAX:
                    self._frame = self._network.pool.take(size, view[position + 4 : end], self._network.now())
                    return
                break
            is_large = session.frame(view[position + 4 : after])
            position = after
            if is_large or len(self._out) >= PARTS_UNSENT_MAX:
                self.flush()
        if position == end:
            self._partial_since = 0.0
        elif not self._closed:
            self._unread = bytes(view[position:end])
            # A byte now and then does not start the clock of the same frame anew.
            if position or not self._partial_since:
                self._partial_since = self._network.now()

    def _cut_more_later(self) -> None:
        """Let others have their turn; nothing more is read until what is here has been cut."""
        self._watch(False)
        self._ask_cut()

    def _ask_cut(self) -> None:
        if not self._cut_asked:
            self._cut_asked = True
            self._network.loop.call_soon(self._catch_up)

    def feed_again(self) -> None:
        """Try again after memory was given back."""
        self._starved = False
        self._watch(True)

    def pause_frames(self) -> None:
        self._paused = True

    def resume_frames(self) -> None:
        if self._paused:
            self._paused = False
            self._ask_cut()

    def _catch_up(self) -> None:
        self._cut_asked = False
        if self._closed or self._writing:
            return
        # Nobody took what came meanwhile: the peer's time for the rest of a frame begins now.
        self._partial_since = 0.0
        if self._frame is not None:
            self._frame.started = self._network.now()
        if self._unread and not self._paused:
            self._network.turn_began = now_ns()
            self._cut_unread()
        if not self._starved and not self._cut_asked and len(self._unread) < UNREAD_SIZE_MAX:
            self._watch(True)
        self._network.flush()

    def _cut_unread(self) -> None:
        """Cut what was read ahead. A large frame under way is read together with it."""
        data = bytearray()
        if self._frame is not None:
            buffer, self._frame = self._frame, None
            data += buffer.size.to_bytes(4, "big") + memoryview(buffer.data)[: buffer.filled]
            self._network.give_back(buffer)
        data += self._unread
        self._unread = b""
        self._cut(memoryview(data), len(data))

    # -- writing ---------------------------------------------------------------------------

    def send(self, parts: Sequence[Part]) -> None:
        if self._closed:
            return
        self._out.extend(parts)
        if not self._flush_asked and not self._writing:
            self._flush_asked = True
            self._network.ask_flush(self)

    def send_now(self, parts: Sequence[Part]) -> None:
        if self._closed:
            return
        if self._out or len(parts) != 1 or type(parts[0]) is not bytes:
            self._out.extend(parts)
            if not self._writing:
                self.flush()
            return
        # Most replies that were waited for: one piece, with nothing before it.
        data = parts[0]
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._drop(error)
            return
        if sent < len(data):
            self._out.append(memoryview(data)[sent:])
            self.flush()

    def unsent_in_memory(self) -> int:
        return sum(len(cast(bytes, part)) for part in self._out if type(part) is not FileSlice)

    def unsent_size(self) -> int:
        return sum(part.size if type(part) is FileSlice else len(cast(bytes, part)) for part in self._out)

    def flush(self) -> None:
        self._flush_asked = False
        if self._closed:
            return
        try:
            while self._out:
                self._send_some()
        except (BlockingIOError, InterruptedError):
            self._wait_writable()
        except OSError as error:
            self._drop(error)
        else:
            if self._writing:
                self._writing = False
                self._network.unsent.let_go(self)
                self._network.loop.remove_writer(self._socket.fileno())
                self._ask_cut()

    def _wait_writable(self) -> None:
        if not self._writing:
            self._writing = True
            self._last_progress = self._network.now()
            self._network.loop.add_writer(self._socket.fileno(), self.flush)
            for victim in self._network.unsent.hold(self, self.unsent_in_memory()):
                log.warning(
                    "closing the connection from %s:%d: it does not take its replies, and memory is short",
                    victim.peer_host,
                    victim.peer_port,
                )
                victim._drop(None)

    def _send_some(self) -> None:
        """One system call's worth. Raises BlockingIOError when the peer is full."""
        out = self._out
        first = out[0]
        if type(first) is FileSlice:
            if first.size > COPIED_SLICE_MAX:
                self._send_file(first)
                return
        elif len(out) == 1:
            data = cast(bytes, first)
            sent = self._socket.send(data)
            self._progress()
            if sent == len(data):
                out.clear()
            else:
                out[0] = memoryview(data)[sent:]
            return
        gathered: list[bytes | bytearray | memoryview] = []
        more = 0
        for part in out:
            if type(part) is not FileSlice:
                gathered.append(cast(bytes, part))
            elif part.size <= COPIED_SLICE_MAX:
                data = part.file.read(part.size, part.position)
                if len(data) < part.size:
                    # The log was cut meanwhile. Fewer bytes than promised would shift all that follows.
                    raise _too_short(part)
                gathered.append(data)
            else:
                more = socket.MSG_MORE
                break
            if len(gathered) == PARTS_PER_SEND_MAX:
                break
        sent = self._socket.sendmsg(gathered, (), more)
        self._progress()
        self._forget(sent, gathered)

    def _send_file(self, piece: FileSlice) -> None:
        file = cast(RealFile, piece.file)
        sent = os.sendfile(self._socket.fileno(), file.fd, piece.position, piece.size)
        if sent == 0:
            raise _too_short(piece)
        self._progress()
        if sent == piece.size:
            self._out.popleft()
        else:
            self._out[0] = FileSlice(piece.file, piece.position + sent, piece.size - sent)

    def _forget(self, sent: int, gathered: Iterable[bytes | bytearray | memoryview]) -> None:
        """Drop what has left; keep the unsent rest of the part that was cut."""
        out = self._out
        for buffer in gathered:
            size = len(buffer)
            if sent < size:
                if sent:
                    out[0] = memoryview(buffer)[sent:]
                return
            sent -= size
            out.popleft()

    def _progress(self) -> None:
        if self._writing:
            self._last_progress = self._network.now()

    # -- ending ----------------------------------------------------------------------------

    def close(self) -> None:
        """Close after sending what the socket takes at once."""
        if not self._closed:
            if self._out and not self._writing:
                with contextlib.suppress(OSError):
                    while self._out:
                        self._send_some()
            self._drop(None)

    def _drop(self, error: Exception | None) -> None:
        if self._closed:
            return
        network = self._network
        self._watch(False)
        self._closed = True
        if self._writing:
            network.unsent.let_go(self)
            network.loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._out.clear()
        self._unread = b""
        network.connections.discard(self)
        if self._frame is not None:
            buffer, self._frame = self._frame, None
            network.give_back(buffer)
        if self._session is not None:
            self._session.lost(error)

    def overdue(self, now: float) -> str | None:
        """Why this connection should be cut off, if it should."""
        limits = self._network.limits
        if self._writing:
            if now - self._last_progress > limits.send_stall_s_max:
                return "it does not read its replies"
            return None
        if self._paused or self._cut_asked:
            return None
        if self._frame is not None:
            waited, have = now - self._frame.started, self._frame.filled
        elif self._unread:
            waited, have = now - self._partial_since, len(self._unread)
        elif now - self._last_heard / 1e9 > limits.idle_s_max:
            return "it was idle for too long"
        else:
            return None
        if waited > limits.frame_s_max and have < waited * FRAME_BYTES_PER_SECOND_MIN:
            return "its frame does not arrive"
        return None


def _too_short(piece: FileSlice) -> OSError:
    return OSError(errno.EIO, "the file is shorter than the slice that was promised", piece.file.path)


class RealNetwork:
    """Every socket of one event loop."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits = limits or Limits()
        self.received = bytearray(READ_SIZE)
        self.received_view = memoryview(self.received)
        self.pool = BufferPool(self.limits.memory_budget)
        self.unsent: UnsentBudget[SocketConnection] = UnsentBudget(self.limits.memory_budget)
        self.connections: set[SocketConnection] = set()
        self.starving: deque[SocketConnection] = deque()
        self.unflushed: list[SocketConnection] = []
        self.is_reading = False
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._dialing: set[asyncio.Task[None]] = set()
        self._strangers: dict[str, float] = {}
        self.turn_began = 0
        """When the frames that are handed over now were at hand, by `now_ns`."""

    def limit(self, limits: Limits) -> None:
        self.limits = limits
        self.pool.budget = self.unsent.budget = limits.memory_budget

    now = staticmethod(time.monotonic)
    now_ns = staticmethod(time.monotonic_ns)

    def usage(self) -> NetworkUsage:
        return NetworkUsage(
            buffered=self.pool.used,
            budget=self.limits.memory_budget,
            unsent=sum(connection.unsent_in_memory() for connection in self.connections),
        )

    def listen(self, host: str, port: int) -> ServerSocket:
        self._watch_time()
        return ServerSocket(self, bound_sockets(host, port, self.limits))

    def connect(self, host: str, port: int, opened: Opened) -> None:
        task = self.loop.create_task(self._connect(host, port, opened))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)

    async def _connect(self, host: str, port: int, opened: Opened) -> None:
        try:
            sock = await dial(host, port)
        except OSError as error:
            opened(error)
        else:
            self._watch_time()
            reset = self.welcome(sock, (host, port), opened)
            if reset is not None:
                opened(reset)

    def welcome(self, sock: socket.socket, address: tuple[str, int], accept: Accept | Opened) -> OSError | None:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = SocketConnection(self, sock, address[:2])
        except OSError as error:  # reset before it was accepted
            sock.close()
            return error
        session = accept(connection)
        if session is None:
            sock.close()
            return None
        self.connections.add(connection)
        connection.start(session)
        return None

    def ask_flush(self, connection: SocketConnection) -> None:
        """Send at the end of the present read, or when the loop comes round: a turn of its own costs a system call."""
        if not self.unflushed and not self.is_reading:
            self.loop.call_soon(self.flush)
        self.unflushed.append(connection)

    def flush(self) -> None:
        while self.unflushed:
            asked, self.unflushed = self.unflushed, []
            for connection in asked:
                connection.flush()

    def give_back(self, buffer: FrameBuffer) -> None:
        self.pool.give_back(buffer)
        while self.starving:
            self.starving.popleft().feed_again()

    def say_once(self, host: str, size: int) -> None:
        """Log a stranger on the port (HTTP, TLS, noise) once a minute per address."""
        now = self.now()
        if now - self._strangers.get(host, -60.0) >= 60.0:
            if len(self._strangers) > 1000:
                self._strangers.clear()
            self._strangers[host] = now
            log.warning("closing a connection from %s: a frame of %d bytes is not possible", host, size)

    def _watch_time(self) -> None:
        if self._sweep_timer is None:
            self._sweep_timer = self.loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    def _sweep(self) -> None:
        now = self.now()
        for connection in list(self.connections):
            reason = connection.overdue(now)
            if reason is not None:
                log.info("closing the connection from %s:%d: %s", connection.peer_host, connection.peer_port, reason)
                connection.close()
        self._sweep_timer = self.loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    def stop(self) -> None:
        """Drop every connection."""
        for task in self._dialing:
            task.cancel()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        self.flush()
        for connection in list(self.connections):
            connection.close()
