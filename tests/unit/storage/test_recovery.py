"""Recovery at startup: torn tails, corruption, and derived files (invariants 44-47)."""

from collections.abc import Callable
from random import Random

import pytest

from penstock.model.errors import OffsetOutOfRange, StorageError
from penstock.model.job import finish
from penstock.storage.damage import QUARANTINE_FILE
from penstock.storage.directory import LogDirectory
from penstock.storage.log import Log
from penstock.storage.recovered import LogExpectations
from penstock.storage.recovery import recovering
from penstock.wire.batch import BatchHeader
from penstock_sim.disk import Crashed, SimDisk
from tests.unit.storage.support import (
    FOLDER,
    NOW_MS,
    append,
    batch,
    fill,
    idempotent,
    open_log,
    small_settings,
    stored,
)


def written(counts: list[int], *, clean: bool = False) -> tuple[SimDisk, list[int]]:
    """Create a folder with batches of these record counts; return their base offsets."""
    disk = SimDisk()
    log = open_log(disk)
    bases = fill(log, counts)
    if clean:
        log.close()
    return disk, bases


def last_log(disk: SimDisk) -> str:
    return f"{FOLDER}/{max(name for name in disk.list(FOLDER) if name.endswith('.log'))}"


def test_a_torn_tail_is_truncated_and_reported() -> None:
    disk, bases = written([2] * 6)
    path = last_log(disk)
    file = disk.open(path)
    file.truncate(file.size() - 10)
    log = open_log(disk)
    assert (log.end_offset, log.damage) == (bases[-1], None)
    assert "truncated" in log.recovery_notes[0]
    assert append(log, batch()).base_offset == bases[-1]


def test_a_recovery_yields_between_parts_of_a_scan_and_never_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, _ = written([1] * 40)

    def slices(recovery_point: int) -> int:
        known = LogExpectations(recovery_point=recovery_point)
        job = recovering(LogDirectory(disk, "/data"), FOLDER, small_settings(), now_ms=NOW_MS, clean=False, known=known)
        count = 0
        while True:
            try:
                assert next(job) is None
                count += 1
            except StopIteration as end:
                assert (end.value.end_offset, end.value.damage) == (40, None)
                return count

    assert slices(0) == 0
    monkeypatch.setattr("penstock.storage.recovery.HEADERS_PER_SLICE", 5)
    assert slices(0) >= 4
    assert slices(39) <= 2, "only the last segment is scanned"
    monkeypatch.setattr("penstock.storage.recovery.HEADERS_PER_SLICE", 512)
    monkeypatch.setattr("penstock.storage.recovery.SLICE_SIZE", 500)
    assert slices(0) >= 4


def test_a_recovery_that_is_abandoned_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.recovery.HEADERS_PER_SLICE", 5)
    disk, _ = written([1] * 40)
    file = disk.open(last_log(disk))
    file.truncate(file.size() - 10)
    before = {name: disk.read_file(f"{FOLDER}/{name}") for name in disk.list(FOLDER)}
    job = recovering(
        LogDirectory(disk, "/data"), FOLDER, small_settings(), now_ms=NOW_MS, clean=False, known=LogExpectations()
    )
    next(job)
    job.close()
    assert {name: disk.read_file(f"{FOLDER}/{name}") for name in disk.list(FOLDER)} == before
    assert open_log(disk).end_offset == 39


def test_a_torn_first_batch_after_the_start_of_the_log_is_truncated() -> None:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    disk.open(f"{FOLDER}/00000000000000000012.log", create=True).write((batch()[:36],), 0)
    disk.replace_file(f"{FOLDER}/leader-epoch-checkpoint", b"0\n1\n3 5\n")
    log = open_log(disk, recovery_point=12, log_start=12)
    assert (log.start_offset, log.end_offset, log.damage) == (12, 12, None)
    assert append(log, batch(), epoch=4).base_offset == 12


def test_garbage_after_the_last_batch_is_truncated() -> None:
    disk, _ = written([2] * 6)
    file = disk.open(last_log(disk))
    file.write((b"\x00" * 700,), file.size())
    log = open_log(disk)
    assert (log.end_offset, log.damage) == (12, None)


def test_damage_in_the_middle_is_kept_reported_and_never_served() -> None:
    disk, bases = written([2] * 6)
    path = last_log(disk)
    before = disk.read_file(path)
    disk.flip(path, len(before) // 2)
    rotten = disk.read_file(path)
    log = open_log(disk)
    assert log.damage is not None and path in log.damage
    assert log.damaged_from in bases
    assert disk.read_file(path) == rotten
    for offset in range(log.end_offset):
        if offset < log.damaged_from:
            piece = log.read(offset, max_bytes=10_000, end=log.end_offset)
            assert piece is not None
            content = piece.file.read(piece.size, piece.position)
            assert content == before[piece.position : piece.position + piece.size]
        else:
            with pytest.raises(StorageError):
                log.read(offset, max_bytes=10_000, end=log.end_offset)
    with pytest.raises(StorageError):
        append(log, batch())


def test_a_damaged_log_keeps_its_end_offset() -> None:
    disk, bases = written([2] * 6)
    disk.flip(last_log(disk), 100)
    assert open_log(disk).end_offset == bases[-1] + 2


def test_damage_in_the_last_batch_is_kept_if_it_was_synced_before_the_checkpoint() -> None:
    disk, bases = written([2] * 6)
    path = last_log(disk)
    disk.flip(path, len(disk.read_file(path)) - 1)
    log = open_log(disk, recovery_point=12)
    assert log.damage is not None and log.damaged_from == bases[-1]


def test_a_zeroed_page_below_the_recovery_point_is_damage() -> None:
    disk, _ = written([2] * 6)
    disk.open(last_log(disk)).write((bytes(512),), 512)
    assert open_log(disk, recovery_point=12).damage is not None


def test_a_lost_write_above_the_recovery_point_is_truncated_and_the_rest_is_set_aside() -> None:
    disk, _ = written([2] * 7)
    path = last_log(disk)
    disk.open(path).write((bytes(512),), 512)
    log = open_log(disk)
    assert log.damage is None
    assert 0 < log.end_offset < 14
    assert any(name.endswith(".cut") for name in disk.list(FOLDER))


def test_damage_stays_known_after_a_clean_shutdown() -> None:
    disk, _ = written([2] * 6, clean=True)
    disk.flip(last_log(disk), 100)
    damaged = open_log(disk, recovery_point=12)
    assert damaged.damage is not None
    damaged.close()
    again = open_log(disk, clean=True, recovery_point=12)
    assert (again.damage, again.damaged_from) == (damaged.damage, damaged.damaged_from)


def test_a_repaired_log_leaves_the_quarantine() -> None:
    disk, _ = written([2] * 6)
    path = last_log(disk)
    disk.flip(path, 100)
    assert open_log(disk).damage is not None
    disk.flip(path, 100)
    log = open_log(disk, clean=True, recovery_point=12)
    assert (log.damage, log.end_offset) == (None, 12)
    assert not disk.exists(f"{FOLDER}/{QUARANTINE_FILE}")


def test_missing_synced_batches_are_damage() -> None:
    disk, _ = written([2] * 6)
    disk.open(last_log(disk)).truncate(0)
    log = open_log(disk, recovery_point=12)
    assert log.damage is not None
    with pytest.raises(StorageError):
        append(log, batch())


def test_a_missing_segment_is_damage_if_it_was_synced() -> None:
    disk, _ = written([3] * 30)
    logs = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    disk.remove(f"{FOLDER}/{logs[1]}")
    log = open_log(disk, recovery_point=int(logs[1][:20]) - 1)
    assert log.damage is None or log.damaged_from == int(logs[1][:20])


def test_damage_found_by_a_read_is_quarantined() -> None:
    disk, bases = written([3] * 30, clean=True)
    log = open_log(disk, clean=True, recovery_point=90)
    first = f"{FOLDER}/{0:020d}.log"
    position = log.segments[0].find(bases[4])
    assert position is not None
    disk.flip(first, position + 16, 0xFF)
    log = open_log(disk, clean=True, recovery_point=90)
    assert log.damage is None
    with pytest.raises(StorageError):
        log.read(bases[4], max_bytes=100, end=90)
    assert log.damaged_from == bases[4]
    assert log.read(bases[2], max_bytes=100, end=90) is not None
    assert open_log(disk, clean=True, recovery_point=90).damaged_from == bases[4]


def test_damage_in_an_old_segment_does_not_affect_earlier_ones() -> None:
    disk, _ = written([3] * 30)
    second = sorted(name for name in disk.list(FOLDER) if name.endswith(".log"))[1]
    disk.flip(f"{FOLDER}/{second}", 200)
    log = open_log(disk)
    assert log.damaged_from is not None and log.damaged_from >= int(second[:20])
    assert [header.base_offset for header in stored_before(log)] == list(range(0, log.damaged_from, 3))


def stored_before(log: Log) -> list[BatchHeader]:
    return stored(log, below=log.damaged_from or log.end_offset)


SPOILERS: dict[str, Callable[[SimDisk, str], None]] = {
    "removed": lambda disk, path: disk.remove(path),
    "emptied": lambda disk, path: disk.open(path).truncate(0),
    "cut": lambda disk, path: disk.open(path).truncate(max(disk.open(path).size() - 5, 0)),
    "zeroed": lambda disk, path: _overwrite(disk, path, b"\x00"),
    "garbage": lambda disk, path: _overwrite(disk, path, b"\xa5"),
    "flipped": lambda disk, path: disk.flip(path, disk.open(path).size() // 2) if disk.open(path).size() else None,
}


def _overwrite(disk: SimDisk, path: str, byte: bytes) -> None:
    file = disk.open(path)
    file.write((byte * file.size(),), 0)


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("spoiler", SPOILERS)
def test_derived_files_may_be_damaged_in_any_way(spoiler: str, clean: bool) -> None:
    disk = SimDisk()
    log = open_log(disk)
    for number in range(40):
        append(log, idempotent(2, sequence=2 * number, value=b"v" * 60, timestamp=number * 10), epoch=number // 15)
    expected = answers(log)
    if clean:
        log.close()
    for name in disk.list(FOLDER):
        if not name.endswith(".log"):
            SPOILERS[spoiler](disk, f"{FOLDER}/{name}")
    again = open_log(disk, clean=clean, recovery_point=80 if clean else 0)
    assert again.damage is None
    assert answers(again) == expected


def answers(log: Log) -> list[object]:
    """Return everything that a client can see of a log."""
    return [
        [(header.base_offset, header.leader_epoch) for header in stored(log)],
        [finish(log.lookup_time(timestamp)) for timestamp in range(0, 420, 7)],
        finish(log.max_timestamp()),
        [log.epoch_end(epoch) for epoch in range(-1, 5)],
        {each.producer_id: (each.epoch, list(each.batches)) for each in log.producers()},
    ]


def test_a_flipped_byte_in_any_segment_is_found_by_a_full_scan() -> None:
    disk, _ = written([2] * 4)
    path = last_log(disk)
    for position in range(0, len(disk.read_file(path)), 3):
        # The checksum does not cover offset and epoch: they are compared with those of adjacent batches where possible.
        if position % 3 == 0 and not _in_checked_part(disk, path, position):
            continue
        disk.flip(path, position, 0x10)
        log = open_log(disk, recovery_point=8)
        assert log.damage is not None, f"a flipped byte at {position} went unnoticed"
        disk.flip(path, position, 0x10)
        open_log(disk, recovery_point=8)


def _in_checked_part(disk: SimDisk, path: str, position: int) -> bool:
    content, start = disk.read_file(path), 0
    while start < len(content):
        size = int.from_bytes(content[start + 8 : start + 12]) + 12
        if position < start + size:
            return position - start >= 16
        start += size
    return False


def test_leftovers_of_interrupted_operations_are_removed() -> None:
    disk, _ = written([2])
    for name in ("00000000000000000099.log.deleted", "leader-epoch-checkpoint.tmp", "00000000000000000055.index"):
        disk.open(f"{FOLDER}/{name}", create=True)
    open_log(disk)
    assert not any(
        name.endswith((".deleted", ".tmp")) or name.startswith("00000000000000000055") for name in disk.list(FOLDER)
    )


def test_the_start_of_the_log_is_kept() -> None:
    disk, _ = written([3] * 5)
    log = open_log(disk, log_start=7)
    assert log.start_offset == 7
    with pytest.raises(OffsetOutOfRange):
        log.read(6, max_bytes=100, end=15)


def test_segments_below_the_start_may_be_missing_in_any_order() -> None:
    """Retention renames them, and a power failure keeps some of the new names and loses others."""
    disk, _ = written([3] * 30)
    bases = list(open_log(disk).segments.bases)
    assert len(bases) > 4
    for base in (bases[1], bases[3]):
        disk.rename(f"{FOLDER}/{base:020d}.log", f"{FOLDER}/{base:020d}.log.deleted")
    log = open_log(disk, log_start=bases[4])
    assert (log.damage, log.start_offset, log.end_offset, log.segments.bases) == (None, bases[4], 90, bases[4:])
    assert not any(name.endswith(".cut") for name in disk.list(FOLDER))


@pytest.mark.parametrize("at_segment", [False, True])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.7, 1.0])
def test_a_log_that_is_being_emptied_is_complete_or_empty_after_a_crash(kept: float, at_segment: bool) -> None:
    """Some of the old segments begin at or after the offset."""
    for call in range(1, 80):
        disk, _ = written([3] * 30)
        log, whole = open_log(disk), (0, 90)
        offset = log.segments.bases[2] + (not at_segment)
        for folder in ("/", "/data", FOLDER):
            disk.sync_folder(folder)
        disk.fail_at[disk.calls + call] = None
        try:
            log.truncate_fully_and_start_at(offset)
        except Crashed:
            disk.crash(Random(call), kept=kept)
            log = open_log(disk)
            found = (log.start_offset, log.end_offset)
            assert log.damage is None and found in (whole, (offset, offset)), (call, found, log.damage)
        else:
            break
    assert call > 20


def test_a_log_start_after_the_end_restarts_the_log_there() -> None:
    disk, _ = written([3] * 5)
    log = open_log(disk, log_start=100)
    assert (log.start_offset, log.end_offset) == (100, 100)
    assert append(log, batch()).base_offset == 100


def test_an_empty_folder_begins_at_its_start() -> None:
    log = open_log(SimDisk(), log_start=30)
    assert (log.start_offset, log.end_offset, log.segments.bases) == (30, 30, [30])


def test_segments_below_the_recovery_point_are_not_read() -> None:
    disk, _ = written([3] * 30)
    log = open_log(disk)
    log.close()
    disk.trace.clear()
    open_log(disk, recovery_point=log.segments.bases[-1])
    # At most one header is read, to verify the epoch that begins there.
    assert sum(kind == "read" and path.endswith(f"{0:020d}.log") for kind, path in disk.trace) <= 1


def test_an_epoch_with_a_corrupt_offset_beyond_the_end_is_recovered() -> None:
    disk = SimDisk()
    log = open_log(disk, segment_bytes=500)
    for epoch in (1, 2):
        for _ in range(9):
            append(log, batch(), epoch=epoch)
    known, end = log.epochs.entries(), log.end_offset
    log.close()
    path = f"{FOLDER}/leader-epoch-checkpoint"
    disk.replace_file(path, disk.read_file(path).replace(b"2 9", b"2 17"))
    assert open_log(disk, recovery_point=end, segment_bytes=500).epochs.entries() == known


def test_an_epoch_without_batches_is_dropped_by_a_follower() -> None:
    log = open_log(SimDisk())
    append(log, batch(), epoch=1)
    log.begin_epoch(2, log.end_offset)
    log.drop_unwritten_epochs()
    assert log.epochs.entries() == [(1, 0)]
    append(log, batch(), epoch=1)
    assert log.epoch_end(1) == (1, 2)


def test_a_log_that_is_known_to_be_damaged_is_never_truncated() -> None:
    disk, bases = written([2] * 6)
    path = last_log(disk)
    size = len(disk.read_file(path)) // 6
    for spoiled in range(3, 6):
        disk.flip(path, spoiled * size + 70)
    assert open_log(disk, recovery_point=12).damaged_from == bases[3]
    # Corrupt the base offset of the last valid batch: no checksum covers it, and no valid batch follows.
    disk.flip(path, 2 * size + 4, 0x40)
    rotten = disk.read_file(path)
    log = open_log(disk, recovery_point=12)
    assert (log.damaged_from, disk.read_file(path)) == (bases[3], rotten)
    with pytest.raises(StorageError):
        log.read(bases[3], max_bytes=10_000, end=log.end_offset)


@pytest.mark.parametrize("point", range(1, 19))
def test_an_old_checkpoint_may_lie_in_a_gap_that_compaction_left(point: int) -> None:
    disk = SimDisk()
    log = open_log(disk, cleanup_policy=frozenset({"compact"}))
    for base in (0, 3, 9, 12):
        log.append_replicated(memoryview(bytearray(batch(2, base_offset=base))), now_ms=NOW_MS, gaps_below=20)
    log.roll()
    fill(log, [2, 2])
    end = log.end_offset
    log.close()
    again = open_log(disk, clean=True, recovery_point=point, cleanup_policy=frozenset({"compact"}))
    assert (again.damage, again.end_offset) == (None, end)


def test_a_log_is_recovered_on_a_full_disk_and_its_epochs_are_saved_later() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [1] * 5)
    append(log, batch(), epoch=4)
    disk.crash(kept=1.0)
    disk.capacity = 0
    again = open_log(disk, clean=False)
    assert (again.end_offset, again.damage, again.epochs.latest) == (6, None, 4)
    assert len(stored(again)) == 6
    assert not again.save_epochs()
    disk.capacity = None
    assert again.save_epochs()


@pytest.mark.parametrize("empties", [False, True])
def test_segments_that_a_restart_removes_are_not_missed_after_a_power_failure(empties: bool) -> None:
    """The process ends before the sync of the segment list, and the next one removes the segments."""
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [3] * 30)
    log.flush()
    for folder in ("/", "/data"):
        disk.sync_folder(folder)
    start = log.segments.bases[-1]
    if empties:
        log.segment_list.add_restart(log.end_offset)
    else:
        log.segment_list.add_start(start)
    disk.end_process()
    restarted = open_log(disk)
    assert restarted.damage is None and len(restarted.segments) == 1
    disk.crash(kept=0.0)
    after = open_log(disk)
    assert after.damage is None and after.start_offset >= start
