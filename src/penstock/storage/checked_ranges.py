"""Holding bytes against their checksums before they are first served.

What this process appended or scanned is good, until a reader says otherwise. What an earlier one left is checked at its
first read, in ranges of whole batches, and each range is remembered, so that every
later read costs one comparison. Calls go to scan.py. Raises BadBatch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.storage.scan import WINDOW_SIZE, BadBatch
from penstock.wire.batch import LOG_OVERHEAD, HeaderTuple

if TYPE_CHECKING:
    from penstock.storage.segment import Segment

# A read of bytes that were never checked returns no more than this: the event loop waits for the check.
CHECKED_SIZE_MAX: Final = 4 * 1024 * 1024
# Ranges that random reads leave behind. More are not remembered one by one: they are checked again.
RANGES_MAX: Final = 4096


class CheckedRanges:
    """The ranges of one segment that were checked, lowest first; they neither touch nor overlap."""

    __slots__ = ("ends", "offsets", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        # The offset behind each range: what follows it may not begin lower.
        self.offsets: list[int] = []

    def range_at(self, position: int) -> tuple[int, int] | None:
        """Return where the range that holds a position or ends there ends, and the offset behind it."""
        slot = bisect_right(self.starts, position) - 1
        return (self.ends[slot], self.offsets[slot]) if slot >= 0 and self.ends[slot] >= position else None

    def covers(self, end: int) -> bool:
        """Whether everything before a position was checked."""
        return len(self.starts) == 1 and self.starts[0] == 0 and self.ends[0] >= end

    def add(self, start: int, end: int, next_offset: int) -> None:
        """Note a range, joined with those that it meets."""
        if start >= end:
            return
        first = bisect_right(self.starts, start)
        if first and self.ends[first - 1] >= start:
            first -= 1
            start = self.starts[first]
        last = bisect_right(self.starts, end)
        if last > first and self.ends[last - 1] > end:
            end, next_offset = self.ends[last - 1], self.offsets[last - 1]
        if len(self.starts) - (last - first) >= RANGES_MAX:
            first, last = 0, len(self.starts)
        self.starts[first:last] = [start]
        self.ends[first:last] = [end]
        self.offsets[first:last] = [next_offset]


def servable(segment: Segment, offset: int, position: int, size: int, *, below: int) -> int:
    """Return how many of the bytes at a position are known to be good, which is at least one batch of them.

    `position` is where the offset was found, by headers that nobody had checked; `below` is the
    offset that no batch of the segment reaches. Damage behind the first batch only ends the
    answer: whoever comes back for more meets it as the first.
    """
    checked = segment.checked
    assert checked is not None, "asked only while there are unchecked bytes"
    if not size:
        # A batch that seems to reach too far is left out of the answer: by its own word, so far.
        next(_checked(segment, position, position + 1, offset=segment.base_offset, below=below))
        return 0
    begin, next_offset = checked.range_at(position) or (position, segment.base_offset)
    end = position + size
    stop, trouble = begin, None
    if begin < end:
        try:
            for at, header in _checked(segment, begin, end, offset=next_offset, below=below):
                if at == position and header[0] > offset:
                    _check_hole(segment, offset, position, below=below)
                stop, next_offset = at + header[1] + LOG_OVERHEAD, header[0] + header[6] + 1
                if stop - begin >= CHECKED_SIZE_MAX:
                    break
        except BadBatch as bad:
            trouble = bad
        checked.add(begin, stop, next_offset)
        if checked.covers(segment.unchecked_end):
            segment.mark_all_checked()
    if stop <= position and trouble is not None:
        raise trouble
    return min(stop, end) - position


def recheck(segment: Segment) -> None:
    """Check everything again before it is served: a reader says that it got damaged bytes."""
    segment.unchecked_end = segment.size
    segment.checked = CheckedRanges()


def check_end(segment: Segment, offset: int, *, below: int) -> None:
    """Check that an offset that no batch seems to reach is one that compaction took."""
    if segment.checked is not None:
        _check_hole(segment, offset, segment.size, below=below)


def _check_hole(segment: Segment, offset: int, end: int, *, below: int) -> None:
    """Check the batches before a hole in the offsets: a rotten header may have made one."""
    start = segment.search_start(offset)
    for _ in _checked(segment, start, end, offset=segment.base_offset, below=below):
        pass


def _checked(segment: Segment, start: int, end: int, *, offset: int, below: int) -> Iterator[tuple[int, HeaderTuple]]:
    """Yield the batches from one position up to another; each was held against its checksum and its neighbours."""
    block_size = max(end - start, WINDOW_SIZE)
    headers = segment.headers_from(start, offset=offset, check_crc=True, below=below, block_size=block_size)
    while start < end:
        found = next(headers)
        start = found[0] + found[1][1] + LOG_OVERHEAD
        yield found
