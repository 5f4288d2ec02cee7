"""The sparse index from offsets to positions in one segment (`.index`).

An entry has the last offset of a batch, relative to the segment's base offset, and the position of that batch: 4 + 4
bytes, in Kafka's format. Every use compares an entry with the header at its position: a corrupt index is rebuilt.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import lt
from struct import Struct
from typing import ClassVar, Final

from penstock.model.errors import Corruption
from penstock.ports.disk import Disk
from penstock.storage.index_file import IndexFile

ENTRY: Final = Struct(">ii")


_NONE: Final = array("i")
"""Stands for the empty columns of an index: with thousands of small segments, most are empty. Never changed."""


class OffsetIndex(IndexFile):
    """The entries of one segment, oldest first."""

    __slots__ = ("offsets", "positions")

    entry_size: ClassVar[int] = ENTRY.size
    suffix: ClassVar[str] = ".index"

    def __init__(self, log_path: str, base_offset: int) -> None:
        super().__init__(log_path, base_offset)
        self.offsets = self.positions = _NONE

    def __len__(self) -> int:
        return len(self.offsets)

    def load(self, disk: Disk, *, log_size: int) -> None:
        """Read the file; raise Corruption if it cannot be the index of a segment of that size."""
        numbers = array("i")
        numbers.frombytes(self._read(disk))
        if sys.byteorder == "little":
            numbers.byteswap()
        offsets, positions = numbers[0::2], numbers[1::2]
        for column in (offsets, positions):
            if not all(map(lt, column, islice(column, 1, None))):
                raise Corruption(f"{self.path}: entries do not rise")
        if offsets and (offsets[0] < 0 or positions[0] < 0 or positions[-1] >= log_size):
            raise Corruption(f"{self.path}: an entry points outside the log")
        self.offsets, self.positions = offsets, positions

    def last_saved(self, disk: Disk) -> tuple[int, int] | None:
        """Read the last entry of the file without loading the rest; return its offset and position, or None."""
        try:
            file = disk.open(self.path, writable=False)
            try:
                entry = file.read(ENTRY.size, file.size() - ENTRY.size) if file.size() >= ENTRY.size else b""
            finally:
                file.close()
        except OSError:
            return None
        if len(entry) < ENTRY.size:
            return None
        relative, position = ENTRY.unpack(entry)
        return self.base_offset + relative, position

    def append(self, last_offset: int, position: int) -> None:
        relative = last_offset - self.base_offset
        if self.offsets is _NONE:
            self.offsets, self.positions = array("i"), array("i")
        self.offsets.append(relative)
        self.positions.append(position)
        self._add(ENTRY.pack(relative, position))

    def entry(self, slot: int) -> tuple[int, int]:
        """Return the last offset of the entry's batch, and its position."""
        return self.base_offset + self.offsets[slot], self.positions[slot]

    def lookup(self, offset: int) -> int:
        """Return the index of the last entry at or below the offset, -1 if there is none."""
        return bisect_right(self.offsets, offset - self.base_offset) - 1

    def last_within(self, position: int, *, end: int) -> int:
        """Return the last entry whose batch starts at or before the position and is below the end offset."""
        by_position = bisect_right(self.positions, position)
        by_offset = bisect_left(self.offsets, end - self.base_offset)
        return min(by_position, by_offset) - 1

    def truncate(self, position: int) -> None:
        """Remove the entries of batches that start at or after the position."""
        count = bisect_left(self.positions, position)
        del self.offsets[count:]
        del self.positions[count:]
        self._keep(count)
