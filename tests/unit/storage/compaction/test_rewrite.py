import pytest

from penstock.wire.batch import DELETE_HORIZON
from penstock.wire.compression import Codec
from penstock.wire.records import decode_batch
from tests.unit.storage.compaction.compacted_partition import NOW_MS, CompactedPartition


def fill(world: CompactedPartition, rounds: int = 30, keys: int = 5) -> None:
    for number in range(rounds):
        world.put((f"k{number % keys}", f"value {number} " + "x" * 80))


def start_after_downtime(world: CompactedPartition, *, downtime_ms: int) -> None:
    """Restart the node; its retention clock continues from the stop until it has doubted the downtime long enough."""
    world.store.close()
    world.clock.now_ms += downtime_ms
    world.open()


def test_each_key_keeps_its_last_value_at_its_offset() -> None:
    world = CompactedPartition()
    fill(world)
    before, table = world.records(), world.table()
    world.compact()
    after = world.records()
    assert world.table() == table
    assert len(after) == 5
    assert set(after) <= set(before)
    assert [record.offset for record in after] == [25, 26, 27, 28, 29]
    assert world.log.compaction.clean_offset == 30
    assert world.log.end_offset == 30


def test_every_offset_can_be_fetched_after_compaction() -> None:
    world = CompactedPartition()
    fill(world)
    world.compact()
    last = [record.offset for record in world.records()]
    for offset in range(30):
        piece = world.log.read(offset, max_bytes=1, end=30)
        assert piece is not None
        records = decode_batch(piece.file.read(piece.size, piece.position))
        assert not records or records[-1].offset >= offset or offset not in last


def test_compaction_merges_segments_without_gaps() -> None:
    world = CompactedPartition()
    fill(world, 60)
    count = len(world.log.segments)
    world.compact()
    fill(world, 5)
    world.compact()
    assert len(world.log.segments) < count / 2
    ends = [segment.end_offset() for segment in world.log.segments]
    assert ends[:-1] == world.log.segments.bases[1:]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_compacted_batch_keeps_its_codec(codec: int) -> None:
    world = CompactedPartition()
    for number in range(12):
        world.put(*((f"k{number}-{index}" if index else "same", f"{number}" * 40) for index in range(4)), codec=codec)
    table = world.table()
    world.compact()
    assert world.table() == table
    kept = [header for header, _ in world.batches() if header.record_count]
    assert {header.codec for header in kept} == {codec}
    assert [header.record_count for header in kept] == [3] * 11 + [4]


def test_a_complete_batch_is_copied_byte_for_byte() -> None:
    world = CompactedPartition()
    for number in range(20):
        world.put((f"k{number}", "v" * 60))
    before = dict.fromkeys(batch for _, batch in world.batches())
    world.put(("k0", "again"))
    world.compact()
    after = [batch for header, batch in world.batches() if header.record_count]
    assert all(batch in before for batch in after[:-1])
    assert len(after) == 20


def test_a_tombstone_is_removed_after_its_delete_horizon() -> None:
    world = CompactedPartition()
    fill(world)
    world.put(("k0", None), ("k1", "stays"))
    world.compact()
    (horizon,) = [header for header, _ in world.batches() if header.attributes & DELETE_HORIZON]
    assert horizon.delete_horizon_ms == NOW_MS + 10_000
    assert [record.timestamp for record in world.records()][-2:] == [NOW_MS, NOW_MS]
    assert "k0" not in world.table()
    assert any(record.value is None for record in world.records())
    world.clock.now_ms += 9_999
    world.put(("other", "1"))
    world.compact()
    assert any(record.value is None for record in world.records())
    world.clock.now_ms += 2
    world.put(("other", "2"))
    world.compact()
    assert not any(record.value is None for record in world.records())
    assert world.table()["k1"] == "stays"
    assert "k0" not in world.table()


def test_a_tombstone_stays_for_its_time_when_the_retention_clock_accepts_a_jump() -> None:
    world = CompactedPartition()
    start_after_downtime(world, downtime_ms=60_000)
    fill(world)
    world.clock.now_ms += 55_000
    tombstone = world.put(("k0", None))
    world.compact()
    # The clock accepts the minute in which the node was stopped.
    for passed_ms in (6_000, 9_999):
        world.clock.now_ms += passed_ms
        world.put(("other", "1"))
        world.compact()
        assert tombstone in [record.offset for record in world.records()]
    world.clock.now_ms += 2
    world.put(("other", "2"))
    world.compact()
    assert tombstone not in [record.offset for record in world.records()]
    assert "k0" not in world.table()


def test_an_obsolete_marker_stays_for_its_time_when_the_retention_clock_accepts_a_jump() -> None:
    world = CompactedPartition()
    start_after_downtime(world, downtime_ms=60_000)
    world.put_in_transaction(9, 0, ("k0", "aborted"))
    marker = world.end_transaction(9, commit=False)
    fill(world)
    # Without the producer, the marker of the emptied transaction is obsolete.
    world.log.producer_state.producers.clear()
    world.clock.now_ms += 55_000
    world.compact()
    for passed_ms in (0, 6_000, 9_999):
        world.clock.now_ms += passed_ms
        world.put(("other", "1"))
        world.compact()
        assert marker in [header.base_offset for header, _ in world.batches() if header.is_control]
    world.clock.now_ms += 2
    world.put(("other", "2"))
    world.compact()
    assert marker not in [header.base_offset for header, _ in world.batches() if header.is_control]


def test_nothing_at_or_after_the_last_stable_offset_is_compacted() -> None:
    world = CompactedPartition()
    fill(world, 20)
    world.put_in_transaction(9, 0, ("k0", "undecided"))
    fill(world, 20)
    world.compact()
    assert world.log.compaction.clean_offset <= 20
    assert {record.value for record in world.records()} >= {b"undecided"}
    assert len([record for record in world.records() if record.offset > 20]) == 20


def test_aborted_records_are_removed_and_their_marker_after_its_delete_horizon() -> None:
    world = CompactedPartition()
    fill(world, 10)
    table = world.table()
    world.put_in_transaction(9, 0, ("k0", "aborted"), ("k9", "aborted"))
    marker = world.end_transaction(9, commit=False)
    fill(world, 10, keys=2)
    table |= world.table()
    world.compact()
    assert world.table() == table
    assert b"aborted" not in {record.value for record in world.records()}
    assert marker in [header.base_offset for header, _ in world.batches() if header.is_control]
    for _ in range(3):
        # The producer has written since, so its earlier batches and markers are not needed.
        world.clock.now_ms += 10_001
        world.log.producer_state.expire(world.clock.now_ms, 1)
        fill(world, 10, keys=2)
        world.compact()
    assert not [header for header, _ in world.batches() if header.is_control]


def test_data_of_a_committed_transaction_keeps_its_marker() -> None:
    world = CompactedPartition()
    world.put_in_transaction(9, 0, ("kept", "committed"))
    world.end_transaction(9, commit=True)
    for _ in range(4):
        world.clock.now_ms += 10_001
        fill(world, 10)
        world.compact()
    assert world.table()["kept"] == "committed"
    assert [header.producer_id for header, _ in world.batches() if header.is_control] == [9]


def test_the_last_sequence_of_a_known_producer_is_kept_in_an_empty_batch() -> None:
    world = CompactedPartition()
    for sequence in range(3):
        world.put(("k0", str(sequence)), producer_id=5, producer_epoch=0, base_sequence=sequence)
    fill(world)
    world.compact()
    (kept,) = [header for header, _ in world.batches() if header.producer_id == 5]
    assert (kept.record_count, kept.base_sequence, kept.base_offset) == (0, 2, 2)
    for name in world.names():
        if name.endswith(".snapshot"):
            world.disk.remove(f"/data/table-0/{name}")
    world.restart()
    world.put(("k0", "next"), producer_id=5, producer_epoch=0, base_sequence=3)
    assert world.table()["k0"] == "next"


def test_epochs_can_be_recovered_from_a_compacted_log() -> None:
    world = CompactedPartition()
    for epoch in range(4):
        world.epoch = epoch
        fill(world, 10)
    epochs = world.log.epochs.entries()
    assert len(epochs) == 4
    world.compact()
    world.store.close()
    world.disk.remove("/data/table-0/leader-epoch-checkpoint")
    world.open()
    assert world.log.epochs.entries() == epochs


def test_a_full_map_ends_the_pass_early_and_the_next_pass_continues() -> None:
    world = CompactedPartition()
    for number in range(60):
        world.put((f"k{number % 20}", f"{number}" * 30))
    table = world.table()
    cleaner = world.compact(passes=1, log_cleaner_dedupe_buffer_size=192 * 8, log_cleaner_io_buffer_load_factor=1.0)
    assert 0 < world.log.compaction.clean_offset < 60
    assert world.table() == table
    for _ in range(20):
        cleaner.find_work()
    assert world.log.compaction.clean_offset == 60
    assert world.table() == table
    assert len(world.records()) < 60


def test_a_clean_segment_without_removed_records_is_not_rewritten() -> None:
    world = CompactedPartition()
    for number in range(10):
        world.put((f"k{number}", "v" * 200))
    world.compact()
    first = world.log.segments[0]
    world.put(("other", "v" * 1200))
    world.put(("other", "v" * 1200))
    world.compact()
    assert world.log.segments[0] is first


def test_a_segment_keeps_its_end_offset_when_its_last_batch_is_removed() -> None:
    world = CompactedPartition()
    for number in range(40):
        world.put((f"k{number}", "v" * 150))
        world.put(("hot", f"{number}" * 50))
    table = world.table()
    world.compact()
    assert len(world.log.segments) > 3
    assert [segment.end_offset() for segment in world.log.segments[:-1]] == world.log.segments.bases[1:]
    assert [header for header, _ in world.batches() if not header.record_count]
    # Without any checkpoint, a gap would be indistinguishable from a loss.
    world.disk.remove("/data/recovery-point-offset-checkpoint")
    world.disk.crash(kept=1.0)
    world.open()
    assert world.log.damage is None
    assert world.table() == table
