"""The segments of one log in memory: their order, the active one, and the one that contains an offset.

segment_writer.py creates segments, trim.py truncates and deletes them, compaction/swap.py replaces them; all of them
change this list through its methods.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from penstock.storage.segment import Segment


def is_small(segments: Sequence[Segment]) -> bool:
    return len(segments) == 1 and segments[0].is_small


class LogSegments(Sequence[Segment]):
    """Segments from oldest to newest; the last one is the active one."""

    __slots__ = ("_segments", "active", "bases")

    def __init__(self, segments: list[Segment]) -> None:
        # A copy has no room to grow, which saves memory in thousands of logs.
        self._segments = segments.copy()
        self.bases = [each.base_offset for each in segments].copy()
        """The base offset of each segment, for searches."""
        self.active = segments[-1]

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...

    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        return self._segments[index]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __contains__(self, segment: object) -> bool:
        return segment in self._segments

    @property
    def size(self) -> int:
        return sum(each.size for each in self._segments)

    @property
    def is_small(self) -> bool:
        """Return whether the log is one small segment, so that recovery reads all of it."""
        return is_small(self._segments)

    def slot_of(self, offset: int) -> int:
        """Return the index of the segment that contains an offset, or of the first if the offset is before all."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def end_of(self, slot: int, log_end: int) -> int:
        """Return the end offset of a segment: the base offset of the next one, or the end of the log."""
        return self.bases[slot + 1] if slot + 1 < len(self.bases) else log_end

    def add(self, segment: Segment) -> None:
        """Make a segment the active one."""
        assert not self.bases or segment.base_offset > self.bases[-1], "base offsets must rise"
        self._segments.append(segment)
        self.bases.append(segment.base_offset)
        self.active = segment

    def drop_first(self, count: int) -> None:
        """Remove the oldest segments."""
        assert count < len(self._segments), "the active segment stays"
        del self._segments[:count]
        del self.bases[:count]

    def drop_last(self) -> None:
        """Remove the active segment; the one before it becomes active."""
        self._segments.pop()
        self.bases.pop()
        self.active = self._segments[-1]

    def restart(self) -> None:
        """Remove every segment; `add` must follow."""
        self._segments.clear()
        self.bases.clear()

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace adjacent segments by one."""
        slot = self.bases.index(old[0].base_offset)
        assert self._segments[slot : slot + len(old)] == list(old), "the segments are those of the log"
        assert slot + len(old) < len(self._segments), "the active segment is not compacted"
        self._segments[slot : slot + len(old)] = [new]
        self.bases[slot : slot + len(old)] = [new.base_offset]
