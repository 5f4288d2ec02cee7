"""Verifying checksums of records before they are first served.

Bytes that this process appended or scanned count as valid until a reader reports otherwise. Bytes of an earlier process
are checked at their first read, in ranges of whole batches. The ranges are remembered, so that later reads cost one
comparison. Calls scan.py. Raises BadBatch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.storage.scan import OFFSET_MAX, WINDOW_SIZE, BadBatch, scan_batches
from penstock.wire.batch import LOG_OVERHEAD, HeaderTuple

if TYPE_CHECKING:
    from penstock.storage.segment import Segment

# A read of unchecked bytes returns at most this many, because the check blocks the event loop.
CHECKED_SIZE_MAX: Final = 4 * 1024 * 1024
# One call reads this much.
BLOCK_SIZE: Final = 1024 * 1024
# Random reads may leave many ranges. When there are more than this, all but the newest are checked again.
RANGES_MAX: Final = 4096


class CheckedRanges:
    """The checked ranges of one segment, in order; they neither touch nor overlap."""

    __slots__ = ("ends", "offsets", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        # The next offset after each range: the batch that follows may not begin lower.
        self.offsets: list[int] = []

    def range_at(self, position: int) -> tuple[int, int] | None:
        """Return the end of the range that contains a position or ends there, and the next offset after it."""
        slot = bisect_right(self.starts, position) - 1
        return (self.ends[slot], self.offsets[slot]) if slot >= 0 and self.ends[slot] >= position else None

    def covers(self, end: int) -> bool:
        """Return whether everything before a position was checked."""
        return len(self.starts) == 1 and self.starts[0] == 0 and self.ends[0] >= end

    def add(self, start: int, end: int, next_offset: int) -> None:
        """Add a range and merge it with those that it touches."""
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
    """Return how many of the bytes at a position are valid, which is at least one batch.

    `position` is where the offset was found, by headers that were not checked; `below` is an offset that no batch of
    the segment reaches. Damage after the first batch only shortens the result: the next read finds it first. So does
    what is not in the page cache, because the check blocks the event loop.
    """
    checked = segment.checked
    assert checked is not None, "called only while there are unchecked bytes"
    if not size:
        # The first batch was left out because its header says that it is too large: check that header.
        next(_checked(segment, position, position + 1, offset=segment.base_offset, below=below))
        return 0
    begin, next_offset = checked.range_at(position) or (position, segment.base_offset)
    end = position + size
    if begin >= end:
        return size
    wanted = min(end - begin, CHECKED_SIZE_MAX)
    ready = segment.file.ready_size(begin, wanted)
    stop, trouble = begin, None
    # If the first batch is not in the page cache, it is checked nevertheless.
    for last, until in ((begin + wanted, begin + ready if ready < wanted else OFFSET_MAX), (begin + 1, OFFSET_MAX)):
        try:
            for at, header in _checked(segment, begin, last, offset=next_offset, below=below, until=until):
                if at == position and header[0] > offset:
                    _check_hole(segment, offset, position, below=below)
                stop, next_offset = at + header[1] + LOG_OVERHEAD, header[0] + header[6] + 1
        except BadBatch as bad:
            trouble = bad
        if stop > position or trouble is not None:
            break
    checked.add(begin, stop, next_offset)
    if checked.covers(segment.unchecked_end):
        segment.mark_all_checked()
    if stop <= position and trouble is not None:
        raise trouble
    return min(stop, end) - position


def recheck(segment: Segment) -> None:
    """Check a segment again before it is served, because a reader reported damaged bytes."""
    segment.unchecked_end = segment.size
    segment.checked = CheckedRanges()


def check_end(segment: Segment, offset: int, *, below: int) -> None:
    """Check that compaction removed an offset that no batch seems to contain."""
    if segment.checked is not None:
        _check_hole(segment, offset, segment.size, below=below)


def _check_hole(segment: Segment, offset: int, end: int, *, below: int) -> None:
    """Check the batches before a gap in the offsets, because a corrupt header may have caused it."""
    start = segment.search_start(offset)
    for _ in _checked(segment, start, end, offset=segment.base_offset, below=below):
        pass


def _checked(
    segment: Segment, start: int, end: int, *, offset: int, below: int, until: int = OFFSET_MAX
) -> Iterator[tuple[int, HeaderTuple]]:
    """Yield the batches between two positions, each verified against its checksum and its neighbours."""
    if start >= end:
        return
    for position, header in scan_batches(
        segment.file,
        start,
        segment.size,
        offset=offset,
        base_offset=segment.base_offset,
        check_crc=True,
        below=below,
        block_size=min(max(min(end, until) - start, WINDOW_SIZE), BLOCK_SIZE),
        until=until,
    ):
        yield position, header
        if position + header[1] + LOG_OVERHEAD >= end:
            return
