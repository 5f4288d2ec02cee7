"""The segment that a pass writes: `.cleaned` files, written out as they grow and synced in the end.

Indexes are made by storage/segment.py as for any other segment. Nobody believes these
files before swap.py has renamed them.
"""

from contextlib import suppress
from typing import Final

from penstock.ports.disk import Buffer, Disk, File
from penstock.storage.compaction.task import Task
from penstock.storage.directory import LogDirectory
from penstock.storage.segment import Segment
from penstock.wire.batch import LOG_OVERHEAD, HeaderTuple

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
# Much at once would hold up the syncs of the broker, for whose answers clients wait.
WRITE_OUT_SIZE: Final = 256 * 1024


class CleanedSegment:
    """A growing segment under other names."""

    def __init__(self, disk: Disk, task: Task, base_offset: int) -> None:
        self._disk = disk
        self.segment = Segment(
            LogDirectory(disk, task.folder),
            task.folder,
            base_offset,
            size=0,
            index_interval=task.index_interval,
            index_size_max=task.index_size_max,
            created_ms=task.now_ms,
        )
        self._paths = tuple(path + CLEANED_SUFFIX for path in self.segment.paths())
        (
            self.segment.path,
            self.segment.offset_index.path,
            self.segment.time_index.path,
            self.segment.txn_index.path,
        ) = self._paths
        for path in self._paths:
            disk.remove(path)
        self._file: File = disk.open(self._paths[0], create=True)
        self._waiting: list[Buffer] = []
        self._waiting_size = self._flushed = self._written_out = 0

    @property
    def size(self) -> int:
        return self._flushed + self._waiting_size

    def add(self, header: HeaderTuple, batch: Buffer) -> None:
        """Take the next batch; it is written with the next flush."""
        size = header[1] + LOG_OVERHEAD
        self.segment.added(header[0], header[0] + header[6], self.size, size, header[8])
        self._waiting.append(batch)
        self._waiting_size += size

    def flush(self) -> int:
        """Write what waits; return how many bytes that was."""
        size = self._waiting_size
        if size:
            self._file.write(self._waiting, self._flushed)
            self._waiting = []
            self._flushed += size
            self._waiting_size = 0
            if self._flushed - self._written_out >= WRITE_OUT_SIZE:
                self._file.write_out(self._written_out, self._flushed - self._written_out)
                self._written_out = self._flushed
        return size

    def finish(self) -> int:
        """Make everything durable; return the size."""
        self.flush()
        self._file.sync()
        self._file.close()
        self.segment.close_for_append()
        for file in self.segment.save_indexes():
            file.sync()
            file.close()
        if len(self.segment.txn_index):
            file = self.segment.txn_index.save(self._disk)
            file.sync()
            file.close()
        return self._flushed

    def discard(self) -> None:
        """Leave nothing behind."""
        with suppress(OSError):
            self._file.close()
            for path in self._paths:
                self._disk.remove(path)
