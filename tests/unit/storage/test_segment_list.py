import pytest

from penstock.storage.segment_list import REWRITTEN, ListedSegment, SegmentList
from penstock_sim.disk import SimDisk


def list_on(disk: SimDisk) -> SegmentList:
    disk.make_folder("/data/log-0")
    segment_list = SegmentList(disk, "/data/log-0")
    if disk.exists(segment_list.path):
        segment_list.load()
    return segment_list


def three(disk: SimDisk) -> SegmentList:
    segment_list = list_on(disk)
    for base in (0, 10, 20):
        segment_list.add_closed(base, base + 10, 100 + base)
    return segment_list


def check(disk: SimDisk, entries: list[tuple[int, int, int]], **state: object) -> None:
    """Compare a list with the one that is loaded from its file."""
    again = list_on(disk)
    assert list(again) == [ListedSegment(*each) for each in entries]
    for name, value in state.items():
        assert getattr(again, name) == value


def test_closed_segments_are_listed_in_order() -> None:
    disk = SimDisk()
    assert not list_on(disk).exists
    three(disk)
    check(disk, [(0, 10, 100), (10, 20, 110), (20, 30, 120)], exists=True, end_offset=30, begins_at=None)


def test_a_rewritten_range_replaces_its_segments() -> None:
    disk = SimDisk()
    segment_list = three(disk)
    segment_list.add_closed(0, 20, REWRITTEN)
    check(disk, [(0, 20, REWRITTEN), (20, 30, 120)])
    segment_list.add_closed(0, 20, 55)
    check(disk, [(0, 20, 55), (20, 30, 120)])


@pytest.mark.parametrize(("offset", "left"), [(30, 2), (25, 2), (21, 2), (20, 1), (5, 0), (31, 3)])
def test_a_truncation_removes_its_segment_from_the_list(offset: int, left: int) -> None:
    disk = SimDisk()
    assert (three(disk).add_truncation(offset) is None) == (left == 3)
    again = list_on(disk)
    assert len(list(again)) == left
    assert again.end_offset == (left * 10 or None)


def test_the_start_moves_and_a_restart_drops_all_entries() -> None:
    disk = SimDisk()
    segment_list = three(disk)
    segment_list.add_start(10)
    check(disk, [(10, 20, 110), (20, 30, 120)], begins_at=10, may_be_empty=False)
    segment_list.add_restart(500)
    check(disk, [], begins_at=500, may_be_empty=True, end_offset=500)
    segment_list.add_start(500)
    check(disk, [], begins_at=500, may_be_empty=False)


def test_a_torn_last_change_is_ignored_and_overwritten() -> None:
    for size in range(1, 32):
        disk = SimDisk()
        segment_list = three(disk)
        disk.cut_off(segment_list.path, 64 + size)
        again = list_on(disk)
        assert [each.base_offset for each in again] == [0, 10]
        again.add_closed(20, 40, 7)
        check(disk, [(0, 10, 100), (10, 20, 110), (20, 40, 7)])


def test_a_damaged_list_is_ignored_until_it_is_rewritten() -> None:
    disk = SimDisk()
    segment_list = three(disk)
    disk.flip(segment_list.path, 40)
    again = list_on(disk)
    assert (list(again), again.is_void, again.end_offset) == ([], True, None)
    again.add_closed(0, 10, 100)
    check(disk, [(0, 10, 100)], is_void=False)


def test_a_long_list_is_rewritten() -> None:
    disk = SimDisk()
    segment_list = list_on(disk)
    segment_list.add_start(0)
    for number in range(200):
        segment_list.add_closed(0, 10 + number, number)
    segment_list.tidy()
    assert len(disk.read_file(segment_list.path)) == 64
    check(disk, [(0, 209, 199)], begins_at=0)


def test_a_list_that_is_rewritten_after_a_restart_may_still_be_empty() -> None:
    disk = SimDisk()
    segment_list = list_on(disk)
    for offset in range(500):
        segment_list.add_restart(offset)
    size = len(disk.read_file(segment_list.path))
    segment_list.tidy()
    assert len(disk.read_file(segment_list.path)) < size
    check(disk, [], begins_at=499, may_be_empty=True, end_offset=499)


def test_a_segment_that_begins_within_a_listed_one_replaces_it() -> None:
    disk = SimDisk()
    three(disk).add_closed(15, 30, 55)
    check(disk, [(0, 10, 100), (15, 30, 55)])
