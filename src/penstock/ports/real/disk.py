"""The disk port on the operating system.

Calls run in the caller's thread, on the page cache, except those whose names end in `_later`. The
kernel (ring.py) syncs files where it can, otherwise a few threads do, which also sync folders; another thread removes
files.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import queue
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.ports.disk import Buffer, File
from penstock.ports.real.c_library import find_function
from penstock.ports.real.folder_lock import RealFolderLock, lock_folder
from penstock.ports.real.ring import Ring

# Measured with 36 files: two leave the disk idle, sixteen cost more in wake-ups than they gain.
SYNC_THREADS = 4
# How long a group may delay the syncs of others.
GROUP_WAIT_S_MAX = 0.004
Done = Callable[[OSError | None], None]
NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
"""The flag of a read that fails rather than wait for the disk; 0 if the system has none."""
# The kernel reads ahead about this much.
PROBE_INTERVAL = 128 * 1024
_probe = bytearray(1)


class Syncable(Protocol):
    def sync(self) -> None: ...


SyncRequest = tuple[Syncable, Done]

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
# pwritev rejects longer lists.
BUFFERS_PER_WRITE_MAX = 1024
ZEROS_PER_WRITE = 1024 * 1024

# Writes out a range without a journal commit, which would delay other syncs.
_sync_file_range = find_function("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
# Wait for writes under way, write the rest, wait for that.
_WRITE_AND_WAIT = 1 | 2 | 4
_syncfs = find_function("syncfs", ctypes.c_int)
# On these, syncfs makes data and names durable. Over FUSE, for example, it may not reach the disk, and ext2 does not
# flush the disk's cache.
VOLUME_SYNC_TYPES = frozenset({"ext4", "xfs", "tmpfs"})
MOUNTS_PATH = "/proc/self/mountinfo"


def file_system_type(path: str) -> str:
    """Return the type of the file system with the path, "" if it is unknown."""
    try:
        device = os.stat(path).st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        with open(MOUNTS_PATH, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.split()
                if words[2] == number:
                    return words[words.index("-") + 1]
    except (OSError, ValueError, IndexError):
        pass
    return ""


class RealFile:
    """A descriptor that closes with its last reference, so slices in flight stay readable."""

    __slots__ = ("__weakref__", "fd", "path", "read_ahead_end")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.read_ahead_end = 0
        """Where reading ahead has ended, if the file is read from the disk; see page_cache.py."""

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
        """Finish a short write. On a full disk the next attempt raises its errno."""
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

    def ready_size(self, position: int, size: int) -> int:
        end = position + size
        for at in range(position, end if NOWAIT else position, PROBE_INTERVAL):
            try:
                os.preadv(self.fd, [_probe], at, NOWAIT)
            except BlockingIOError:
                self.read_ahead(at, end - at)
                self.read_ahead_end = end
                return at - position
            except OSError:
                # The file system cannot tell, or the read will report the error.
                break
        return size

    def read_ahead(self, position: int, size: int) -> None:
        """Let the system read these bytes from the disk, without waiting for them."""
        with contextlib.suppress(OSError):
            os.posix_fadvise(self.fd, position, size, os.POSIX_FADV_WILLNEED)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def sync(self) -> None:
        os.fdatasync(self.fd)

    def write_out(self, position: int, size: int) -> None:
        if _sync_file_range is None or _sync_file_range(self.fd, position, size, _WRITE_AND_WAIT) != 0:
            os.fdatasync(self.fd)

    def check_written(self) -> None:
        if _sync_file_range is None:
            os.fdatasync(self.fd)
        elif _sync_file_range(self.fd, 0, 0, _WRITE_AND_WAIT) != 0:
            # Reported once: a sync after it could succeed.
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), self.path)

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()


def _extend(fd: int, present: int, size: int) -> None:
    """Extend a file with allocated bytes; where the system cannot allocate them they are written."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, present, size - present)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
    while present < size:
        present += os.pwrite(fd, bytes(min(size - present, ZEROS_PER_WRITE)), present)


class _OpenFolder:
    """A folder whose names are to be synced; the sync thread opens it, because that may take long."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def sync(self) -> None:
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class _SyncGroup:
    """Files that are synced concurrently and reported together, because every report interrupts the loop."""

    __slots__ = ("finished", "left", "times", "waiting")

    def __init__(self, requests: list[SyncRequest]) -> None:
        self.waiting = requests
        self.left = len(requests)
        self.finished: list[tuple[Done, OSError | None]] = []
        self.times: list[int] = []


class SyncThreads:
    """fdatasync off the loop. Requests that arrive while a group of files is synced become the next group.

    The more requests there are, the more of them share a sync, a journal commit of the file system, and a wake-up of
    the loop. A group that takes long because there is much to write does not delay those behind it for long.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._requests: list[SyncRequest] = []
        self._groups: queue.SimpleQueue[_SyncGroup | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._under_way: _SyncGroup | None = None
        self._was_single = True
        self.on_time: Callable[[int], None] | None = None
        self._group_timer: asyncio.TimerHandle | None = None

    def ask(self, file: Syncable, done: Done) -> None:
        self._requests.append((file, done))
        if len(self._requests) > 1:
            return
        if self._under_way is None and self._was_single:
            # The last request came alone too: waiting for the end of the turn would only cost time.
            self._start_group()
        elif self._under_way is None:
            self._loop.call_soon(self._start_group)
        else:
            self._group_timer = self._loop.call_later(GROUP_WAIT_S_MAX, self._start_group)

    def _start_group(self) -> None:
        if self._group_timer is not None:
            self._group_timer.cancel()
            self._group_timer = None
        if not self._requests:
            return
        group, self._requests = _SyncGroup(self._requests), []
        self._was_single = group.left == 1
        self._under_way = group
        self._start_threads()
        if not self._threads:
            self._sync_all(group)
        for _ in range(min(group.left, len(self._threads))):
            self._groups.put(group)

    def _start_threads(self) -> None:
        """Start all threads at the same time: one that is busy with a long sync must not be the only one."""
        while len(self._threads) < SYNC_THREADS:
            thread = threading.Thread(target=self._work, name=f"sync-{len(self._threads)}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the operating system has no more: the next group tries again
                return
            self._threads.append(thread)

    def _report(self, group: _SyncGroup) -> None:
        if group is self._under_way:
            self._under_way = None
            # The next group runs while this one is reported.
            self._start_group()
        if self.on_time is not None:
            for nanoseconds in group.times:
                self.on_time(nanoseconds)
        for done, error in group.finished:
            done(error)

    def stop(self) -> None:
        self._start_group()
        for _ in self._threads:
            self._groups.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _work(self) -> None:
        while (group := self._groups.get()) is not None:
            self._sync_all(group)

    def _sync_all(self, group: _SyncGroup) -> None:
        """Sync what no other thread has taken; the one that syncs the last file reports the group."""
        while (job := self._next_of(group)) is not None:
            file, done = job
            error = None
            begun = time.monotonic_ns()
            try:
                file.sync()
            except OSError as failure:
                error = failure
            with self._lock:
                group.times.append(time.monotonic_ns() - begun)
                group.finished.append((done, error))
                group.left -= 1
                is_last = group.left == 0
            if is_last:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._report, group)

    def _next_of(self, group: _SyncGroup) -> SyncRequest | None:
        with self._lock:
            return group.waiting.pop() if group.waiting else None


class RemovalThread:
    """Removes files off the loop: freeing the blocks of a large one can take longer than a sync."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._requests: queue.SimpleQueue[tuple[str, Done] | None] = queue.SimpleQueue()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._work, name="removals", daemon=True)
        self._thread.start()

    def ask(self, path: str, done: Done) -> None:
        self._requests.put((path, done))

    def stop(self) -> None:
        self._is_stopped = True
        self._requests.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._requests.get()) is not None and not self._is_stopped:
            path, done = job
            error = None
            try:
                _remove(path)
            except OSError as failure:
                error = failure
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(done, error)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


class RealDisk:
    """Files of the operating system. One instance serves one event loop."""

    def __init__(self) -> None:
        self._syncs: SyncThreads | None = None
        self._ring: Ring | None = None
        self._removals: RemovalThread | None = None
        self._on_time: Callable[[int], None] | None = None

    def time_syncs(self, on_time: Callable[[int], None]) -> None:
        """Call the function, on the loop, with the nanoseconds that each sync takes."""
        self._on_time = on_time
        for syncs in (self._syncs, self._ring):
            if syncs is not None:
                syncs.on_time = on_time

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        flags = os.O_RDWR if writable else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        return RealFile(path, os.open(path, flags | os.O_CLOEXEC, 0o644))

    def sync_later(self, file: File, done: Callable[[OSError | None], None]) -> None:
        threads = self._sync_threads()
        if self._ring is not None and isinstance(file, RealFile):
            self._ring.ask(file, done)
        else:
            threads.ask(file, done)

    def sync_tail_later(self, file: File, position: int, size: int, done: Callable[[OSError | None], None]) -> None:
        self.sync_later(file, done)

    def cut(self, file: File, size: int) -> None:
        file.truncate(size)

    def sync_folder_later(self, path: str, done: Callable[[OSError | None], None]) -> None:
        self._sync_threads().ask(_OpenFolder(path), done)

    def remove_later(self, path: str, done: Callable[[OSError | None], None]) -> None:
        if self._removals is None:
            self._removals = RemovalThread(asyncio.get_running_loop())
        self._removals.ask(path, done)

    def _sync_threads(self) -> SyncThreads:
        if self._syncs is None:
            loop = asyncio.get_running_loop()
            self._syncs = SyncThreads(loop)
            self._ring = Ring.open(loop, instead=self._syncs.ask)
            if self._on_time is not None:
                self.time_syncs(self._on_time)
        return self._syncs

    def stop(self) -> None:
        """Wait for the syncs under way and end their threads; the next start removes what is left to remove."""
        if self._ring is not None:
            self._ring.stop()
            self._ring = None
        if self._syncs is not None:
            self._syncs.stop()
            self._syncs = None
        if self._removals is not None:
            self._removals.stop()
            self._removals = None

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
        # Records and credentials are for the owner of the node only.
        try:
            os.mkdir(path, 0o700)
        except OSError:
            # It exists, or a folder above it is missing.
            os.makedirs(path, mode=0o700, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_folder(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_folder(self, path: str) -> None:
        _OpenFolder(path).sync()

    def sync_volume(self, path: str) -> bool:
        if _syncfs is None or _sync_file_range is None or file_system_type(path) not in VOLUME_SYNC_TYPES:
            return False
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _syncfs(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)
        finally:
            os.close(fd)
        return True

    def lock_folder(self, path: str) -> RealFolderLock:
        return lock_folder(path)

    def allocate(self, path: str, size: int) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            present = os.fstat(fd).st_size
            if size <= present:
                os.ftruncate(fd, size)
            else:
                _extend(fd, present, size)
        finally:
            os.close(fd)

    def space(self, path: str) -> tuple[int, int]:
        state = os.statvfs(path)
        return state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize

    def open_files_max(self) -> int:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return sys.maxsize if most == resource.RLIM_INFINITY else most

    def boot_id(self) -> str:
        try:
            with open(BOOT_ID_PATH, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, ValueError):
            return ""
