"""The list of a log's closed segments (`segments`), so that startup notices a missing or shortened one.

The file contains changes, appended and applied in order; docs/internals/damage.md has the format, and when each change
is written and synced. Called by flush.py, trim.py, compaction/swap.py and recovery.py. Raises OSError.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.ports.disk import Disk, File

FILE_NAME: Final = "segments"
REWRITTEN: Final = -1
START: Final = -2
RESTART: Final = -3
TRUNCATION: Final = -4
_CHANGE: Final = Struct(">qqqI4x")
_CHECKED_SIZE: Final = 24
# The file is rewritten when it has this many changes per current entry.
_CHANGES_PER_ENTRY_MAX: Final = 4
_CHANGES_LEAST: Final = 64


class ListedSegment(NamedTuple):
    """A closed segment, or a range of them that is being rewritten (size REWRITTEN)."""

    base_offset: int
    end_offset: int
    size: int


_NONE: Final[list[ListedSegment]] = []
"""Stands for the empty list of each log without closed segments. Never changed."""


class SegmentList:
    """The closed segments of one log, oldest first, as far as they are listed."""

    __slots__ = ("_changes", "_entries", "_folder", "begins_at", "disk", "exists", "is_void", "may_be_empty")

    def __init__(self, disk: Disk, folder: str) -> None:
        self.disk = disk
        self._folder = folder
        self._entries = _NONE
        self._changes = 0
        self.begins_at: int | None = None
        """The base offset of the first segment when it last changed; None if it never did."""
        self.may_be_empty = False
        self.exists = False
        """Whether the file exists."""
        self.is_void = False
        """Whether the file was damaged, so that its content is ignored."""

    @property
    def path(self) -> str:
        return f"{self._folder}/{FILE_NAME}"

    def __iter__(self) -> Iterator[ListedSegment]:
        return iter(self._entries)

    @property
    def end_offset(self) -> int | None:
        """Return the base offset of the segment after the last listed one; None if nothing is listed."""
        return self._entries[-1].end_offset if self._entries else self.begins_at

    def entry_at(self, base_offset: int) -> ListedSegment | None:
        slot = bisect_left(self._entries, base_offset, key=_base_of)
        found = self._entries[slot] if slot < len(self._entries) else None
        return found if found is not None and found.base_offset == base_offset else None

    # Changes, written without a sync

    def add_closed(self, base_offset: int, end_offset: int, size: int) -> File:
        """Record a closed segment whose bytes are synced; with REWRITTEN, one that is about to be replaced."""
        return self._append(base_offset, end_offset, size)

    def add_start(self, offset: int) -> File:
        """Record that the log begins with the segment at this offset."""
        return self._append(offset, offset, START)

    def add_restart(self, offset: int) -> File:
        """Record that the log is about to be emptied and to begin at this offset."""
        return self._append(offset, offset, RESTART)

    def add_truncation(self, offset: int) -> File | None:
        """Record that the log is about to be truncated to this offset; return None if no listed segment is affected."""
        reaches = bool(self._entries) and self._entries[-1].end_offset >= offset
        return self._append(offset, offset, TRUNCATION) if reaches else None

    def forget_before(self, offset: int) -> None:
        """Drop from memory the entries below the log start, whose segments may be missing."""
        kept = 0
        while kept < len(self._entries) and self._entries[kept].end_offset <= offset:
            kept += 1
        del self._entries[:kept]

    def _append(self, base_offset: int, end_offset: int, kind: int) -> File:
        file = self.disk.open(self.path, create=True)
        if self.is_void:
            file.truncate(0)
            self._changes, self.is_void = 0, False
        file.write((_encode(base_offset, end_offset, kind),), self._changes * _CHANGE.size)
        self._changes += 1
        self.exists = True
        self._apply(base_offset, end_offset, kind)
        return file

    # Reading

    def load(self) -> None:
        """Read the file. A torn last change is ignored; with damage elsewhere, the whole list is void."""
        content = self.disk.read_file(self.path)
        self.exists = True
        whole = len(content) // _CHANGE.size
        for number in range(whole):
            at = number * _CHANGE.size
            base_offset, end_offset, kind, crc = _CHANGE.unpack_from(content, at)
            if crc != crc32c(content[at : at + _CHECKED_SIZE]) or kind < TRUNCATION:
                if number + 1 < whole:
                    self._void()
                return
            self._apply(base_offset, end_offset, kind)
            self._changes = number + 1

    def tidy(self) -> None:
        """Rewrite the file if most changes are superseded. Call it only after the log was found complete."""
        if self._changes > max(_CHANGES_LEAST, len(self._entries) * _CHANGES_PER_ENTRY_MAX):
            changes = [] if self.begins_at is None else [(self.begins_at, self.begins_at, START)]
            if self.may_be_empty:
                changes = [(base, end, RESTART) for base, end, _ in changes]
            changes += self._entries
            self.disk.replace_file(self.path, b"".join(_encode(*each) for each in changes))
            self._changes = len(changes)

    def _void(self) -> None:
        self._entries.clear()
        self.begins_at, self.may_be_empty, self.is_void = None, False, True

    def _apply(self, base_offset: int, end_offset: int, kind: int) -> None:
        if kind in (START, RESTART):
            self.begins_at, self.may_be_empty = base_offset, kind == RESTART
            kept = [] if self.may_be_empty else [each for each in self._entries if each.base_offset >= base_offset]
            self._entries[:] = kept
            return
        if kind == TRUNCATION:
            while self._entries and self._entries[-1].end_offset >= base_offset:
                self._entries.pop()
            return
        self.may_be_empty = False
        first = bisect_left(self._entries, base_offset, key=_base_of)
        if first and self._entries[first - 1].end_offset > base_offset:
            first -= 1
        last = bisect_left(self._entries, end_offset, key=_base_of)
        if self._entries is _NONE:
            self._entries = []
        self._entries[first:last] = [ListedSegment(base_offset, end_offset, kind)]


def _base_of(segment_list: ListedSegment) -> int:
    return segment_list.base_offset


def _encode(base_offset: int, end_offset: int, kind: int) -> bytes:
    content = _CHANGE.pack(base_offset, end_offset, kind, 0)
    return _CHANGE.pack(base_offset, end_offset, kind, crc32c(content[:_CHECKED_SIZE]))
