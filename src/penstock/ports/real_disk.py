"""The disk port on the operating system.

Everything but `sync_later` happens in the caller's thread, on the page cache. Syncs run in
a few threads of their own and report back to the event loop, many at a time.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import queue
import shutil
import threading
from collections.abc import Callable, Sequence

from penstock.ports.disk import Buffer, File

# More than a few threads bring nothing: the file system merges concurrent commits by itself.
SYNC_THREADS = 4
# pwritev refuses longer lists.
BUFFERS_PER_WRITE_MAX = 1024


class RealFile:
    """A descriptor that closes with its last reference, so slices in flight stay readable."""

    __slots__ = ("__weakref__", "fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        if len(buffers) == 1:
            size = len(buffers[0])
            written = os.pwrite(self.fd, buffers[0], position)
        else:
            size = sum(len(buffer) for buffer in buffers)
            written = os.pwritev(self.fd, buffers[:BUFFERS_PER_WRITE_MAX], position)
        if written < size:
            self._write_rest(buffers, position, written, size)
        return size

    def _write_rest(self, buffers: Sequence[Buffer], position: int, written: int, size: int) -> None:
        """Finish a short write. A full disk shows here: the next attempt raises its errno."""
        rest = memoryview(b"".join(buffers))
        while written < size:
            count = os.pwrite(self.fd, rest[written:], position + written)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            written += count

    def read(self, size: int, position: int) -> bytes:
        return os.pread(self.fd, size, position)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        view = memoryview(buffer)
        filled = 0
        while filled < len(view):
            count = os.preadv(self.fd, [view[filled:]], position + filled)
            if count == 0:
                break
            filled += count
        return filled

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def sync(self) -> None:
        os.fdatasync(self.fd)

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


class RealFolderLock:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class SyncThreads:
    """fdatasync off the loop: a file waits its turn in a queue, results come back in bunches."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked: queue.SimpleQueue[tuple[File, Callable[[OSError | None], None]] | None] = queue.SimpleQueue()
        self._finished: list[tuple[Callable[[OSError | None], None], OSError | None]] = []
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def ask(self, file: File, done: Callable[[OSError | None], None]) -> None:
        if len(self._threads) < SYNC_THREADS:
            thread = threading.Thread(target=self._work, name=f"sync-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._asked.put((file, done))

    def stop(self) -> None:
        for _ in self._threads:
            self._asked.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _work(self) -> None:
        while (job := self._asked.get()) is not None:
            file, done = job
            error = None
            try:
                file.sync()
            except OSError as failure:
                error = failure
            with self._lock:
                self._finished.append((done, error))
                first = len(self._finished) == 1
            # One wake-up serves every sync that ends before the loop comes round.
            if first:
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            finished, self._finished = self._finished, []
        for done, error in finished:
            done(error)


class RealDisk:
    """Files of the operating system. One instance serves one event loop."""

    def __init__(self) -> None:
        self._syncs: SyncThreads | None = None

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        flags = os.O_RDWR if writable else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        return RealFile(path, os.open(path, flags | os.O_CLOEXEC, 0o644))

    def sync_later(self, file: File, done: Callable[[OSError | None], None]) -> None:
        if self._syncs is None:
            self._syncs = SyncThreads(asyncio.get_running_loop())
        self._syncs.ask(file, done)

    def stop(self) -> None:
        """Wait for the syncs under way and end their threads."""
        if self._syncs is not None:
            self._syncs.stop()
            self._syncs = None

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace_file(self, path: str, content: bytes) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        self.sync_folder(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_folder(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_folder(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock_folder(self, path: str) -> RealFolderLock:
        fd = os.open(os.path.join(path, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return RealFolderLock(fd)

    def space(self, path: str) -> tuple[int, int]:
        state = os.statvfs(path)
        return state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize
