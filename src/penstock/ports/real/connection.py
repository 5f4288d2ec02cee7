"""One socket of the network port: splits frames, and applies back-pressure. sending.py has its writing half.

All replies to the frames of one read are sent with one `sendmsg`. A frame that does not fit in one read moves to a
buffer of frame_memory.py. A peer that does not read its replies is not read. Driven by network.py.
"""

import contextlib
import logging
import socket
import time
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from penstock.ports.network import KeptFrame, Session, copied
from penstock.ports.real.frame_memory import FrameBuffer
from penstock.ports.real.page_cache import NotCached
from penstock.ports.real.sending import ReplySender
from penstock.ports.real.slices import ReadFailed
from penstock.ports.real.thread_time import MARK_NS

if TYPE_CHECKING:
    from penstock.ports.real.network import RealNetwork

log = logging.getLogger(__name__)

KIB: Final = 1024
# A partial frame up to this size is copied back to the front of the shared buffer.
SMALL_FRAME_MAX: Final = 16 * KIB
# With so few bytes of a large frame it gets no buffer yet: the rest may never arrive.
UNBUFFERED_MAX: Final = 4 * KIB
# How much is read ahead from a peer that sends while its frames are paused.
UNREAD_SIZE_MAX: Final = 64 * KIB
# Replies to the frames of one read are sent together, unless they are many: a peer that does not read gets no more.
PARTS_UNSENT_MAX: Final = 128
# How many of the small requests in one read are handled before other connections get a turn.
FRAMES_PER_TURN_MAX: Final = 256
# How long the larger requests in one read may take before other connections get a turn.
TURN_NS_MAX: Final = 3_000_000
# A frame that takes longer than this is reported to the watchdog.
HELD_NS_MIN: Final = 1_000_000

now_ns = time.monotonic_ns
_size_of = Struct(">i").unpack_from


class SocketConnection(ReplySender):
    """One connected socket."""

    __slots__ = (
        "_cut_scheduled",
        "_frame",
        "_frame_size_max",
        "_handed_over",
        "_last_received",
        "_partial_since",
        "_paused",
        "_reading",
        "_session",
        "_starved",
        "_unread",
        "is_dialed",
        "is_node",
        "local_port",
    )

    def __init__(self, network: "RealNetwork", sock: socket.socket, peer: tuple[str, int], *, is_dialed: bool) -> None:
        super().__init__(network, sock, peer)
        self.is_dialed = is_dialed
        self.is_node = False
        self._frame_size_max = network.limits.frame_size_max
        self.local_port: int = sock.getsockname()[1]
        self._session: Session | None = None
        self._unread: bytes | bytearray = b""
        self._frame: FrameBuffer | None = None
        self._handed_over: FrameBuffer | None = None
        self._partial_since = 0.0
        self._last_received = now_ns()
        self._paused = self._reading = self._starved = self._cut_scheduled = False

    @property
    def peer_certificate(self) -> bytes | None:
        return None

    def limit_frames(self, size_max: int | None) -> None:
        whole = self._network.limits.frame_size_max
        self._frame_size_max = whole if size_max is None else min(size_max, whole)

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
        # What this connection and others send meanwhile is sent below.
        network.is_reading = self._flush_scheduled = True
        try:
            if self._paused or self._writing:
                self._read_ahead()
            elif self._frame is not None:
                # Resumed, but not caught up yet: the large frame continues with the bytes that were read ahead.
                if self._unread:
                    self._read_ahead()
                else:
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
                self._last_received = network.turn_began = now_ns()
                self._cut(network.received_view, kept + count, self._last_received)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._drop(error)
        finally:
            network.is_reading = self._flush_scheduled = False
            if self._out and not self._writing:
                self.flush()
            if network.unflushed:
                network.flush()

    def _read_ahead(self) -> None:
        """Keep reading a little while paused, to notice when the peer disconnects."""
        # The read before the pause may have brought more than this already.
        room = UNREAD_SIZE_MAX - len(self._unread)
        if room > 0:
            data = self._socket.recv(room)
            if not data:
                self._drop(None)
                return
            self._unread += data
        if len(self._unread) >= UNREAD_SIZE_MAX:
            self._watch(False)

    def _read_large(self, buffer: FrameBuffer) -> None:
        if buffer.filled == buffer.end and not self._network.memory.grow(buffer):
            self._starve(buffer)
            return
        with memoryview(buffer.data) as view:
            count = self._socket.recv_into(view[buffer.filled : buffer.end])
        if count == 0:
            self._drop(None)
            return
        buffer.filled += count
        if buffer.filled == buffer.size:
            self._complete(buffer)

    def _complete(self, buffer: FrameBuffer) -> None:
        self._frame = None
        self._partial_since = 0.0
        self._last_received = self._network.turn_began = now_ns()
        self._network.thread_time.mark(self._last_received)
        session, frame = cast(Session, self._session), memoryview(buffer.data)[: buffer.size]
        self._handed_over = buffer
        session.frame(frame)
        held = now_ns() - self._last_received
        if held > HELD_NS_MIN:
            self._network.held(session, frame, held)
        if self._handed_over is not None:
            self._handed_over = None
            self._network.give_back(buffer)

    def keep_frame(self, frame: memoryview) -> KeptFrame:
        buffer, self._handed_over = self._handed_over, None
        if buffer is None:
            return copied(frame)
        return KeptFrame(frame, partial(self._network.give_back, buffer, is_reusable=False))

    def _starve(self, buffer: FrameBuffer) -> None:
        """Read nothing more until there is memory for it."""
        self._starved = True
        self._watch(False)
        self._network.starve(buffer)

    def _cut(self, view: memoryview, end: int, began: int) -> None:
        """Pass on every whole frame in view[:end], beginning at a time by `now_ns`, and keep the rest for later."""
        session = self._session
        assert session is not None, "a connection is read once it has a session"
        size_max = self._frame_size_max
        position = 0
        frames_left = FRAMES_PER_TURN_MAX
        turn_ends, check_at = began + TURN_NS_MAX, began + MARK_NS
        while end - position >= 4 and not (self._paused or self._closed or self._writing):
            if not frames_left:
                self._cut_more_later()
                break
            frames_left -= 1
            size: int = _size_of(view, position)[0]
            if size <= 0 or size > size_max:
                self._network.log_once(self.peer_host, size)
                self.close()
                return
            after = position + 4 + size
            if after > end:
                if size > SMALL_FRAME_MAX and end - position > UNBUFFERED_MAX:
                    self._frame = self._network.memory.take(self, size, view[position + 4 : end], self._network.now())
                    return
                break
            is_large = session.frame(view[position + 4 : after])
            ended = now_ns()
            if ended - began > HELD_NS_MIN:
                self._network.held(session, view[position + 4 : after], ended - began)
            if ended > check_at:
                self._network.thread_time.mark(ended)
                check_at = min(ended + MARK_NS, turn_ends)
                if ended > turn_ends:
                    frames_left = 0
            began = ended
            position = after
            if is_large or len(self._out) >= PARTS_UNSENT_MAX:
                self.flush()
        if position == end:
            self._partial_since = 0.0
        elif not self._closed:
            self._unread = bytes(view[position:end])
            # A byte now and then does not restart the timeout of the same frame.
            if position or not self._partial_since:
                self._partial_since = self._network.now()

    def _cut_more_later(self) -> None:
        """Let other connections have a turn; nothing more is read until the frames that have arrived are handled."""
        self._watch(False)
        self._schedule_cut()

    def _all_sent(self) -> None:
        self._schedule_cut()

    def _schedule_cut(self) -> None:
        if not self._cut_scheduled:
            self._cut_scheduled = True
            self._network.loop.call_soon(self._catch_up)

    def feed_again(self) -> None:
        """Resume reading: memory is available."""
        self._starved = False
        if self._frame is not None:
            self._frame.restart_timeout(self._network.now())
        if self._unread:
            self._schedule_cut()
        else:
            self._watch(True)

    def is_read(self) -> bool:
        return not (self._paused or self._starved or self._cut_scheduled)

    def pause_frames(self) -> None:
        self._paused = True

    def resume_frames(self) -> None:
        if self._paused:
            self._paused = False
            self._schedule_cut()

    def _catch_up(self) -> None:
        self._cut_scheduled = False
        if self._closed or self._writing:
            return
        # Nothing was read meanwhile: the timeout for the rest of a frame begins now.
        self._partial_since = 0.0
        if self._frame is not None:
            self._frame.restart_timeout(self._network.now())
        if self._unread and not (self._paused or self._starved):
            self._network.turn_began = now_ns()
            self._network.thread_time.mark(self._network.turn_began)
            self._cut_unread()
        if not self._starved and not self._cut_scheduled and len(self._unread) < UNREAD_SIZE_MAX:
            self._watch(True)
        self._network.flush()

    def _cut_unread(self) -> None:
        """Handle the frames that were read ahead. They begin with the rest of a large frame, if one is incomplete."""
        # Writable: the log writes offsets into the batches of a frame in place.
        unread, self._unread = memoryview(bytearray(self._unread)), b""
        buffer = self._frame
        if buffer is not None:
            unread = unread[self._network.memory.fill(buffer, unread) :]
            if unread and buffer.filled < buffer.size:
                self._unread = bytes(unread)
                self._starve(buffer)
                return
            if buffer.filled == buffer.size:
                self._complete(buffer)
        if unread and not self._closed:
            self._cut(unread, len(unread), now_ns())

    # -- ending ----------------------------------------------------------------------------

    def close(self) -> None:
        """Close after sending what the socket accepts without blocking."""
        if not self._closed:
            if self._out and not self._writing:
                with contextlib.suppress(OSError, ReadFailed, NotCached):
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
        # The session refers to its connection: without this, each would wait for a garbage collection.
        session, self._session = self._session, None
        if session is not None:
            session.lost(error)

    def overdue(self, now: float) -> str | None:
        """Return the reason to close this connection, if there is one; see `REASONS`."""
        limits = self._network.limits
        if self._loading:
            return None
        if self._writing:
            return "send_timeout" if self.stalled_s(now) > limits.send_stall_s_max else None
        if not self.is_read():
            return None
        if self._frame is not None:
            is_late = self._network.memory.overdue(self._frame, now, limits.frame_s_max)
            return "frame_timeout" if is_late else None
        if self._unread:
            return "frame_timeout" if now - self._partial_since > limits.frame_s_max else None
        return "idle" if now - self._last_received / 1e9 > limits.idle_s_max else None
