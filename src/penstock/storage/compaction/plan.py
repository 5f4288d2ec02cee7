"""Decisions of compaction: which part of a log to compact, and which segments to merge.

Pure. Called by cleaner.py for every compacted log, and by rewrite.py for the groups.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.config.settings import TopicSettings
from penstock.storage.compaction.task import Extent
from penstock.storage.offset_index import ENTRY as OFFSET_ENTRY
from penstock.storage.scan import RELATIVE_OFFSET_MAX
from penstock.storage.time_index import ENTRY as TIME_ENTRY

NO_TIME: Final = -1
POSITION_MAX: Final = (1 << 31) - 1
# The default of max.compaction.lag.ms.
NEVER_OVERDUE: Final = (1 << 63) - 1


class ClosedSegment(NamedTuple):
    """The values of a closed segment that a decision needs."""

    base_offset: int
    end_offset: int
    size: int
    first_timestamp: int
    max_timestamp: int


class Plan(NamedTuple):
    """A pass over the first `segment_count` segments, which are dirty from the offset `first_dirty` on."""

    segment_count: int
    first_dirty: int
    bound: int
    dirty_ratio: float


def first_dirty(checkpoint: int, *, log_start: int, first_base: int, active_base: int) -> int:
    """Return where the dirty part begins. A checkpoint outside the log is ignored."""
    if checkpoint > active_base:
        return max(log_start, first_base)
    return max(checkpoint, log_start, first_base)


def decide(
    segments: Sequence[ClosedSegment], settings: TopicSettings, *, dirty_from: int, stable_end: int, now_ms: int
) -> Plan | None:
    """Return the pass for a log; None if it needs none.

    Nothing at or after `stable_end`, the last stable offset or less, may be compacted.
    """
    count = _cleanable_count(segments, settings, dirty_from=dirty_from, stable_end=stable_end, now_ms=now_ms)
    dirty = [each for each in segments[:count] if each.end_offset > dirty_from]
    dirty_size = sum(each.size for each in dirty)
    if not dirty_size:
        return None
    ratio = dirty_size / sum(each.size for each in segments[:count])
    if ratio <= settings.min_cleanable_dirty_ratio and not is_overdue(dirty, settings, now_ms=now_ms):
        return None
    return Plan(count, dirty_from, segments[count - 1].end_offset, ratio)


def _cleanable_count(
    segments: Sequence[ClosedSegment], settings: TopicSettings, *, dirty_from: int, stable_end: int, now_ms: int
) -> int:
    for index, each in enumerate(segments):
        if each.end_offset > stable_end:
            return index
        is_young = settings.min_compaction_lag_ms > 0 and each.max_timestamp > now_ms - settings.min_compaction_lag_ms
        if is_young and each.end_offset > dirty_from:
            return index
    return len(segments)


def is_overdue(dirty: Sequence[ClosedSegment], settings: TopicSettings, *, now_ms: int) -> bool:
    """Return whether a dirty record is older than `max.compaction.lag.ms`."""
    earliest = min((each.first_timestamp for each in dirty if each.first_timestamp > 0), default=NO_TIME)
    return earliest > 0 and now_ms - earliest > settings.max_compaction_lag_ms


def fits_group(
    extent: Extent,
    *,
    end: int,
    base_offset: int,
    written: int,
    entries: int,
    segment_bytes: int,
    index_interval: int,
    index_size_max: int,
) -> bool:
    """Return whether a segment fits into the one being written, by size, index size and offset range.

    `end` is the end offset of the segment. As long as little is written, the size may exceed the limit: otherwise the
    few remaining records of a full segment would be alone, and some readers cannot handle a response without records.
    """
    size = written + extent.size
    entries += extent.size // (index_interval + 1) + 2
    return (
        (size <= segment_bytes or (written <= segment_bytes // 2 and size <= POSITION_MAX))
        and (entries * max(OFFSET_ENTRY.size, TIME_ENTRY.size) <= index_size_max or not written)
        and end - 1 - base_offset <= RELATIVE_OFFSET_MAX
    )
