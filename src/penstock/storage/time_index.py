"""The sparse index from timestamps to offsets in one segment (`.timeindex`).

An entry has the largest timestamp so far and the last offset of its batch, relative to the segment's base offset:
8 + 4 bytes, strictly rising, in Kafka's format. Like the offset index, it is compared with the log on every use.
"""

from array import array
from bisect import bisect_left
from struct import Struct
from typing import ClassVar, Final

from penstock.model.errors import Corruption
from penstock.model.ids import NO_TIMESTAMP
from penstock.ports.disk import Disk
from penstock.storage.index_file import IndexFile

ENTRY: Final = Struct(">qi")
# Stand for the empty columns of an index: with thousands of small segments, most are empty. Never changed.
_NO_TIMESTAMPS: Final = array("q")
_NO_OFFSETS: Final = array("i")


class TimeIndex(IndexFile):
    """The entries of one segment, oldest first."""

    __slots__ = ("offsets", "timestamps")

    entry_size: ClassVar[int] = ENTRY.size
    suffix: ClassVar[str] = ".timeindex"

    def __init__(self, log_path: str, base_offset: int) -> None:
        super().__init__(log_path, base_offset)
        self.timestamps, self.offsets = _NO_TIMESTAMPS, _NO_OFFSETS

    def __len__(self) -> int:
        return len(self.timestamps)

    def load(self, disk: Disk) -> None:
        """Read the file; raise Corruption if it cannot be a time index."""
        timestamps, offsets = array("q"), array("i")
        for timestamp, relative in ENTRY.iter_unpack(self._read(disk)):
            if timestamps and (timestamp <= timestamps[-1] or relative <= offsets[-1]):
                raise Corruption(f"{self.path}: entries do not rise")
            timestamps.append(timestamp)
            offsets.append(relative)
        if offsets and (offsets[0] < 0 or timestamps[0] < 0):
            raise Corruption(f"{self.path}: an entry is before the segment")
        self.timestamps, self.offsets = timestamps, offsets

    def append(self, timestamp: int, last_offset: int) -> None:
        """Add an entry, unless the largest timestamp is the same as in the last one."""
        if timestamp > (self.timestamps[-1] if self.timestamps else NO_TIMESTAMP):
            relative = last_offset - self.base_offset
            if self.timestamps is _NO_TIMESTAMPS:
                self.timestamps, self.offsets = array("q"), array("i")
            self.timestamps.append(timestamp)
            self.offsets.append(relative)
            self._add(ENTRY.pack(timestamp, relative))

    def last(self) -> tuple[int, int]:
        """Return the last timestamp and its offset, (-1, base offset) if the index is empty."""
        if not self.timestamps:
            return NO_TIMESTAMP, self.base_offset
        return self.timestamps[-1], self.base_offset + self.offsets[-1]

    def lookup(self, timestamp: int) -> tuple[int, int] | None:
        """Return the last entry below the timestamp: no batch up to its offset has that timestamp or a later one."""
        slot = bisect_left(self.timestamps, timestamp) - 1
        if slot < 0:
            return None
        return self.timestamps[slot], self.base_offset + self.offsets[slot]

    def truncate(self, offset: int) -> None:
        """Remove the entries of batches that end at or after the offset."""
        count = bisect_left(self.offsets, offset - self.base_offset)
        del self.timestamps[count:]
        del self.offsets[count:]
        self._keep(count)
