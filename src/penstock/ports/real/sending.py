"""The writing half of a connection: the queue of replies, and what it waits for.

Small parts are sent together with one `sendmsg`, large slices of files with `sendfile`. A connection waits for a peer
that does not read, or for the disk if a slice is not in the page cache. If a slice cannot be read, its owner is
notified and the connection is closed, because part of the response may have been sent. Extended by connection.py.
"""

import logging
import socket
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.ports.network import FileSlice, Part
from penstock.ports.real.close_reasons import REASONS
from penstock.ports.real.page_cache import LOADED_SIZE_MAX, NotCached
from penstock.ports.real.slices import ReadFailed, drop_sent, first_slices, read_slice, send_slice, size_in_memory

if TYPE_CHECKING:
    from penstock.ports.real.network import RealNetwork

log = logging.getLogger(__name__)

KIB: Final = 1024
# Measured: below this, one read and one sendmsg beat sendmsg + sendfile.
COPIED_SLICE_MAX: Final = 64 * KIB
PARTS_PER_SEND_MAX: Final = 256
# What a peer does not take of the slices that were copied for it is read again with the next system call.
COPIED_SIZE_MAX: Final = 128 * KIB
# A peer that reads less than this of its replies makes no progress.
SEND_STEP: Final = 16 * KIB


class ReplySender:
    """Sends replies in order through one socket."""

    __slots__ = (
        "_closed",
        "_flush_scheduled",
        "_last_progress",
        "_loading",
        "_network",
        "_out",
        "_sent_since",
        "_socket",
        "_writing",
        "peer_host",
        "peer_port",
    )
    copied_size_max = COPIED_SIZE_MAX
    """About how many bytes one system call may take, beside large slices."""

    def __init__(self, network: "RealNetwork", sock: socket.socket, peer: tuple[str, int]) -> None:
        self._network = network
        self._socket = sock
        self.peer_host, self.peer_port = peer
        self._out: deque[Part] = deque()
        self._last_progress = 0.0
        self._sent_since = 0
        self._closed = self._writing = self._loading = self._flush_scheduled = False

    def _all_sent(self) -> None:
        """Continue after a wait, when everything is sent."""
        raise NotImplementedError

    def _drop(self, error: Exception | None) -> None:
        """End the connection."""
        raise NotImplementedError

    def send(self, parts: Sequence[Part]) -> None:
        if self._closed:
            return
        self._out.extend(parts)
        if not self._flush_scheduled and not self._writing:
            self._flush_scheduled = True
            self._network.schedule_flush(self)

    def send_now(self, parts: Sequence[Part]) -> None:
        if self._closed:
            return
        if self._out or len(parts) != 1 or type(parts[0]) is not bytes:
            self._out.extend(parts)
            if not self._writing:
                self.flush()
            return
        # The most common reply: one part, with nothing queued before it.
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
        return size_in_memory(self._out)

    def flush(self) -> None:
        self._flush_scheduled = False
        if self._closed or self._loading:
            return
        try:
            while self._out:
                self._send_some()
        except (BlockingIOError, InterruptedError):
            self._wait_writable()
        except NotCached:
            self._wait_for_disk()
        except ReadFailed as failed:
            self._read_failed(failed)
        except OSError as error:
            self._drop(error)
        else:
            if self._writing:
                self._writing = False
                self._network.unsent.let_go(self)
                self._network.loop.remove_writer(self._socket.fileno())
                self._all_sent()

    def _wait_writable(self) -> None:
        if not self._writing:
            self._writing = True
            self._last_progress = self._network.now()
            self._sent_since = 0
            self._network.loop.add_writer(self._socket.fileno(), self.flush)
            self._network.hold_unsent(self)

    def _wait_for_disk(self) -> None:
        """Send nothing more until the next slices are in the page cache."""
        self._wait_writable()
        if self._closed:
            return
        self._loading = True
        self._network.loop.remove_writer(self._socket.fileno())
        self._network.page_cache.load(first_slices(self._out, LOADED_SIZE_MAX), self._loaded)

    def _loaded(self) -> None:
        self._loading = False
        if not self._closed:
            self._last_progress = self._network.now()
            self._network.loop.add_writer(self._socket.fileno(), self.flush)

    def stalled_s(self, now: float) -> float:
        """Return how long the peer has read none, or next to none, of its replies."""
        return now - self._last_progress

    def _send_some(self) -> None:
        """Send as much as one system call takes. Raises BlockingIOError when the peer's buffer is full."""
        out = self._out
        first = out[0]
        if isinstance(first, FileSlice):
            if first.size > COPIED_SLICE_MAX:
                self._send_file(first)
                return
        elif len(out) == 1:
            sent = self._socket.send(first)
            if self._writing:
                self._progress(sent)
            if sent == len(first):
                out.clear()
            else:
                out[0] = memoryview(first)[sent:]
            return
        gathered: list[bytes | bytearray | memoryview] = []
        more = 0
        room = self.copied_size_max
        for part in out:
            if not isinstance(part, FileSlice):
                gathered.append(part)
                room -= len(part)
            elif part.size <= COPIED_SLICE_MAX:
                gathered.append(self._network.page_cache.read(part) or read_slice(part))
                room -= part.size
            else:
                more = socket.MSG_MORE
                break
            if room <= 0 or len(gathered) == PARTS_PER_SEND_MAX:
                break
        sent = self._socket.sendmsg(gathered, (), more)
        if self._writing:
            self._progress(sent)
        drop_sent(out, sent, gathered)

    def _send_file(self, piece: FileSlice) -> None:
        self._network.page_cache.check(piece)
        sent = send_slice(self._socket.fileno(), piece)
        if self._writing:
            self._progress(sent)
        if sent == piece.size:
            self._out.popleft()
        else:
            rest = self._out[0] = FileSlice(piece.file, piece.position + sent, piece.size - sent, piece.owner)
            rest.is_cached = piece.is_cached

    def _progress(self, sent: int) -> None:
        self._sent_since += sent
        if self._sent_since >= SEND_STEP:
            self._sent_since = 0
            self._last_progress = self._network.now()

    def _read_failed(self, failed: ReadFailed) -> None:
        """Close: the response's size was sent, but its bytes cannot be read. The owner of the file handles that."""
        piece, error = failed.piece, failed.error
        self._network.closed["read_error"] += 1
        unread = f"{piece.size} bytes at position {piece.position} of {piece.file.path}"
        where = self.peer_host, self.peer_port
        log.warning("closing the connection from %s:%d: %s cannot be read: %s", *where, unread, error)
        self._drop(error)
        if piece.owner is not None:
            piece.owner.read_failed(piece, error)

    def evict(self, reason: str, *about: object) -> None:
        """Close without waiting for anything, and log why."""
        if not self._closed:
            self._network.closed[reason] += 1
            log.warning("closing the connection from %s:%d: " + REASONS[reason], self.peer_host, self.peer_port, *about)
            self._drop(None)
