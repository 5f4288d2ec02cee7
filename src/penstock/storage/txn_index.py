"""The aborted transactions whose marker is in one segment (`.txnindex`).

Entries are in Kafka's format: version, producer id, first and last offset, and the last stable offset when the marker
was written; 34 bytes. They are ordered by last offset. The file has no checksum: aborted.py keeps one, and an index
that does not match it is rebuilt.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import ClassVar, Final

from crc32c import crc32c

from penstock.model.errors import Corruption
from penstock.ports.disk import Disk
from penstock.storage.index_file import IndexFile
from penstock.storage.producer_state import EndedTransaction

ENTRY: Final = Struct(">hqqqq")
VERSION: Final = 0
Summary = tuple[int, int]
"""The number of entries and their checksum."""
EMPTY: Final[Summary] = (0, 0)
_NONE: Final = array("q")
"""Stands for the empty columns of most indexes: those of their own would take 320 bytes. Never changed."""


class TxnIndex(IndexFile):
    """The entries of one segment, unknown until the file is loaded or `expected` is set."""

    __slots__ = (
        "_crc",
        "_stale",
        "expected",
        "first_offsets",
        "last_offsets",
        "loaded",
        "producer_ids",
        "stable_offsets",
    )

    entry_size: ClassVar[int] = ENTRY.size
    suffix: ClassVar[str] = ".txnindex"

    def __init__(self, log_path: str, base_offset: int, *, loaded: bool) -> None:
        super().__init__(log_path, base_offset)
        self.loaded = loaded
        # The summary of the file that an earlier process wrote.
        self.expected: Summary | None = None
        # Whether the file may contain entries that were removed.
        self._stale = False
        self._reset()

    def _reset(self) -> None:
        self.producer_ids = self.first_offsets = self.last_offsets = self.stable_offsets = _NONE
        self._crc = 0

    def __len__(self) -> int:
        return len(self.last_offsets)

    def __iter__(self) -> Iterator[EndedTransaction]:
        columns = (self.producer_ids, self.first_offsets, self.last_offsets, self.stable_offsets)
        return (EndedTransaction(*values) for values in zip(*columns, strict=True))

    @property
    def summary(self) -> Summary | None:
        """Return the summary of the entries, None if it is unknown."""
        return (len(self), self._crc) if self.loaded else self.expected

    def reset(self) -> None:
        """Remove all entries, including those in the file."""
        self._reset()
        self._keep(0)
        self._stale = self.loaded = True

    def append(self, ended: EndedTransaction) -> None:
        entry = ENTRY.pack(VERSION, *ended)
        self._take(ended)
        self._crc = crc32c(entry, self._crc)
        self._add(entry)

    def _take(self, ended: EndedTransaction) -> None:
        if self.last_offsets is _NONE:
            self.producer_ids, self.first_offsets = array("q"), array("q")
            self.last_offsets, self.stable_offsets = array("q"), array("q")
        self.producer_ids.append(ended.producer_id)
        self.first_offsets.append(ended.first_offset)
        self.last_offsets.append(ended.last_offset)
        self.stable_offsets.append(ended.stable_offset)

    def load(self, disk: Disk) -> None:
        """Read the file; raise Corruption if it does not match its summary."""
        if self.expected is None:
            raise Corruption(f"{self.path}: there is no checksum for it")
        content = b"" if self.expected == EMPTY else self._read(disk)
        if self.expected != (len(content) // ENTRY.size, crc32c(content)):
            raise Corruption(f"{self.path}: the checksum does not match")
        self._reset()
        for version, *values in ENTRY.iter_unpack(content):
            if version != VERSION:
                raise Corruption(f"{self.path}: an entry has version {version}")
            self._take(EndedTransaction(*values))
        self._crc = crc32c(content)
        self.loaded = True

    def truncate(self, offset: int) -> None:
        """Remove the transactions that ended at or after an offset."""
        count = bisect_left(self.last_offsets, offset)
        for column in (self.producer_ids, self.first_offsets, self.last_offsets, self.stable_offsets):
            del column[count:]
        self._crc = crc32c(b"".join(ENTRY.pack(VERSION, *ended) for ended in self))
        self._keep(count)
        self._stale = True

    def save_if_any(self, disk: Disk) -> None:
        """Write the file if it has or had entries. Never synced: the summary shows if it is valid."""
        if self.loaded and not len(self):
            if self._stale:
                disk.remove(self.path)
        elif self._unsaved or self._stale:
            self.save(disk)
        self._stale = False

    def overlapping(self, start: int, end: int) -> tuple[list[tuple[int, int]], bool]:
        """Return producer and first offset of entries that overlap a range, and whether no later entry can."""
        found: list[tuple[int, int]] = []
        for slot in range(bisect_left(self.last_offsets, start), len(self)):
            if self.first_offsets[slot] < end:
                found.append((self.producer_ids[slot], self.first_offsets[slot]))
            if self.stable_offsets[slot] >= end:
                return found, True
        return found, False
