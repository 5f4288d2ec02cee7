"""Invariant 45: a flipped byte is detected before it leaves the node, at whatever time it was flipped."""

from struct import pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import StorageError
from penstock.storage import checked_ranges
from penstock.storage.checked_ranges import CheckedRanges
from penstock.storage.log import Log
from penstock.storage.scan import WINDOW_SIZE
from penstock.wire.batch import HEADER_SIZE, LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT, BatchHeader, iter_batches
from penstock_sim.disk import SimDisk, SimFile
from tests.unit.storage.support import FOLDER, append, batch, fill, open_log


def closed(counts: list[int]) -> tuple[SimDisk, int]:
    """Return a cleanly closed log and its end offset."""
    disk = SimDisk()
    log = open_log(disk)
    fill(log, counts)
    log.close()
    return disk, log.end_offset


def served(log: Log, *, max_bytes: int) -> tuple[list[bytes], bool]:
    """Return the records that a consumer gets before an error, and whether there was one."""
    found: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            piece = log.read(offset, max_bytes=max_bytes, end=log.end_offset)
        except StorageError:
            return found, True
        assert piece is not None
        for view in iter_batches(piece.file.read(piece.size, piece.position)):
            found.append(bytes(view))
            offset = BatchHeader.at(view).next_offset
    return found, False


@pytest.mark.parametrize("max_bytes", [1, 400, 100_000])
def test_a_byte_flipped_after_a_clean_close_is_never_served(max_bytes: int) -> None:
    disk, end = closed([2] * 13)
    healthy, _ = served(open_log(disk, clean=True, recovery_point=end), max_bytes=max_bytes)
    for name in [name for name in disk.list(FOLDER) if name.endswith(".log")]:
        path = f"{FOLDER}/{name}"
        batches = list(iter_batches(disk.read_file(path)))
        for position in range(disk.open(path).size()):
            topic_partition = position % len(batches[0])
            # No checksum covers the leader epoch; one byte of each record suffices.
            if topic_partition in range(LEADER_EPOCH_AT, LEADER_EPOCH_AT + 4) or topic_partition > HEADER_SIZE + 3:
                continue
            disk.flip(path, position)
            log = open_log(disk, clean=True, recovery_point=end)
            found, refused = served(log, max_bytes=max_bytes)
            assert refused and found == healthy[: len(found)], f"{name} at {position}"
            first = sum(len(view) for view in batches[: position // len(batches[0])])
            behind = int(name[:20]) + 2 * (first // len(batches[0]))
            assert log.damage is not None and log.damaged_from is not None
            assert log.damaged_from in (behind, behind - 2), f"{name} at {position}: {log.damage}"
            disk.flip(path, position)
            disk.remove(f"{FOLDER}/quarantine")


def test_a_healthy_log_is_served_completely_and_checked_once() -> None:
    disk, end = closed([2] * 40)
    log = open_log(disk, clean=True, recovery_point=end)
    assert any(segment.unchecked_end for segment in log.segments)
    assert not served(log, max_bytes=300)[1]
    assert not any(segment.unchecked_end for segment in log.segments)
    disk.trace.clear()
    log.read(0, max_bytes=100_000, end=end)
    assert [kind for kind, _ in disk.trace] == []


def test_bytes_that_this_process_wrote_or_scanned_are_not_checked_again() -> None:
    disk, _ = closed([2] * 22)
    log = open_log(disk)
    append(log, batch())
    assert not any(segment.unchecked_end for segment in log.segments)


def test_the_first_read_of_unchecked_bytes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, end = closed([2] * 10)
    monkeypatch.setattr(checked_ranges, "CHECKED_SIZE_MAX", 500)
    log = open_log(disk, clean=True, recovery_point=end)
    first = log.read(0, max_bytes=100_000, end=end)
    assert first is not None and 500 <= first.size < 800
    assert served(log, max_bytes=100_000)[1] is False
    whole = log.read(0, max_bytes=100_000, end=end)
    assert whole is not None and whole.size > 800


class ColdDisk:
    """A disk of which some bytes are not in the page cache."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ready_size = 0
        self.read: list[tuple[int, int]] = []
        read_into = SimFile.read_into

        def recorded(file: SimFile, buffer: memoryview, position: int) -> int:
            self.read.append((position, len(buffer)))
            return read_into(file, buffer, position)

        monkeypatch.setattr(SimFile, "read_into", recorded)
        monkeypatch.setattr(SimFile, "ready_size", lambda file, position, size: min(size, self.ready_size))


@pytest.mark.parametrize("ready_size", [0, 1, 60, 61, 300, 700, 1000])
def test_bytes_that_are_not_in_the_page_cache_are_left_for_the_next_read(
    ready_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, end = closed([2] * 13)
    healthy, _ = served(open_log(disk, clean=True, recovery_point=end), max_bytes=1)
    batch_size = len(healthy[0])
    log = open_log(disk, clean=True, recovery_point=end)
    cold = ColdDisk(monkeypatch)
    cold.ready_size = ready_size
    first = log.read(0, max_bytes=100_000, end=end)
    assert first is not None
    assert first.size == max(ready_size // batch_size, 1) * batch_size and first.is_cut
    limit = max(ready_size, WINDOW_SIZE if ready_size < batch_size else 0)
    assert all(position + size <= limit for position, size in cold.read)
    assert served(log, max_bytes=100_000) == (healthy, False)
    assert not any(segment.unchecked_end for segment in log.segments)
    again = log.read(0, max_bytes=100_000, end=end)
    assert again is not None and again.size > first.size and not again.is_cut


def test_bytes_that_were_checked_are_served_without_those_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, end = closed([2] * 6)
    log = open_log(disk, clean=True, recovery_point=end)
    first = log.read(0, max_bytes=1, end=end)
    cold = ColdDisk(monkeypatch)
    again = log.read(0, max_bytes=100_000, end=end)
    assert first is not None and again is not None
    assert (again.size, again.is_cut) == (first.size, True)
    assert cold.read == []


@pytest.mark.parametrize("ready_size", [0, 100, 500])
def test_damage_is_found_whatever_is_in_the_page_cache(ready_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, end = closed([2] * 6)
    path = f"{FOLDER}/{sorted(name for name in disk.list(FOLDER) if name.endswith('.log'))[0]}"
    size = len(next(iter_batches(disk.read_file(path))))
    disk.flip(path, 2 * size + HEADER_SIZE)
    log = open_log(disk, clean=True, recovery_point=end)
    ColdDisk(monkeypatch).ready_size = ready_size
    found, refused = served(log, max_bytes=100_000)
    assert (len(found), refused, log.damaged_from) == (2, True, 4)


def test_a_large_read_of_unchecked_bytes_uses_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, end = closed([2] * 10)
    monkeypatch.setattr(checked_ranges, "BLOCK_SIZE", 500)
    log = open_log(disk, clean=True, recovery_point=end)
    cold = ColdDisk(monkeypatch)
    cold.ready_size = 100_000
    assert served(log, max_bytes=100_000)[1] is False
    assert max(size for _, size in cold.read) == 500


def test_a_corrupt_header_does_not_hide_records_as_a_gap() -> None:
    disk, end = closed([3] * 10)
    path = f"{FOLDER}/{sorted(name for name in disk.list(FOLDER) if name.endswith('.log'))[0]}"
    size = len(next(iter_batches(disk.read_file(path))))
    lie = bytearray(4)
    pack_into(">i", lie, 0, 1)
    disk.open(path).write((lie,), size + LAST_OFFSET_DELTA_AT)
    log = open_log(disk, clean=True, recovery_point=end)
    with pytest.raises(StorageError):
        log.read(5, max_bytes=10, end=end)
    assert log.damaged_from == 3


def test_a_valid_batch_beyond_the_bound_is_left_out_but_not_damaged() -> None:
    disk, end = closed([3] * 4)
    log = open_log(disk, clean=True, recovery_point=end)
    assert log.read(3, max_bytes=1000, end=4) is None
    assert log.damage is None


def test_a_truncated_segment_is_checked_again() -> None:
    disk, end = closed([2] * 5)
    log = open_log(disk, clean=True, recovery_point=end)
    log.read(0, max_bytes=1, end=end)
    log.truncate_to(6)
    append(log, batch(), epoch=1)
    assert log.segments.active.unchecked_end > 0
    assert len(served(log, max_bytes=1000)[0]) == 4
    assert log.segments.active.unchecked_end == 0


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=40))
def test_touching_ranges_are_merged(parts: list[tuple[int, int]]) -> None:
    ranges, expected = CheckedRanges(), set[int]()
    for start, size in parts:
        ranges.add(start, start + size, start + size)
        expected |= set(range(start, start + size))
    found = [set(range(*pair)) for pair in zip(ranges.starts, ranges.ends, strict=True)]
    assert set().union(*found) == expected and sum(map(len, found)) == len(expected)
    assert all(end < start for end, start in zip(ranges.ends, ranges.starts[1:], strict=False))
    assert ranges.offsets == ranges.ends


def test_the_number_of_ranges_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_ranges, "RANGES_MAX", 3)
    ranges = CheckedRanges()
    for start in range(0, 60, 10):
        ranges.add(start, start + 1, start)
    assert len(ranges.starts) <= 3 and ranges.range_at(50) == (51, 50)
