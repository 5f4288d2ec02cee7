"""Files that were removed from a log and are deleted after `file.delete.delay.ms`.

A response may be reading them until then. Filled by trim.py and compaction/swap.py, emptied by the janitor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.storage.directory import LogDirectory


class DelayedDeletes:
    """The renamed files of one log, each with the time when it may be deleted."""

    __slots__ = ("_directory", "files")

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        # A tuple, because it is empty in most of thousands of logs.
        self.files: tuple[tuple[int, str], ...] = ()

    def __len__(self) -> int:
        return len(self.files)

    def add(self, paths: Sequence[str], *, due_ms: int) -> None:
        self.files += tuple((due_ms, path) for path in paths)

    def remove_due(self, now_ms: int) -> None:
        """Delete the files whose delay has passed, off the event loop; those that fail are tried again."""
        due = [each for each in self.files if each[0] <= now_ms]
        self.files = tuple(each for each in self.files if each[0] > now_ms)
        for each in due:
            # A lookup that began before the removal may have opened it again.
            self._directory.open_files.forget(each[1])
            self._directory.disk.remove_later(each[1], partial(self._removed, each))

    def _removed(self, file: tuple[int, str], error: OSError | None) -> None:
        if error is not None:
            self.files += (file,)
