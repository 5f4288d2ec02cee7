"""Comparison of the segments found at startup with those that the log is known to have.

Listed segments are compared by size, the others by the headers at their ends. The decision table is in
docs/internals/damage.md. Called by recovery.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.storage.scan import BadBatch
from penstock.storage.segment import Segment, file_name
from penstock.storage.segment_list import REWRITTEN, ListedSegment, SegmentList


class Loss(NamedTuple):
    """The first missing offset, and a description for people."""

    offset: int
    why: str


def first_loss(
    segment_list: SegmentList, segments: Sequence[Segment], *, log_start: int, held: bool, joined_below: int
) -> Loss | None:
    """Return the lowest loss that can be detected without reading the log, None if there is none.

    `held`: the log is known to have had a segment. Unlisted segments must have no gaps below `joined_below`.
    """
    first = max(log_start, segment_list.begins_at or 0)
    if not segments:
        known = held or segment_list.end_offset is not None
        return Loss(first, "all of its segments are missing") if known and not segment_list.may_be_empty else None
    losses = [
        *_missing_start(segment_list, segments, first, held=held),
        *_list_mismatches(segment_list, segments, log_start),
    ]
    losses += _gaps(segment_list, segments, log_start, joined_below)
    return min(losses, default=None)


def _missing_start(segment_list: SegmentList, segments: Sequence[Segment], first: int, *, held: bool) -> Iterator[Loss]:
    base_offset = segments[0].base_offset
    is_known = held or (segment_list.exists and not segment_list.is_void)
    if base_offset > first and is_known and not segment_list.may_be_empty:
        yield Loss(first, f"the log begins at offset {first}, and its first segment at {base_offset}")


def _list_mismatches(segment_list: SegmentList, segments: Sequence[Segment], log_start: int) -> Iterator[Loss]:
    found = {each.base_offset: each for each in segments}
    for entry in segment_list:
        if entry.end_offset > log_start:
            yield from _entry_mismatch(entry, found.get(entry.base_offset), segments, log_start)
    end_offset = segment_list.end_offset
    if end_offset is None or segment_list.may_be_empty:
        return
    if end_offset >= log_start and end_offset not in found:
        yield Loss(end_offset, f"segment {end_offset} is missing")


def _entry_mismatch(
    entry: ListedSegment, segment: Segment | None, segments: Sequence[Segment], log_start: int
) -> Iterator[Loss]:
    """Compare a listed segment with the one that was found at its base offset."""
    if segment is None:
        why = f"segment {entry.base_offset} is missing, with offsets up to {entry.end_offset - 1}"
        yield Loss(max(entry.base_offset, log_start), why)
    elif entry.size == REWRITTEN:
        yield from _gaps_within(segments, entry, log_start)
    elif segment.size != entry.size:
        end = readable_end(segment)
        if end < entry.end_offset:
            why = f"segment {entry.base_offset} has {segment.size} bytes, but was closed with {entry.size}"
            yield Loss(max(end, log_start), why)


def _gaps_within(segments: Sequence[Segment], entry: ListedSegment, log_start: int) -> Iterator[Loss]:
    """Check the segments that a compaction was replacing by one."""
    inside = [each for each in segments if entry.base_offset <= each.base_offset < entry.end_offset]
    ends = [*(each.base_offset for each in inside[1:]), entry.end_offset]
    for segment, wanted in zip(inside, ends, strict=True):
        yield from _gap_behind(segment, wanted, log_start)


def _gaps(segment_list: SegmentList, segments: Sequence[Segment], log_start: int, below: int) -> Iterator[Loss]:
    """Check the closed segments after the listed ones, except those that the recovery scan reads anyway."""
    listed_end = segment_list.end_offset or 0
    for segment, following in pairwise(segments):
        if listed_end <= segment.base_offset and following.base_offset <= below:
            yield from _gap_behind(segment, following.base_offset, log_start)


def _gap_behind(segment: Segment, wanted: int, log_start: int) -> Iterator[Loss]:
    try:
        end = segment.end_offset()
    except BadBatch:
        end = readable_end(segment)
    if end != wanted and wanted > log_start:
        name = file_name(segment.base_offset, ".log")
        yield Loss(max(min(end, wanted), log_start), f"{name} ends at offset {end} instead of {wanted}")


def readable_end(segment: Segment) -> int:
    """Return the next offset after the last batch that can be reached from the beginning of the segment."""
    end = segment.base_offset
    try:
        for _, header in segment.headers_from(0):
            end = header[0] + header[6] + 1
    except BadBatch:
        pass
    return end
