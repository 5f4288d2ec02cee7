"""Files that have left a log and are removed after `file.delete.delay.ms`.

A slice of one may be on its way to a reader until then. Filled by trim.py and compaction/swap.py, emptied by the
janitor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.ports.disk import Disk


class DelayedDeletes:
    """The renamed files of one log, each with the time when it may go."""

    __slots__ = ("_disk", "_files")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._files)

    def add(self, paths: Sequence[str], *, due_ms: int) -> None:
        self._files += ((due_ms, path) for path in paths)

    def remove_due(self, now_ms: int) -> None:
        """Remove the files whose delay is over, off the event loop; what the disk refuses stays for the next time."""
        due = [each for each in self._files if each[0] <= now_ms]
        self._files = [each for each in self._files if each[0] > now_ms]
        for each in due:
            self._disk.remove_later(each[1], partial(self._removed, each))

    def _removed(self, file: tuple[int, str], error: OSError | None) -> None:
        if error is not None:
            self._files.append(file)
