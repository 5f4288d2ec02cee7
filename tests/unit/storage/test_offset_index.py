import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import Corruption
from penstock.storage.offset_index import OffsetIndex
from penstock_sim.disk import SimDisk

ENTRIES = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 500)), max_size=40)


def index_of(steps: list[tuple[int, int]], base_offset: int = 1000) -> OffsetIndex:
    index = OffsetIndex("/a.log", base_offset)
    offset, position = base_offset, 0
    for offset_step, position_step in steps:
        offset += offset_step
        position += position_step
        index.append(offset, position)
    return index


@given(ENTRIES, st.integers(900, 3500))
def test_lookup_finds_what_a_linear_search_finds(steps: list[tuple[int, int]], offset: int) -> None:
    index = index_of(steps)
    below = [slot for slot in range(len(index)) if index.entry(slot)[0] <= offset]
    assert index.lookup(offset) == (below[-1] if below else -1)


@given(ENTRIES, st.integers(0, 20000), st.integers(900, 3500))
def test_the_last_entry_within_bounds_keeps_both_bounds(steps: list[tuple[int, int]], position: int, end: int) -> None:
    index = index_of(steps)
    within = [slot for slot in range(len(index)) if index.entry(slot)[1] <= position and index.entry(slot)[0] < end]
    assert index.last_within(position, end=end) == (within[-1] if within else -1)


@given(ENTRIES, st.integers(0, 20000), ENTRIES)
def test_a_saved_index_is_loaded_after_a_truncation(
    steps: list[tuple[int, int]], position: int, more: list[tuple[int, int]]
) -> None:
    disk = SimDisk()
    index = index_of(steps)
    index.save(disk)
    index.truncate(position)
    offset, last = index.entry(len(index) - 1) if len(index) else (1000, 0)
    for offset_step, position_step in more:
        offset, last = offset + offset_step, last + position_step
        index.append(offset, last)
    index.save(disk)
    loaded = OffsetIndex("/a.log", 1000)
    loaded.load(disk, log_size=1 << 30)
    assert loaded.offsets == index.offsets
    assert loaded.positions == index.positions


def test_entries_are_kafkas_big_endian_pairs() -> None:
    disk = SimDisk()
    index = OffsetIndex("/a.log", 1000)
    index.append(1003, 4097)
    index.save(disk)
    assert disk.read_file("/a.index") == bytes.fromhex("00000003 00001001")


@pytest.mark.parametrize(
    "content",
    [
        "00000003 0000",
        "00000003 00000100 00000003 00000200",
        "00000003 00000100 00000004 00000100",
        "ffffffff 00000100",
        "00000003 00001000",
    ],
    ids=["cut short", "offsets stand still", "positions stand still", "negative", "behind the log"],
)
def test_an_invalid_offset_index_raises_corruption(content: str) -> None:
    disk = SimDisk()
    disk.open("/a.index", create=True).write((bytes.fromhex(content),), 0)
    with pytest.raises(Corruption):
        OffsetIndex("/a.log", 1000).load(disk, log_size=4096)
