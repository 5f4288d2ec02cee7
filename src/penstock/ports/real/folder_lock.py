"""The `.lock` file of a data folder on the operating system.

One process uses a data folder at a time. Two kinds of lock guard it, because they do not see each other:

- `flock`, which every version of Penstock takes;
- an `fcntl` record lock on the whole file, which Apache Kafka and its tools take (`FileChannel.tryLock`).

The record lock belongs to the open file (`F_OFD_SETLK`) where the system has such locks. An ordinary POSIX
record lock belongs to the process: it is lost as soon as the process closes any descriptor of the file.
"""

import errno
import fcntl
import os
import struct
import sys

LOCK_FILE = ".lock"
# struct flock of fcntl(2): type, whence, start, length (0: to the end), process, which is 0 for an OFD lock.
_FLOCK = struct.Struct("hhqqi0q")
# Portable builds of Python, such as those that uv installs, do not name it.
_LINUX_OFD_SETLK = 37
_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", _LINUX_OFD_SETLK if sys.platform == "linux" else None)


class RealFolderLock:
    """A folder that this process has locked."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def lock_folder(path: str) -> RealFolderLock:
    """Lock a data folder; raise BlockingIOError if another process, or this one, has locked it."""
    fd = os.open(os.path.join(path, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _lock_record(fd, fcntl.LOCK_EX)
    except OSError:
        os.close(fd)
        raise
    return RealFolderLock(fd)


def is_folder_locked(path: str) -> bool:
    """Return whether a process has locked the folder; creates no file."""
    try:
        fd = os.open(os.path.join(path, LOCK_FILE), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        _lock_record(fd, fcntl.LOCK_SH)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _lock_record(fd: int, kind: int) -> None:
    try:
        if _OFD_SETLK is None:
            fcntl.lockf(fd, kind | fcntl.LOCK_NB)
        else:
            record = fcntl.F_WRLCK if kind == fcntl.LOCK_EX else fcntl.F_RDLCK
            fcntl.fcntl(fd, _OFD_SETLK, _FLOCK.pack(record, os.SEEK_SET, 0, 0, 0))
    except PermissionError as error:
        # POSIX allows EACCES beside EAGAIN for a lock that another process holds.
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
