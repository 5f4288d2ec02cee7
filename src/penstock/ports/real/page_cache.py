"""Slices of files that are not in the page cache: they are read off the event loop before they are sent.

Sending such a slice would stop the loop, and so all other clients, until the disk has read it. Called by connection.py,
which sends a slice only if it is in the cache, and otherwise waits for `load`. While a peer reads a file from the disk
in order, the kernel is asked for the bytes after those that are sent, so that the next slice need not wait.

Whether bytes are in the cache is a guess: a few of their pages are tried. A wrong guess costs time, nothing else.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, cast

from penstock.ports.network import FileSlice
from penstock.ports.real.disk import NOWAIT, RealFile

KIB: Final = 1024
# How much of a reply is read before it is sent.
LOADED_SIZE_MAX: Final = 4 * 1024 * KIB
# One call reads this much. Each call competes with the event loop for the interpreter lock.
READ_SIZE: Final = 1024 * KIB
# Slow disks serve several reads at a time.
THREADS: Final = 4
# A slice of this size or more is tried in three places, a smaller one in the middle.
TRIED_OFTEN_SIZE_MIN: Final = 256 * KIB

_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


class NotCached(Exception):
    """Sending a slice would wait for the disk."""


class PageCache:
    """What the connections of one event loop know of the page cache."""

    def __init__(self) -> None:
        self.is_supported = NOWAIT != 0
        """Whether the system and the file system can say what is cached; otherwise everything counts as cached."""
        self.load_count = 0
        self._byte = bytearray(1)
        self._executor: ThreadPoolExecutor | None = None

    def read(self, piece: FileSlice) -> bytearray | None:
        """Return the bytes of a slice, or None if only a read that may wait can tell. Raises NotCached."""
        if piece.is_cached or not self.is_supported:
            return None
        data = bytearray(piece.size)
        return data if self._try(cast(RealFile, piece.file), data, piece.position) else None

    def check(self, piece: FileSlice) -> None:
        """Raise NotCached if sending a slice would wait for the disk."""
        if piece.is_cached or not self.is_supported:
            return
        file, position, size = cast(RealFile, piece.file), piece.position, piece.size
        for place in (2,) if size < TRIED_OFTEN_SIZE_MIN else (2, 1, 3):
            if not self._try(file, self._byte, position + size * place // 4):
                return
        piece.is_cached = True
        if position < file.read_ahead_end < position + 2 * size:
            begin, file.read_ahead_end = file.read_ahead_end, file.read_ahead_end + 2 * size
            self._submit(partial(_read_ahead, file, begin, 2 * size))

    def _try(self, file: RealFile, buffer: bytearray, position: int) -> bool:
        """Fill a buffer from the cache, or raise NotCached; return False if it is unknown what is cached."""
        try:
            count = os.preadv(file.fd, [buffer], position, NOWAIT)
        except BlockingIOError:
            raise NotCached from None
        except OSError as error:
            # Other errors are reported when the slice is sent.
            self.is_supported = error.errno not in _UNSUPPORTED
            return False
        if count < len(buffer):
            raise NotCached
        return True

    def load(self, pieces: Sequence[FileSlice], done: Callable[[], None]) -> None:
        """Read slices into the cache off the event loop; then call `done` on the loop."""
        self.load_count += 1
        loop = asyncio.get_running_loop()
        future = self._submit(partial(_load, pieces))
        if future is None:
            # Sending the slices waits for the disk.
            for piece in pieces:
                piece.is_cached = True
            loop.call_soon(done)
        else:
            future.add_done_callback(partial(_pass_on, loop, pieces, done))

    def _submit(self, call: Callable[[], None]) -> "Future[None] | None":
        """Run a call in another thread; return None if the system allows no more threads."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock-read")
        try:
            return self._executor.submit(call)
        except RuntimeError:
            return None

    def stop(self) -> None:
        if self._executor is not None:
            executor, self._executor = self._executor, None
            executor.shutdown(wait=False, cancel_futures=True)


def _load(pieces: Sequence[FileSlice]) -> None:
    for piece in pieces:
        cast(RealFile, piece.file).read_ahead(piece.position, piece.size)
    scratch = memoryview(bytearray(min(READ_SIZE, max(piece.size for piece in pieces))))
    for piece in pieces:
        position, end = piece.position, piece.position + piece.size
        # An error shows again when the slice is sent.
        with contextlib.suppress(OSError):
            while position < end:
                count = os.preadv(cast(RealFile, piece.file).fd, [scratch[: end - position]], position)
                if count == 0:
                    break
                position += count
    last = pieces[-1]
    file, end = cast(RealFile, last.file), last.position + last.size
    file.read_ahead(end, 2 * last.size)
    file.read_ahead_end = end + 2 * last.size


def _read_ahead(file: RealFile, position: int, size: int) -> None:
    """Ask for bytes that are read next, unless they are cached: reading from the disk has then ended."""
    try:
        os.preadv(file.fd, [bytearray(1)], position + size // 2, NOWAIT)
    except BlockingIOError:
        file.read_ahead(position, size)
    except OSError:
        file.read_ahead_end = 0
    else:
        file.read_ahead_end = 0


def _pass_on(
    loop: asyncio.AbstractEventLoop, pieces: Sequence[FileSlice], done: Callable[[], None], future: "Future[None]"
) -> None:
    if future.cancelled() or loop.is_closed():
        return
    # Also after an error: sending the slice then waits for the disk, and reports what is wrong.
    for piece in pieces:
        piece.is_cached = True
    with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
        loop.call_soon_threadsafe(done)
