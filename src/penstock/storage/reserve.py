"""Reserved space of a data folder, for writes that must succeed on a full disk.

The file `reserve` occupies `log.reserve.bytes` of the volume, so that neither this node's records nor other programs
can use them. When the metadata log or a checkpoint finds the disk full, the file releases a part of its space and the
write is repeated (`with_reserve`). write_probe.py restores it when there is room.
"""

from collections.abc import Callable
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from typing import Final, TypeVar

from penstock.model.errors import StorageError
from penstock.ports.disk import Disk

FILE_NAME: Final = "reserve"
STEPS: Final = 16
"""The reserve is released in this many parts, because other programs may use free space before the node does."""
STEP_LEAST: Final = 4096
ROOM_LEAST: Final = 1024 * 1024
"""How much must be free where nothing is reserved."""

_NO_ROOM: Final = frozenset({ENOSPC, EDQUOT})
_T = TypeVar("_T")


def is_disk_full(problem: BaseException | None) -> bool:
    """Return whether the disk or the user's quota is full."""
    if isinstance(problem, StorageError):
        problem = problem.__cause__
    return isinstance(problem, OSError) and problem.errno in _NO_ROOM


def without_path(problem: BaseException | None) -> str:
    """Return the text of an error without the path of its file, which names a topic that not everybody may see."""
    if isinstance(problem, OSError) and problem.filename is not None:
        return f"[Errno {problem.errno}] {problem.strerror}"
    return str(problem)


def mebibytes(size: int) -> str:
    """Return a size as messages about full disks show it."""
    return f"{size / 1024**2:.1f} MiB"


class Reserve:
    """The reserved space of one data folder; a size of 0 reserves nothing."""

    def __init__(self, disk: Disk, folder: str, size: int) -> None:
        self._disk = disk
        self._path = f"{folder}/{FILE_NAME}"
        self._step = max(size // STEPS, STEP_LEAST)
        self.size = size
        self.held = self._find()

    @property
    def is_whole(self) -> bool:
        return self.held >= self.size

    @property
    def room_needed(self) -> int:
        """How many bytes must be free before a folder that is full accepts writes again."""
        return self.size + (self.size or ROOM_LEAST) - self.held

    def restore(self) -> None:
        """Occupy all of the reserved space; raise OSError if there is not enough."""
        self.take(self.size)

    def take(self, size: int) -> None:
        """Occupy this much space; after an OSError the size is unchanged."""
        if size == self.held:
            return
        try:
            self._disk.allocate(self._path, size)
        except OSError:
            with suppress(OSError):
                self._disk.allocate(self._path, self.held)
            raise
        self.held = size

    def release(self) -> bool:
        """Release a part of the space; return False if there is none."""
        if self.held == 0:
            return False
        left = max(self.held - self._step, 0)
        try:
            self._disk.allocate(self._path, left)
        except OSError:
            return False
        self.held = left
        return True

    def with_reserve(self, work: Callable[[], _T]) -> _T:
        """Run repeatable work, using reserved space if the disk is full."""
        while True:
            try:
                return work()
            except (OSError, StorageError) as problem:
                if not is_disk_full(problem) or not self.release():
                    raise

    def _find(self) -> int:
        """Return how much space an earlier process left occupied."""
        try:
            file = self._disk.open(self._path, writable=False)
        except OSError:
            return 0
        try:
            return file.size()
        finally:
            file.close()
