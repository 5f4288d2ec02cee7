"""Space that a data folder keeps back for what must be written even when the disk is full.

The file `reserve` occupies `log.reserve.bytes` of the volume, so that neither this node's records nor other
programs can take them. When the metadata log or a checkpoint meets a full disk, the file gives up a part of its
space and the write is tried again (`covering`). write_probe.py restores it when there is room.
"""

from collections.abc import Callable
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from typing import Final, TypeVar

from penstock.model.errors import StorageError
from penstock.ports.disk import Disk

FILE_NAME: Final = "reserve"
STEPS: Final = 16
"""The reserve is given up in so many parts: other programs may take what is free before the node does."""
STEP_LEAST: Final = 4096
ROOM_LEAST: Final = 1024 * 1024
"""How much must be free where nothing is reserved."""

_NO_ROOM: Final = frozenset({ENOSPC, EDQUOT})
_T = TypeVar("_T")


def is_disk_full(problem: BaseException | None) -> bool:
    """Whether the disk, or what a user may have of it, is full."""
    if isinstance(problem, StorageError):
        problem = problem.__cause__
    return isinstance(problem, OSError) and problem.errno in _NO_ROOM


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
        """Take all of the reserved space; raises OSError if there is not as much."""
        self.take(self.size)

    def take(self, size: int) -> None:
        """Occupy so much space; after an OSError it is as much as before."""
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
        """Give up a part of the space; return whether there was any."""
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
        """Do what may be done twice, with reserved space if the disk has no other."""
        while True:
            try:
                return work()
            except (OSError, StorageError) as problem:
                if not is_disk_full(problem) or not self.release():
                    raise

    def _find(self) -> int:
        """Return how much an earlier process has left."""
        try:
            file = self._disk.open(self._path, writable=False)
        except OSError:
            return 0
        try:
            return file.size()
        finally:
            file.close()
