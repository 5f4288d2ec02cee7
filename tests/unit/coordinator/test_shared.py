"""Commands that share a batch: grouping, order, and errors."""

import asyncio

import pytest

from penstock.coordinator.decision import TransactionEnd
from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from penstock.coordinator.shard_runner import SPLIT_SIZE
from penstock.model.errors import MessageTooLarge, NotEnoughReplicas, Refusal, RequestTimedOut, StorageError
from penstock.wire.batch import BatchHeader
from penstock.wire.records import decode_batch
from tests.unit.coordinator.fakes import FakeClock, FakeLog, SharingShard, runtime


class Stage:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log = FakeLog()
        self.shards: list[SharingShard] = []
        self.coordinator = runtime(self.make_shard, self.clock)
        self.answers: list[object] = []

    def make_shard(self) -> SharingShard:
        self.shards.append(SharingShard())
        return self.shards[-1]

    async def lead(self) -> None:
        self.coordinator.lead(0, self.log)
        await self.coordinator.partition_loaded(0)

    def share(self, *numbers: int) -> None:
        self.coordinator.share("key", ("add", *numbers), self.done)

    def done(self, reply: object, error: Exception | None) -> None:
        self.answers.append(reply if error is None else type(error))

    @property
    def batches(self) -> list[list[int]]:
        return [[int(record.value or b"") for record in decode_batch(batch)] for batch in self.log.written]

    def check(self) -> None:
        """Check that the live state equals the log."""
        assert self.shards[-1].total == sum(sum(batch) for batch in self.batches)


@pytest.fixture
async def stage() -> Stage:
    """Return a stage whose last turn was shared."""
    made = Stage()
    await made.lead()
    made.share()
    made.share()
    await turn()
    made.answers.clear()
    return made


async def turn() -> None:
    await asyncio.sleep(0)


async def test_a_single_command_is_written_immediately(stage: Stage) -> None:
    stage.share(1)
    assert stage.batches == []
    await turn()
    stage.share(2)
    assert (stage.batches, stage.answers) == ([[1], [2]], [1, 2])
    stage.share(3)
    stage.share(4)
    assert stage.answers == [1, 2]
    await turn()
    assert (stage.batches, stage.answers) == ([[1], [2], [3, 4]], [1, 2, 3, 4])
    stage.check()


async def test_commands_of_one_loop_iteration_share_a_batch(stage: Stage) -> None:
    stage.share(1, 2)
    stage.share(3)
    assert (stage.batches, stage.answers) == ([], [])
    await turn()
    assert (stage.batches, stage.answers) == ([[1, 2, 3]], [3, 3])
    stage.share(4)
    stage.share(5)
    await turn()
    assert stage.batches == [[1, 2, 3], [4, 5]]
    stage.check()


async def test_replies_wait_until_the_batch_is_committed(stage: Stage) -> None:
    stage.log.is_held = True
    stage.share(1)
    stage.share(2)
    await turn()
    assert stage.answers == []
    stage.log.commit()
    assert stage.answers == [1, 2]


async def test_a_command_without_records_waits_for_earlier_ones(stage: Stage) -> None:
    stage.log.is_held = True
    stage.share(1)
    await turn()
    stage.share()
    await turn()
    assert stage.answers == []
    stage.log.commit()
    assert (stage.answers, stage.batches) == ([1, 0], [[1]])


async def test_any_other_command_sees_earlier_shared_decisions(stage: Stage) -> None:
    stage.share(1)
    assert await stage.coordinator.submit_to(0, ("get",)) == 1
    stage.share(2)
    added = stage.coordinator.submit_to(0, ("add", 0))
    stage.share(3)
    await turn()
    assert await added == 3
    assert stage.batches == [[1], [2], [0], [3]]
    stage.check()


async def test_a_marker_is_written_after_earlier_shared_decisions(stage: Stage) -> None:
    staged = stage.coordinator.submit_to(0, ("stage", 9, 100))
    stage.share(1)
    end = TransactionEnd(producer_id=9, producer_epoch=3, is_commit=True, coordinator_epoch=0, transaction_version=2)
    marked = stage.coordinator.end_transaction(0, end)
    await asyncio.gather(staged, marked)
    *others, marker = stage.log.written
    assert [decode_batch(batch)[0].value for batch in others] == [b"100", b"1"]
    assert BatchHeader.at(memoryview(marker)).is_control
    assert stage.shards[-1].total == 101


async def test_a_timer_sees_earlier_shared_decisions(stage: Stage) -> None:
    stage.share(7)
    stage.clock.advance(0.05)
    assert stage.batches == [[7], [1000]]
    stage.check()


async def test_a_command_that_may_not_share_has_its_own_batch(stage: Stage) -> None:
    stage.share(1)
    stage.share(0)
    await turn()
    await turn()
    assert (stage.batches, stage.answers) == ([[1], [0]], [1, 1])


async def test_a_refused_append_fails_all_commands_and_changes_nothing(stage: Stage) -> None:
    stage.log.refusal = NotEnoughReplicas()
    stage.share(1)
    stage.share(2)
    await turn()
    assert stage.answers == [CoordinatorNotAvailable] * 2
    assert stage.shards[-1].total == 0
    stage.log.refusal = StorageError()
    stage.share(3)
    await turn()
    assert stage.answers[2:] == [NotCoordinator]
    stage.log.refusal = None
    stage.share(4)
    await turn()
    assert stage.answers[3:] == [4]
    stage.check()


class SmallBatchesOnly(FakeLog):
    def append(self, batch: bytes | bytearray, transaction: object = None) -> int:
        if len(decode_batch(bytes(batch))) > 2:
            raise MessageTooLarge
        return super().append(batch)


async def test_a_command_that_is_too_large_does_not_fail_the_others(stage: Stage) -> None:
    stage.log = SmallBatchesOnly()
    await stage.lead()
    stage.share(1)
    stage.share(2, 3, 4)
    stage.share(5, 6)
    await turn()
    assert (stage.batches, stage.answers) == ([[1], [5, 6]], [1, Refusal, 11])
    stage.check()


async def test_the_size_of_a_batch_is_limited(stage: Stage) -> None:
    count = SPLIT_SIZE // 30
    for _ in range(count):
        stage.share(1)
    await turn()
    assert len(stage.log.written) == 2
    assert stage.answers == [1] * count
    stage.check()


async def test_a_shard_that_fails_on_a_shared_record_is_loaded_again(stage: Stage) -> None:
    stage.shards[-1].fails_on = 2
    for number in (1, 2, 3):
        stage.share(number)
    await turn()
    assert stage.answers == [NotCoordinator] * 3
    with pytest.raises(CoordinatorLoadInProgress):
        stage.share(4)
    await stage.coordinator.partition_loaded(0)
    stage.check()
    assert stage.shards[-1].total == 6


async def test_a_command_after_a_failure_gets_load_in_progress(stage: Stage) -> None:
    stage.shards[-1].fails_on = 1
    stage.share(1)
    with pytest.raises(CoordinatorLoadInProgress):
        stage.coordinator.submit_to(0, ("get",))


async def test_waiting_commands_fail_when_the_shard_is_unloaded(stage: Stage) -> None:
    stage.log.is_held = True
    stage.share(1)
    stage.share()
    await turn()
    stage.share(2)
    stage.coordinator._resign(0)
    assert stage.answers == [NotCoordinator] * 3
    await turn()
    assert stage.batches == [[1]]


async def test_a_commit_that_takes_too_long_fails_but_stays_in_the_log(stage: Stage) -> None:
    stage.log.is_held = True
    stage.share(1)
    await turn()
    stage.log.commit(RequestTimedOut.code)
    assert stage.answers == [CoordinatorNotAvailable]
    stage.check()


async def test_an_exception_in_a_shared_decision_fails_only_that_command(stage: Stage) -> None:
    stage.share(1)
    with pytest.raises(Refusal):
        stage.coordinator.share("key", ("bug",), stage.done)
    await turn()
    assert stage.answers == [1]
    stage.check()
