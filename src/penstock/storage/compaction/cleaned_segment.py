"""The segment that a pass writes: `.cleaned` files, written out as they grow and synced at the end.

storage/segment.py creates its indexes as for any other segment. The files have no effect before swap.py renames them.
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
# Larger writes would delay the syncs of the broker, for which clients wait.
WRITE_OUT_SIZE: Final = 256 * 1024


class CleanedSegment:
    """A segment that is being written under temporary names."""

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
        """Add a batch, to be written with the next flush."""
        size = header[1] + LOG_OVERHEAD
        self.segment.added(header[0], header[0] + header[6], self.size, size, header[8])
        self._waiting.append(batch)
        self._waiting_size += size

    def flush(self) -> int:
        """Write the added batches; return their size."""
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
        """Make everything durable; return the size of the segment."""
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
        """Remove the files."""
        with suppress(OSError):
            self._file.close()
            for path in self._paths:
                self._disk.remove(path)
