import pytest

from penstock.model.errors import CorruptMessage, InvalidRecord, StorageError
from penstock.storage.log import Log
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import NOW_MS, append, batch, idempotent, open_log, stored


def test_batches_keep_their_offsets_and_epochs() -> None:
    log = open_log(SimDisk())
    first = batch(3, base_offset=0, leader_epoch=2)
    second = idempotent(2, sequence=0, base_offset=3, leader_epoch=4)
    appended = log.append_replicated(memoryview(first + second), now_ms=NOW_MS)
    assert (appended.base_offset, appended.last_offset) == (0, 4)
    assert [(header.base_offset, header.leader_epoch) for header in stored(log)] == [(0, 2), (3, 4)]
    assert log.epochs.entries() == [(2, 0), (4, 3)]
    assert [each.producer_id for each in log.producers()] == [7]


def test_a_follower_stores_the_bytes_of_its_leader() -> None:
    leader, follower = open_log(SimDisk()), open_log(SimDisk())
    for sequence in range(0, 60, 3):
        append(leader, idempotent(3, sequence=sequence, value=b"v" * 40), epoch=1)
    offset = 0
    while offset < leader.end_offset:
        piece = leader.read(offset, max_bytes=900, end=leader.end_offset)
        assert piece is not None
        follower.append_replicated(memoryview(piece.file.read(piece.size, piece.position)), now_ms=NOW_MS)
        offset = follower.end_offset
    assert read_bytes(leader) == read_bytes(follower)
    assert {each.producer_id: list(each.batches) for each in leader.producers()} == {
        each.producer_id: list(each.batches) for each in follower.producers()
    }


def read_bytes(log: Log) -> bytes:
    return b"".join(segment.file.read(segment.size, 0) for segment in log.segments)


@pytest.mark.parametrize("together", [True, False])
def test_reads_skip_gaps_in_the_offsets(together: bool) -> None:
    log = open_log(SimDisk())
    batches = [batch(base_offset=base_offset) for base_offset in (0, 10, 11, 40)]
    for records in [b"".join(batches)] if together else batches:
        log.append_replicated(memoryview(records), now_ms=NOW_MS)
    for offset, holder in ((0, 0), (1, 10), (10, 10), (12, 40), (40, 40)):
        piece = log.read(offset, max_bytes=1, end=log.end_offset)
        assert piece is not None
        assert int.from_bytes(piece.file.read(8, piece.position)) == holder


def test_replicated_offsets_must_rise() -> None:
    log = open_log(SimDisk())
    log.append_replicated(memoryview(batch(3)), now_ms=NOW_MS)
    with pytest.raises(InvalidRecord):
        log.append_replicated(memoryview(batch(base_offset=2)), now_ms=NOW_MS)
    with pytest.raises(InvalidRecord):
        log.append_replicated(memoryview(batch(base_offset=9) + batch(base_offset=9)), now_ms=NOW_MS)
    assert log.end_offset == 3


def test_damage_in_transit_is_detected_before_anything_is_written() -> None:
    log = open_log(SimDisk())
    broken = bytearray(batch() + batch(base_offset=1))
    broken[-1] ^= 1
    with pytest.raises(CorruptMessage):
        log.append_replicated(memoryview(broken), now_ms=NOW_MS)
    assert log.size == 0


def test_an_append_without_batches_is_rejected() -> None:
    with pytest.raises(InvalidRecord):
        open_log(SimDisk()).append_replicated(memoryview(b""), now_ms=NOW_MS)


def test_a_failed_folder_rejects_replicated_batches() -> None:
    log = open_log(SimDisk())
    log.directory.fail(OSError(5, "gone"))
    with pytest.raises(StorageError):
        log.append_replicated(memoryview(batch()), now_ms=NOW_MS)


def test_above_the_high_watermark_only_batches_of_earlier_leaders_may_follow_a_gap() -> None:
    log = open_log(SimDisk())
    log.append_replicated(memoryview(batch(3, leader_epoch=1)), now_ms=NOW_MS)
    for epoch in (4, 5):
        with pytest.raises(CorruptMessage, match="base offset 9 is not the expected 3"):
            log.append_replicated(
                memoryview(batch(base_offset=9, leader_epoch=epoch)), now_ms=NOW_MS, gaps_below=3, gaps_before_epoch=4
            )
    log.append_replicated(
        memoryview(batch(base_offset=9, leader_epoch=3)), now_ms=NOW_MS, gaps_below=3, gaps_before_epoch=4
    )
    assert log.end_offset == 10
