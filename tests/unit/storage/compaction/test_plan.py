from typing import Any

from penstock.storage.compaction import plan
from penstock.storage.compaction.plan import ClosedSegment, Plan
from penstock.storage.compaction.task import Extent
from tests.unit.storage.compaction.compacted_partition import compacted

NOW_MS = 1_000_000


def segments(*sizes: int, first: int = NOW_MS - 500, latest: int = NOW_MS - 400) -> list[ClosedSegment]:
    return [ClosedSegment(10 * index, 10 * index + 10, size, first, latest) for index, size in enumerate(sizes)]


def decide(
    found: list[ClosedSegment], *, dirty_from: int = 0, stable_end: int = 10_000, **changes: object
) -> Plan | None:
    return plan.decide(found, compacted(**changes), dirty_from=dirty_from, stable_end=stable_end, now_ms=NOW_MS)


def test_a_pass_ends_with_the_last_segment_below_the_stable_end() -> None:
    assert decide(segments(1, 1, 1), stable_end=29) == Plan(2, 0, 20, 1.0)
    assert decide(segments(1, 1, 1), stable_end=30) == Plan(3, 0, 30, 1.0)
    assert decide(segments(1, 1, 1), stable_end=9) is None


def test_the_dirty_ratio_counts_only_cleanable_bytes() -> None:
    found = decide(segments(60, 40, 1000), dirty_from=10, stable_end=20, min_cleanable_dirty_ratio=0.39)
    assert found == Plan(2, 10, 20, 0.4)
    assert decide(segments(60, 40), dirty_from=10, min_cleanable_dirty_ratio=0.4) is None


def test_a_young_dirty_record_ends_the_cleanable_range() -> None:
    assert decide(segments(1, 1), min_compaction_lag_ms=401) is None
    assert decide(segments(1, 1), min_compaction_lag_ms=400) == Plan(2, 0, 20, 1.0)
    assert decide(segments(1, 1), dirty_from=20, min_compaction_lag_ms=401) is None


def test_an_overdue_record_causes_a_pass() -> None:
    changes: dict[str, Any] = {"dirty_from": 10, "min_cleanable_dirty_ratio": 1.0}
    assert decide(segments(99, 1), max_compaction_lag_ms=499, **changes) == Plan(2, 10, 20, 0.01)
    assert decide(segments(99, 1), max_compaction_lag_ms=500, **changes) is None


def test_a_checkpoint_outside_the_log_is_ignored() -> None:
    assert plan.first_dirty(50, log_start=0, first_base=0, active_base=100) == 50
    assert plan.first_dirty(101, log_start=0, first_base=0, active_base=100) == 0
    assert plan.first_dirty(5, log_start=20, first_base=10, active_base=100) == 20


def fits_group(size: int, *, end: int = 20, written: int = 40, entries: int = 0, **limits: int) -> bool:
    limits = {"segment_bytes": 100, "index_interval": 0, "index_size_max": 10_000, **limits}
    return plan.fits_group(Extent(10, size), end=end, base_offset=0, written=written, entries=entries, **limits)


def test_adjacent_segments_are_merged_while_they_fit() -> None:
    assert fits_group(60)
    assert fits_group(49, written=51)
    assert not fits_group(50, written=51)


def test_a_mostly_empty_segment_is_merged_with_the_next() -> None:
    assert fits_group(100, written=50)
    assert not fits_group(2**31 - 50, written=50, index_size_max=2**40)


def test_an_index_limits_the_size_of_a_group() -> None:
    assert fits_group(40, entries=10, index_size_max=52 * 12)
    assert not fits_group(40, entries=10, index_size_max=52 * 12 - 1)


def test_offsets_of_one_segment_fit_into_its_index() -> None:
    assert fits_group(1, end=2**31)
    assert not fits_group(1, end=2**31 + 1)
