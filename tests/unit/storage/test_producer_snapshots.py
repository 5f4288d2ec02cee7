from penstock_sim.disk import SimDisk
from tests.unit.storage.support import FOLDER, append, idempotent, open_log


def snapshot_offsets(disk: SimDisk) -> list[int]:
    return [int(name[:20]) for name in disk.list(FOLDER) if name.endswith(".snapshot")]


def written(count: int) -> tuple[SimDisk, list[int]]:
    disk = SimDisk()
    log = open_log(disk)
    for sequence in range(count):
        append(log, idempotent(sequence=sequence, value=b"v" * 150))
    return disk, log.segments.bases


def test_every_segment_but_the_first_begins_with_a_snapshot() -> None:
    disk, bases = written(30)
    assert snapshot_offsets(disk) == bases[1:]


def test_a_clean_close_writes_a_snapshot_at_the_end_which_the_next_one_replaces() -> None:
    disk, bases = written(30)
    log = open_log(disk)
    log.close()
    assert snapshot_offsets(disk) == [*bases[1:], 30]
    log = open_log(disk, clean=True)
    append(log, idempotent(sequence=30))
    log.close()
    assert snapshot_offsets(disk) == [*bases[1:], 31]


def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_more_replay() -> None:
    disk, bases = written(30)
    for base in bases[2:]:
        disk.flip(f"{FOLDER}/{base:020d}.snapshot", 20)
    producer = open_log(disk, recovery_point=bases[-1]).producers()[0]
    assert [batch.base_offset for batch in producer.batches] == [25, 26, 27, 28, 29]


def test_without_a_snapshot_the_whole_log_is_replayed() -> None:
    disk, bases = written(30)
    for base in bases[1:]:
        disk.remove(f"{FOLDER}/{base:020d}.snapshot")
    producer = open_log(disk, recovery_point=bases[-1]).producers()[0]
    assert producer.next_sequence == 30


def test_snapshots_after_the_end_are_removed() -> None:
    disk, _ = written(3)
    disk.open(f"{FOLDER}/{99:020d}.snapshot", create=True)
    open_log(disk)
    assert 99 not in snapshot_offsets(disk)
