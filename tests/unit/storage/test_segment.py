import pytest

from penstock.model.job import finish
from penstock.storage import index_builder, search_hints, segment
from penstock.storage.log import Log
from penstock.storage.scan import BadBatch
from penstock.storage.segment import BOUNDARIES_MAX
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import FOLDER, NOW_MS, append, batch, fill, open_log, stored


def closed_log() -> tuple[SimDisk, Log]:
    """Return a log with one long segment, opened again, so that nothing is in memory."""
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1 << 20)
    fill(log, [2] * 60)
    log.close()
    return disk, open_log(disk, clean=True, segment_bytes=1 << 20)


@pytest.mark.parametrize("slot", [0, 3, -1])
@pytest.mark.parametrize("byte", [3, 7])
def test_a_wrong_index_entry_is_detected_on_use(slot: int, byte: int) -> None:
    disk, log = closed_log()
    path = log.segments.active.offset_index.path
    size = len(disk.read_file(path))
    disk.flip(path, (slot * 8 + byte) % size, 0x04)
    log = open_log(disk, clean=True, segment_bytes=1 << 20)
    assert [header.base_offset for header in stored(log, max_bytes=1000)] == list(range(0, 120, 2))
    for offset in range(120):
        piece = log.read(offset, max_bytes=1, end=120)
        assert piece is not None
        assert int.from_bytes(piece.file.read(8, piece.position)) == offset // 2 * 2


def test_a_sequential_reader_needs_no_search() -> None:
    disk, log = closed_log()
    first = log.read(0, max_bytes=1000, end=120)
    assert first is not None
    following = next(iter(log.segments.active.headers_from(first.position + first.size)))[1][0]
    log.segments.active.mark_all_checked()
    disk.trace.clear()
    second = log.read(following, max_bytes=1000, end=120)
    assert second is not None and second.position == first.position + first.size
    # Only the header at the end of this read, for the next one.
    assert [kind for kind, _ in disk.trace] == ["read"]


def test_reading_a_batch_again_from_another_offset_needs_no_search() -> None:
    disk, log = closed_log()
    log.segments.active.mark_all_checked()
    first = log.read(90, max_bytes=1, end=120)
    disk.trace.clear()
    again = log.read(91, max_bytes=1 << 20, end=120)
    assert first is not None and again is not None and again.position == first.position
    assert disk.trace == []
    following = log.read(92, max_bytes=1 << 20, end=120)
    assert following is not None and following.position == first.position + first.size
    assert [kind for kind, _ in disk.trace] == ["read"]


def test_a_batch_that_was_found_is_forgotten_when_the_segment_is_truncated() -> None:
    _, log = closed_log()
    assert log.segments.active.find(91) is not None
    position = log.segments.active.find(80)
    assert position is not None
    assert log.segments.active.find(91) is not None
    log.segments.active.truncate(position, 80)
    assert log.segments.active.find(91) is None


def test_a_reader_at_the_tail_needs_no_disk_at_all() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [2] * 3)
    disk.trace.clear()
    assert log.read(3, max_bytes=1000, end=6) is not None
    assert log.read(0, max_bytes=200, end=4) is not None
    assert disk.trace == []


def test_the_boundaries_of_old_batches_are_dropped() -> None:
    log = open_log(SimDisk(), segment_bytes=1 << 24, flush_mode="os")
    for _ in range(BOUNDARIES_MAX + 500):
        append(log, batch())
    assert len(log.segments.active.boundary_offsets) <= BOUNDARIES_MAX + 10
    for offset in (0, 17, BOUNDARIES_MAX, log.end_offset - 1):
        piece = log.read(offset, max_bytes=1, end=log.end_offset)
        assert piece is not None
        assert int.from_bytes(piece.file.read(8, piece.position)) == offset


def test_a_segment_without_timestamps_has_an_empty_time_index() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [1] * 20, timestamp=-1)
    log.roll()
    log.close()
    assert disk.read_file(f"{FOLDER}/{0:020d}.timeindex") == b""
    assert finish(open_log(disk, clean=True).max_timestamp()) == (-1, -1, -1)


def test_index_entries_are_at_least_one_interval_apart() -> None:
    _, log = closed_log()
    log.segments.active.ensure_indexed()
    positions = list(log.segments.active.offset_index.positions)
    assert len(positions) > 5
    assert all(right - left > 200 for left, right in zip([0, *positions], positions, strict=False))


def test_a_header_beyond_the_end_of_the_file_is_a_bad_batch() -> None:
    _, log = closed_log()
    active = log.segments.active
    with pytest.raises(BadBatch, match="only 5 bytes are left"):
        active.header_at(active.size - 5)


def test_few_positions_are_remembered_for_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_hints, "STARTS_MAX", 3)
    _, log = closed_log()
    assert [header.base_offset for header in stored(log, max_bytes=700)] == list(range(0, 120, 2))
    assert 0 < len(log.segments.active._hints._starts) <= 3


def test_a_batch_that_reaches_the_bound_is_not_returned() -> None:
    log = open_log(SimDisk())
    fill(log, [2] * 3)
    assert log.read(3, max_bytes=1000, end=3) is None
    piece = log.read(2, max_bytes=1000, end=4)
    assert piece is not None and int.from_bytes(piece.file.read(8, piece.position)) == 2


def test_an_index_that_ends_long_before_its_log_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, log = closed_log()
    path = log.segments.active.offset_index.path
    before = disk.read_file(path)
    disk.cut_off(path, 16)
    monkeypatch.setattr(segment, "INDEX_LAG_MAX", 1000)
    log = open_log(disk, clean=True, segment_bytes=1 << 20)
    assert [header.base_offset for header in stored(log)] == list(range(0, 120, 2))
    assert disk.read_file(path) == before


def test_the_largest_timestamp_is_found_without_indexes() -> None:
    disk, log = closed_log()
    for part in (log.segments.active.offset_index, log.segments.active.time_index):
        disk.remove(part.path)
    log = open_log(disk, clean=True, segment_bytes=1 << 20)
    assert finish(log.max_timestamp())[0] == NOW_MS + 1


def test_a_search_for_the_largest_timestamp_runs_in_slices_beside_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_builder, "HEADERS_PER_SLICE", 1)
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1 << 20, index_interval_bytes=1 << 20)
    fill(log, [2] * 20)
    log.close()
    active = open_log(disk, clean=True, segment_bytes=1 << 20, index_interval_bytes=1 << 20).segments.active
    slow = active.ensure_timed_job()
    next(slow)
    active.ensure_timed()
    found = active.max_timestamp, active.max_timestamp_offset
    assert found == (NOW_MS + 1, 1)
    active.max_timestamp = NOW_MS + 99
    finish(slow)
    assert active.max_timestamp == NOW_MS + 99, "the slower search does not overwrite later values"


def test_indexes_that_are_rebuilt_in_slices_contain_batches_appended_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segment, "HEADERS_PER_SLICE", 2)
    log = open_log(SimDisk(), segment_bytes=1 << 20)
    fill(log, [2] * 20)
    active = log.segments.active
    job = active.rebuild_indexes_job()
    next(job)
    fill(log, [2] * 20)
    expected = list(active.offset_index.positions)
    finish(job)
    assert list(active.offset_index.positions) == expected
