"""Selection of logs for compaction, and handling of errors."""

import errno
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from penstock.model.ids import PartitionIndex, TopicPartition
from penstock.storage.compaction.cleaner import LOGS_PER_SLICE
from penstock.storage.compaction.task import WORKER_DIED, CleanedGroup, Failed, Task, WorkerMessage
from penstock.wire.batch import HEADER_SIZE, patch_crc
from penstock.wire.records import Record, encode_batch
from tests.support.compacting import AtOnce, cleaner_for, stable_end
from tests.unit.storage.compaction.compacted_partition import (
    FOLDER,
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    CompactedPartition,
    compacted,
)


def fill(world: CompactedPartition, rounds: int = 30, keys: int = 5) -> None:
    for number in range(rounds):
        world.put((f"k{number % keys}", f"value {number} " + "x" * 80))


def test_a_log_waits_until_enough_of_it_is_dirty() -> None:
    world = CompactedPartition(min_cleanable_dirty_ratio=0.5)
    for number in range(30):
        world.put((f"k{number}", "x" * 100))
    world.compact()
    assert world.log.compaction.clean_offset == 30
    fill(world, 10)
    world.compact()
    assert world.log.compaction.clean_offset == 30
    fill(world, 40)
    world.compact()
    assert world.log.compaction.clean_offset > 30


def test_the_active_segment_is_not_compacted() -> None:
    world = CompactedPartition(segment_bytes=100_000)
    fill(world)
    world.compact(roll=False)
    assert len(world.records()) == 30


def test_records_are_kept_for_the_minimum_compaction_lag() -> None:
    world = CompactedPartition(min_compaction_lag_ms=5000)
    fill(world)
    world.compact()
    assert len(world.records()) == 30
    world.clock.now_ms += 5001
    world.compact()
    assert len(world.records()) == 5


def test_the_maximum_compaction_lag_rolls_an_idle_segment_and_overrides_the_ratio() -> None:
    world = CompactedPartition(max_compaction_lag_ms=5000, min_cleanable_dirty_ratio=1.0, segment_bytes=100_000)
    fill(world)
    world.compact(roll=False)
    assert len(world.records()) == 30
    world.clock.now_ms += 5001
    world.compact(roll=False)
    assert len(world.records()) == 5


def test_a_compacted_topic_rolls_by_the_maximum_compaction_lag() -> None:
    world = CompactedPartition(max_compaction_lag_ms=5000)
    assert world.log.writer.roll_ms == 5000


def test_both_policies_together_do_both() -> None:
    world = CompactedPartition(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=20_000, segment_bytes=600)
    fill(world, 20, keys=20)
    world.clock.now_ms += 15_000
    fill(world, 40)
    world.compact()
    assert len(world.records()) == 20
    world.clock.now_ms += 10_000
    world.log.delete_old_segments(high_watermark=world.log.end_offset, now_ms=world.clock.now_ms)
    assert {record.timestamp for record in world.records()} == {NOW_MS + 15_000}
    fill(world, 20)
    world.compact()
    assert len(world.table()) == 5


def test_retention_skips_a_log_that_is_being_compacted() -> None:
    world = CompactedPartition(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1)
    fill(world)
    world.clock.now_ms += 1000
    world.log.compaction.begin()
    assert world.log.delete_old_segments(high_watermark=30, now_ms=world.clock.now_ms) == 0
    world.log.compaction.end()
    assert world.log.delete_old_segments(high_watermark=30, now_ms=world.clock.now_ms) > 0


def test_the_dirtiest_log_comes_first() -> None:
    world = CompactedPartition(min_cleanable_dirty_ratio=0.1)
    other = world.store.open(
        TopicPartition(PARTITION.topic, PartitionIndex(1)), TOPIC_ID, compacted(min_cleanable_dirty_ratio=0.1)
    )
    for number in range(30):
        world.put((f"k{number}", "x" * 100))
    world.compact()
    fill(world, 15)
    first, world.log = world.log, other
    fill(world)
    clean = first.compaction.clean_offset
    cleaner = cleaner_for(world.store, world.disk, world.clock)
    other.roll()
    cleaner.find_work()
    assert other.compaction.clean_offset == 30
    assert first.compaction.clean_offset == clean
    cleaner.find_work()
    assert first.compaction.clean_offset > clean


def test_the_clean_offset_survives_a_restart() -> None:
    world = CompactedPartition()
    fill(world)
    world.compact()
    lines = world.disk.read_file(f"{FOLDER}/cleaner-offset-checkpoint").decode().split("\n")
    assert lines[0] == "0"
    assert "table 0 30" in lines
    world.restart()
    assert world.log.compaction.clean_offset == 30
    calls = world.disk.calls
    world.compact(roll=False)
    assert not [call for call in world.disk.trace[calls:] if call[1].endswith(".cleaned")]


def test_a_log_truncated_below_the_clean_offset_is_dirty_from_there() -> None:
    world = CompactedPartition()
    fill(world)
    world.compact()
    world.log.truncate_to(12)
    assert world.log.compaction.clean_offset == 12
    fill(world)
    table = world.table()
    world.compact()
    assert world.table() == table


class Meddling(AtOnce):
    """A worker whose log is changed before its first message."""

    def __init__(self, world: CompactedPartition, change: Callable[[], None]) -> None:
        super().__init__(world.disk)
        self._change = change

    def start(self, task: Task, on_message: Callable[[WorkerMessage], None]) -> None:
        self._change()
        super().start(task, on_message)


@pytest.mark.parametrize("change", ["cut", "deleted"])
def test_a_log_that_was_truncated_or_deleted_during_a_pass_is_not_changed(change: str) -> None:
    world = CompactedPartition()
    fill(world)
    world.log.roll()

    def meddle() -> None:
        if change == "cut":
            world.log.truncate_fully_and_start_at(40)
        else:
            world.store.delete(PARTITION, TOPIC_ID)
            world.open_again()

    cleaner = cleaner_for(world.store, world.disk, world.clock, worker=Meddling(world, meddle))
    cleaner.find_work()
    assert not cleaner.uncleanable
    assert not cleaner.is_busy
    assert not [name for name in world.names() if name.endswith((".swap", ".cleaned"))]
    assert world.log.size == 0


def test_a_log_that_was_truncated_after_the_worker_read_it_is_not_swapped() -> None:
    world = CompactedPartition()
    fill(world)
    world.log.roll()
    worker = AtOnce(world.disk)
    worker.before_telling = lambda: world.log.truncate_to(12)
    cleaner = cleaner_for(world.store, world.disk, world.clock, worker=worker)
    cleaner.find_work()
    assert [type(each) for each in worker.message] == [CleanedGroup]
    assert not cleaner.is_busy
    assert not [name for name in world.names() if name.endswith((".swap", ".cleaned"))]
    assert len(world.records()) == 12


def test_a_damaged_log_is_skipped_and_others_are_compacted(caplog: pytest.LogCaptureFixture) -> None:
    world = CompactedPartition()
    other = world.store.open(TopicPartition(PARTITION.topic, PartitionIndex(1)), TOPIC_ID, compacted())
    fill(world)
    world.disk.flip(f"{world.log.folder}/{0:020d}.log", 100)
    world.log, damaged = other, world.log
    fill(world)
    other.roll()
    damaged.roll()
    cleaner = cleaner_for(world.store, world.disk, world.clock)
    for _ in range(4):
        cleaner.find_work()
    assert list(cleaner.uncleanable) == [PARTITION]
    assert "checksum" in cleaner.uncleanable[PARTITION]
    assert "table-0 is not compacted until the next start" in caplog.text
    assert other.compaction.clean_offset == 30


def test_malformed_records_make_a_log_uncleanable() -> None:
    world = CompactedPartition(cleanup_policy=frozenset({"delete"}))
    fill(world)
    # The topic was not compacted when this batch was appended, so the broker did not decode it.
    sealed = bytearray(encode_batch([Record(timestamp=1, key=b"k", value=b"v" * 30)] * 20))
    sealed[HEADER_SIZE + 4] = 0x7E
    patch_crc(sealed)
    world.log.append(memoryview(sealed), leader_epoch=0, now_ms=NOW_MS)
    world.log.apply_settings(compacted())
    cleaner = world.compact()
    assert "malformed" in cleaner.uncleanable[PARTITION]
    assert len(world.batches()) == 31


class Failing(AtOnce):
    def __init__(self, world: CompactedPartition, number: int) -> None:
        super().__init__(world.disk)
        self._number = number

    def start(self, task: Task, on_message: Callable[[WorkerMessage], None]) -> None:
        on_message(Failed(why="because", errno=self._number))


@pytest.mark.parametrize(
    ("number", "given_up"), [(errno.ENOSPC, [False] * 3), (errno.EIO, [True] * 3), (WORKER_DIED, [False] * 3)]
)
def test_only_permanent_errors_make_a_log_uncleanable(number: int, given_up: list[bool]) -> None:
    world = CompactedPartition()
    fill(world)
    world.log.roll()
    cleaner = cleaner_for(world.store, world.disk, world.clock, worker=Failing(world, number))
    for expected in given_up:
        cleaner.find_work()
        assert bool(cleaner.uncleanable) is expected
        assert not world.log.compaction.is_running


def test_a_log_whose_worker_dies_waits_longer_each_time() -> None:
    world = CompactedPartition()
    fill(world)
    world.log.roll()
    worker = Failing(world, WORKER_DIED)
    cleaner = cleaner_for(world.store, world.disk, world.clock, worker=worker, log_cleaner_backoff_ms="100")
    started: list[float] = []
    for _ in range(2000):
        dead = cleaner.worker_deaths(PARTITION)
        cleaner.find_work()
        if cleaner.worker_deaths(PARTITION) > dead:
            started.append(world.clock.monotonic())
        world.clock.now_ms += 10
    pauses = [round(after - before, 1) for before, after in pairwise(started)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4]


def test_a_cleaner_that_is_switched_off_does_nothing() -> None:
    world = CompactedPartition()
    fill(world)
    world.compact(log_cleaner_enable="false")
    assert world.log.compaction.clean_offset == 0


def test_nothing_is_compacted_above_the_high_watermark() -> None:
    random = Random(1)
    for _ in range(20):
        world = CompactedPartition()
        fill(world, 60)
        mark = random.randrange(61)
        before = {record for record in world.records() if record.offset >= mark}
        world.compact(
            stable=lambda topic_partition, mark=mark, world=world: min(mark, stable_end(world.store, topic_partition))
        )
        assert before <= set(world.records())
        assert world.log.compaction.clean_offset <= mark


def test_a_segment_that_a_truncation_made_active_again_is_not_replaced() -> None:
    """A follower truncates to its high watermark, which may be where the first segment after the pass begins."""
    world = CompactedPartition()
    fill(world)
    world.log.roll()
    boundary = world.log.end_offset
    world.put(("uncommitted", "x"))

    def truncate() -> None:
        worker.before_telling = lambda: None
        world.log.truncate_to(boundary)
        world.put(("committed", "y"))
        world.log.roll()

    worker = AtOnce(world.disk)
    worker.before_telling = truncate
    cleaner = cleaner_for(world.store, world.disk, world.clock, worker=worker, stable=lambda _: boundary)
    cleaner.find_work()
    assert not cleaner.is_busy
    world.restart()
    assert world.table()["committed"] == "y"


def test_a_log_that_lost_segments_during_the_search_is_not_compacted_beyond_the_last_stable_offset() -> None:
    world = CompactedPartition(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=20_000)
    for index in range(1, LOGS_PER_SLICE + 1):
        world.store.open(TopicPartition(PARTITION.topic, PartitionIndex(index)), TOPIC_ID, compacted())
    # Among the first that the search sees.
    world.store.logs[PARTITION] = world.store.logs.pop(PARTITION)
    fill(world)
    world.clock.now_ms += 15_000
    fill(world)
    world.log.roll()
    stable = world.log.end_offset
    world.put(("k4", "not stable"))
    cleaner = cleaner_for(
        world.store, world.disk, world.clock, stable=lambda place: min(stable, stable_end(world.store, place))
    )
    cleaner.find_work()
    world.clock.now_ms += 10_000
    assert world.log.delete_old_segments(high_watermark=stable, now_ms=world.clock.now_ms) > 0
    cleaner.find_work()
    assert world.table(end=stable).keys() == {f"k{number}" for number in range(5)}
