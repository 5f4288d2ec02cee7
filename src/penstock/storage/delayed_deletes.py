"""Files that were removed from a log and are deleted after `file.delete.delay.ms`.

A response may be reading them until then. Filled by trim.py and compaction/swap.py, emptied by the janitor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.ports.disk import Disk


class DelayedDeletes:
    """The renamed files of one log, each with the time when it may be deleted."""

    __slots__ = ("_disk", "_files")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._files)

    def add(self, paths: Sequence[str], *, due_ms: int) -> None:
        self._files += ((due_ms, path) for path in paths)

    def remove_due(self, now_ms: int) -> None:
        """Delete the files whose delay has passed, off the event loop; those that fail are tried again."""
        due = [each for each in self._files if each[0] <= now_ms]
        self._files = [each for each in self._files if each[0] > now_ms]
        for each in due:
            self._disk.remove_later(each[1], partial(self._removed, each))

    def _removed(self, file: tuple[int, str], error: OSError | None) -> None:
        if error is not None:
            self._files.append(file)
