import errno

import pytest

from penstock.wire.records import Record, encode_batch
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import FOLDER, append, idempotent, open_log, transactional


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


@pytest.mark.parametrize("kind", ["producers", "epochs"])
def test_a_process_without_free_file_handles_does_not_take_its_files_for_damaged(kind: str) -> None:
    disk, bases = written(30)
    ending = ".snapshot" if kind == "producers" else "leader-epoch-checkpoint"
    read = disk.read_file

    def refuse(path: str) -> bytes:
        if path.endswith(ending):
            raise OSError(errno.EMFILE, "Too many open files")
        return read(path)

    disk.read_file = refuse  # type: ignore[method-assign]
    with pytest.raises(OSError, match="Too many open files"):
        open_log(disk, recovery_point=bases[-1])
    disk.read_file = read  # type: ignore[method-assign]
    assert open_log(disk, recovery_point=bases[-1]).producers()[0].next_sequence == 30


def test_a_control_batch_that_is_no_marker_ends_no_transaction_in_a_replay() -> None:
    disk = SimDisk()
    log = open_log(disk)
    append(log, transactional(sequence=0), transaction_verified=True)
    unknown = encode_batch(
        [Record(timestamp=1, key=bytes.fromhex("0000 0009"), value=b"")],
        base_offset=1,
        producer_id=7,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    log.append_replicated(memoryview(bytearray(unknown)), now_ms=1)
    assert (log.end_offset, log.first_unstable_offset) == (2, 0)
    assert open_log(disk).first_unstable_offset == 0
