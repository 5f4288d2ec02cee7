import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import Corruption
from penstock.storage.time_index import TimeIndex
from penstock_sim.disk import SimDisk


def index_of(entries: list[tuple[int, int]]) -> TimeIndex:
    index = TimeIndex("/a.log", 100)
    for timestamp, offset in entries:
        index.append(timestamp, offset)
    return index


def test_only_a_larger_timestamp_adds_an_entry() -> None:
    index = index_of([(50, 101), (50, 105), (60, 107)])
    assert list(index.timestamps) == [50, 60]
    assert index.last() == (60, 107)


def test_an_empty_index_ends_at_its_base() -> None:
    assert index_of([]).last() == (-1, 100)


@given(st.lists(st.integers(0, 100), max_size=30), st.integers(-5, 110))
def test_lookup_finds_the_last_entry_below_the_timestamp(timestamps: list[int], wanted: int) -> None:
    index = index_of([(timestamp, 101 + number) for number, timestamp in enumerate(sorted(set(timestamps)))])
    below = [
        (timestamp, 101 + number) for number, timestamp in enumerate(sorted(set(timestamps))) if timestamp < wanted
    ]
    assert index.lookup(wanted) == (below[-1] if below else None)


def test_entries_are_kafkas_twelve_bytes() -> None:
    disk = SimDisk()
    index = index_of([(258, 103)])
    index.save(disk)
    assert disk.read_file("/a.timeindex") == bytes.fromhex("0000000000000102 00000003")
    loaded = TimeIndex("/a.log", 100)
    loaded.load(disk)
    assert loaded.last() == (258, 103)


def test_truncation_removes_entries_at_or_after_the_offset() -> None:
    disk = SimDisk()
    index = index_of([(50, 101), (60, 107), (70, 110)])
    index.save(disk)
    index.truncate(107)
    index.save(disk)
    assert index.last() == (50, 101)
    assert len(disk.read_file("/a.timeindex")) == 12


@pytest.mark.parametrize(
    "content",
    [
        "00",
        "0000000000000005 00000001 0000000000000005 00000002",
        "0000000000000005 00000001 0000000000000006 00000001",
        "ffffffffffffffff 00000001",
    ],
    ids=["cut short", "timestamps stand still", "offsets stand still", "no timestamp"],
)
def test_an_invalid_time_index_raises_corruption(content: str) -> None:
    disk = SimDisk()
    disk.open("/a.timeindex", create=True).write((bytes.fromhex(content),), 0)
    with pytest.raises(Corruption):
        TimeIndex("/a.log", 100).load(disk)
