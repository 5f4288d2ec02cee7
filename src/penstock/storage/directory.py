"""The state of a data folder: whether it accepts writes, and its open files.

The first failed sync takes the whole folder offline (`fail`): the kernel may have dropped the pages, so a second
attempt could succeed without writing them. Logs check `failure` before they acknowledge anything. A failed write, on a
full disk for example, makes the folder read-only until write_probe.py finds that it accepts writes again: logs check
`refusal` before they append.
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
from penstock.storage.open_writers import OpenWriters
from penstock.storage.reserve import Reserve, is_disk_full, mebibytes, without_path

OPEN_FILES_MAX: Final = 256
SYNCED_ALONE_MAX: Final = 4
"""More logs than this are made durable by a sync of the volume, which has to wait for other programs as well."""
_T = TypeVar("_T")
RunJob = Callable[[Job[Any], Callable[[Any, BaseException | None], None]], None]
"""Runs a job, at once or in slices, and calls back with its result or its error."""
UNREADABLE: Final = frozenset({EIO, ENOENT, ENXIO, EBADMSG, EUCLEAN, EREMOTEIO})
"""Errors that mean lost bytes, unlike too many open files."""
UNOPENABLE: Final = UNREADABLE | {EACCES, EPERM, EISDIR, ENOTDIR, ELOOP}
"""Errors that mean that a log cannot be opened until somebody repairs the file system."""
_CANNOT_WRITE: Final = frozenset({ENOSPC, EDQUOT, EIO, EROFS})


class OpenFiles:
    """Read handles of inactive segments; the least recently used is dropped first.

    Handles are dropped without closing them: a slice that waits to be sent still uses its file.
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

    def forget_folder(self, folder: str) -> None:
        for path in [path for path in self._files if path.startswith(f"{folder}/")]:
            del self._files[path]


class LogDirectory:
    """The state of one data folder, shared by all of its logs."""

    __slots__ = (
        "_found_count",
        "_found_is_durable",
        "disk",
        "failed_before",
        "failure",
        "has_damage",
        "monotonic",
        "on_failure",
        "on_refusal",
        "on_release",
        "open_files",
        "open_writers",
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
        """Whether a sync failed since the last clean stop: the page cache may show data that is not on disk."""
        self.on_failure: Callable[[OSError], None] = lambda error: None
        self.has_damage = False
        """Whether damage was found in any log since the start. It may have been repaired."""
        self.refusal: OSError | None = None
        """Why appends are rejected: the folder is offline or read-only."""
        self.on_refusal: Callable[[OSError], None] = lambda error: None
        self.reserve: Reserve | None = None
        self.run: RunJob = run_now
        """Runs long jobs of logs; a node runs them in slices."""
        self.open_files = OpenFiles(disk)
        self.open_writers = OpenWriters()
        self.on_release: Callable[[str], None] = lambda path: None
        """Called with the path of a file that a log has closed because it was not written to for a while."""
        self.read_failures = 0
        """The number of reads that failed with an I/O error or found a file too short."""
        self._found_is_durable: bool | None = None
        self._found_count = 0

    def limit_writers(self, most: int) -> None:
        """Keep at most about so many logs open for writes."""
        self.open_writers = OpenWriters(most)

    def make_found_durable(self) -> bool:
        """Sync, once, everything that the previous process wrote; return False if the caller must sync its log.

        That is so for the first few logs, and if the volume cannot be synced as a whole. What this process writes, and
        errors of single files, are not covered. Raises OSError.
        """
        self._found_count += 1
        if self._found_is_durable is None:
            if self._found_count <= SYNCED_ALONE_MAX:
                return False
            self._found_is_durable = self.disk.sync_volume(self.path)
        return self._found_is_durable

    def recovery_interrupted(self) -> None:
        """Let the next `make_found_durable` sync again: a recovery may have changed names that no sync has covered."""
        if self._found_is_durable:
            self._found_is_durable = None

    def note_damage(self) -> None:
        """Record that a log is damaged, so that somebody looks for it."""
        self.has_damage = True

    def with_reserve(self, work: Callable[[], _T]) -> _T:
        """Run repeatable work, using reserved space if the disk is full."""
        return work() if self.reserve is None else self.reserve.with_reserve(work)

    def fail(self, error: OSError) -> None:
        """Take the folder offline until the node restarts and recovers it."""
        if self.failure is None:
            self.failure = self.refusal = error
            self.on_failure(error)

    @property
    def is_read_only(self) -> bool:
        return self.refusal is not None and self.failure is None

    def describe_refusal(self) -> str:
        """Say why nothing is appended here: where, and how much space is needed if the disk is full."""
        if not is_disk_full(self.refusal):
            return f"disk error: {self.path} rejects writes: {without_path(self.refusal)}"
        try:
            free = mebibytes(self.disk.space(self.path)[1])
        except OSError:
            free = "an unknown amount"
        needed = "more space" if self.reserve is None else f"{mebibytes(self.reserve.room_needed)} free"
        return f"disk full: {self.path} has {free} free and needs {needed} to accept writes"

    def write_failed(self, error: OSError) -> None:
        """Handle a failed write of a log."""
        if error.errno in _CANNOT_WRITE:
            self.refuse_writes(error)

    def refuse_writes(self, error: OSError) -> None:
        """Reject appends until `accept_writes`."""
        if self.refusal is None:
            self.refusal = error
            self.on_refusal(error)

    def accept_writes(self) -> None:
        """Accept appends again, unless the folder is offline."""
        self.refusal = self.failure


def run_now(job: Job[Any], done: Callable[[Any, BaseException | None], None]) -> None:
    """Run a job without interruption."""
    try:
        value = finish(job)
    except OSError as error:
        done(None, error)
    else:
        done(value, None)
