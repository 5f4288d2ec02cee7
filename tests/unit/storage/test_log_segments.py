"""The list of a log's segments: their order, and which of them is active."""

import pytest

from penstock.storage.directory import LogDirectory
from penstock.storage.log_segments import LogSegments
from penstock.storage.segment import Segment
from penstock_sim.disk import SimDisk

DIRECTORY = LogDirectory(SimDisk(), "/data")


def segment(base_offset: int, size: int = 100) -> Segment:
    return Segment(
        DIRECTORY, "/data/a-0", base_offset, size=size, index_interval=4096, index_size_max=4096, created_ms=0
    )


def made(*bases: int) -> LogSegments:
    return LogSegments([segment(base) for base in bases])


def test_an_offset_belongs_to_the_last_segment_that_begins_at_or_before_it() -> None:
    segments = made(5, 10, 20)
    assert [segments.slot_of(offset) for offset in (0, 5, 9, 10, 19, 20, 1000)] == [0, 0, 0, 1, 1, 2, 2]
    assert [segments.end_of(slot, 33) for slot in range(3)] == [10, 20, 33]
    assert segments.size == 300


def test_the_active_segment_is_the_last_one_after_every_change() -> None:
    segments = made(0, 10)
    segments.add(segment(20))
    assert (segments.bases, segments.active) == ([0, 10, 20], segments[-1])
    segments.drop_first(1)
    assert (segments.bases, segments.active) == ([10, 20], segments[-1])
    segments.drop_last()
    assert (segments.bases, segments.active) == ([10], segments[-1])
    segments.restart()
    segments.add(segment(7))
    assert (segments.bases, segments.active) == ([7], segments[-1])


def test_one_segment_replaces_several() -> None:
    segments = made(0, 10, 20, 30)
    new = segment(10)
    segments.replace(segments[1:3], new)
    assert (segments.bases, segments[1] is new) == ([0, 10, 30], True)


def test_changes_that_break_the_order_of_offsets_fail_an_assertion() -> None:
    segments = made(0, 10)
    with pytest.raises(AssertionError):
        segments.add(segment(10))
    with pytest.raises(AssertionError):
        segments.drop_first(2)
    with pytest.raises(AssertionError):
        segments.replace(segments[0:2], segment(0))
    with pytest.raises(AssertionError):
        segments.replace([segment(0)], segment(0))
    assert segments.bases == [0, 10]
