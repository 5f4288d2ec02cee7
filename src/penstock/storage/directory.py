"""One data folder as a device: whether it still works, and which of its files are open.

The first failed sync takes the whole folder offline for good (`fail`): the kernel may have
dropped the pages, so a second try could only pretend. Logs ask `failure` before they
acknowledge anything. A write that the disk refuses, because it is full for example, makes the folder
read-only until write_probe.py finds that it takes writes again: logs ask `refusal` before they append.
"""

from collections.abc import Callable
from errno import (
    EACCES,
    EBADMSG,
    EDQUOT,
    EIO,
    EISDIR,
    ELOOP,
    ENOENT,
    ENOSPC,
    ENOTDIR,
    ENXIO,
    EPERM,
    EREMOTEIO,
    EROFS,
    EUCLEAN,
)
from typing import Any, Final, TypeVar

from penstock.model.job import Job, finish
from penstock.ports.disk import Disk, File
from penstock.storage.reserve import Reserve, is_no_room

OPEN_FILES_MAX: Final = 256
_T = TypeVar("_T")
UNREADABLE: Final = frozenset({EIO, ENOENT, ENXIO, EBADMSG, EUCLEAN, EREMOTEIO})
"""Errors that say that bytes are lost, not that the process has too many files open."""
UNOPENABLE: Final = UNREADABLE | {EACCES, EPERM, EISDIR, ENOTDIR, ELOOP}
"""Errors that say that a log cannot be opened, now or later, unless somebody repairs something."""
_CANNOT_WRITE: Final = frozenset({ENOSPC, EDQUOT, EIO, EROFS})


class OpenFiles:
    """Read handles of inactive segments, the longest unused dropped first.

    Handles are dropped and never closed: a slice that waits to be sent keeps its file.
    """

    __slots__ = ("_disk", "_files", "_most")

    def __init__(self, disk: Disk, most: int = OPEN_FILES_MAX) -> None:
        self._disk = disk
        self._most = most
        self._files: dict[str, File] = {}

    def get(self, path: str) -> File:
        file = self._files.pop(path, None)
        if file is None:
            file = self._disk.open(path, writable=False)
            while len(self._files) >= self._most:
                del self._files[next(iter(self._files))]
        self._files[path] = file
        return file

    def forget(self, path: str) -> None:
        self._files.pop(path, None)


class LogDirectory:
    """A data folder that all of its logs share."""

    __slots__ = (
        "disk",
        "failed_before",
        "failure",
        "monotonic",
        "on_failure",
        "on_refusal",
        "open_files",
        "path",
        "read_failures",
        "refusal",
        "reserve",
        "run",
    )

    def __init__(self, disk: Disk, path: str, monotonic: Callable[[], float] = lambda: 0.0) -> None:
        self.disk = disk
        self.path = path
        self.monotonic = monotonic
        self.failure: OSError | None = None
        self.failed_before = False
        """Whether the last process here stopped on a failed sync: what the cache shows may not be on disk."""
        self.on_failure: Callable[[OSError], None] = lambda error: None
        self.refusal: OSError | None = None
        """Why nothing is appended here: the folder is offline, or read-only for now."""
        self.on_refusal: Callable[[OSError], None] = lambda error: None
        self.reserve: Reserve | None = None
        self.run: Callable[[Job[Any], Callable[[Any, BaseException | None], None]], None] = _run_now
        """Runs long work of logs: in slices, under a node."""
        self.open_files = OpenFiles(disk)
        self.read_failures = 0
        """How many reads of logs have met an I/O error or a file that is too short."""

    def with_reserve(self, work: Callable[[], _T]) -> _T:
        """Do what may be done twice, with reserved space if the disk has no other."""
        return work() if self.reserve is None else self.reserve.with_reserve(work)

    def fail(self, error: OSError) -> None:
        """Take the folder offline. Nothing brings it back but a restart that reads it anew."""
        if self.failure is None:
            self.failure = self.refusal = error
            self.on_failure(error)

    @property
    def is_read_only(self) -> bool:
        return self.refusal is not None and self.failure is None

    def describe_refusal(self) -> str:
        """Say why nothing is appended here: where, and how much space is needed if the disk is full."""
        if not is_no_room(self.refusal):
            return f"disk error: {self.path} rejects writes: {self.refusal}"
        try:
            free = _mebibytes(self.disk.space(self.path)[1])
        except OSError:
            free = "an unknown amount"
        needed = "more space" if self.reserve is None else f"{_mebibytes(self.reserve.room_needed)} free"
        return f"disk full: {self.path} has {free} free and needs {needed} to accept writes"

    def write_failed(self, error: OSError) -> None:
        """The disk has refused a write of a log."""
        if error.errno in _CANNOT_WRITE:
            self.refuse_writes(error)

    def refuse_writes(self, error: OSError) -> None:
        """Append nothing until `accept_writes`."""
        if self.refusal is None:
            self.refusal = error
            self.on_refusal(error)

    def accept_writes(self) -> None:
        """The folder takes writes again, unless it is offline."""
        self.refusal = self.failure


def _mebibytes(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB"


def _run_now(job: Job[Any], done: Callable[[Any, BaseException | None], None]) -> None:
    try:
        value = finish(job)
    except OSError as error:
        done(None, error)
    else:
        done(value, None)
