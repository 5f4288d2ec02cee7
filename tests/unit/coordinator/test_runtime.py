"""The timing of replies, and the equality of live state and log."""

import asyncio
from functools import partial

import pytest

from penstock.coordinator.decision import TransactionEnd
from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from penstock.coordinator.shard_runner import SPLIT_SIZE
from penstock.model.errors import (
    InvalidProducerEpoch,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    Refusal,
    RequestTimedOut,
    StorageError,
)
from penstock.wire.batch import BatchHeader
from penstock.wire.records import Record, decode_batch, encode_batch
from tests.unit.coordinator.fakes import CountingShard, FakeClock, FakeLog, NoReplicas, runtime


class Stage:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log = FakeLog()
        self.shards: list[CountingShard] = []
        self.replicas = NoReplicas()
        self.coordinator = runtime(self.make_shard, self.clock, replicas=self.replicas)

    def make_shard(self) -> CountingShard:
        self.shards.append(CountingShard())
        return self.shards[-1]

    async def lead(self) -> None:
        self.coordinator.lead(0, self.log)
        await self.coordinator.partition_loaded(0)

    def submit(self, *command: object) -> "asyncio.Future[object]":
        return self.coordinator.submit_to(0, command)

    def end(self, producer_id: int, *, is_commit: bool = True) -> "asyncio.Future[None]":
        end = TransactionEnd(
            producer_id=producer_id, producer_epoch=4, is_commit=is_commit, coordinator_epoch=0, transaction_version=2
        )
        return self.coordinator.end_transaction(0, end)

    @property
    def shard(self) -> CountingShard:
        return self.shards[-1]

    def logged(self) -> list[int]:
        return [int(record.value or b"") for batch in self.log.written for record in decode_batch(batch)]

    def check(self) -> None:
        assert self.shard.total == sum(self.logged())


@pytest.fixture
async def stage() -> Stage:
    made = Stage()
    await made.lead()
    return made


async def test_records_of_one_decision_are_one_batch(stage: Stage) -> None:
    assert await stage.submit("add", 1, 2) == 3
    assert await stage.submit("add", 3) == 6
    assert len(stage.log.written) == 2
    assert stage.logged() == [1, 2, 3]


async def test_a_node_without_a_lease_coordinates_no_key(stage: Stage) -> None:
    assert await stage.coordinator.submit("key", ("add", 1)) == 1
    stage.replicas.leased = False
    with pytest.raises(NotCoordinator):
        stage.coordinator.submit("key", ("add", 2))
    with pytest.raises(NotCoordinator):
        stage.coordinator.share("key", ("add", 2), lambda reply, error: None)
    stage.replicas.leased = True
    assert await stage.coordinator.submit("key", ("add", 3)) == 4


async def test_a_reply_waits_until_its_records_are_committed(stage: Stage) -> None:
    stage.log.is_held = True
    reply = stage.submit("add", 1)
    await asyncio.sleep(0)
    assert not reply.done()
    stage.log.commit()
    assert await reply == 1


async def test_a_reply_that_saw_uncommitted_records_waits_for_them_too(stage: Stage) -> None:
    stage.log.is_held = True
    added, read = stage.submit("add", 1), stage.submit("get")
    assert not read.done()
    stage.log.commit()
    assert (await added, await read) == (1, 1)


def _note(order: list[int], number: int, reply: object) -> None:
    order.append(number)


async def test_replies_leave_in_the_order_of_the_log(stage: Stage) -> None:
    stage.log.is_held = True
    order: list[int] = []
    for number in range(3):
        reply = stage.submit("add", number)
        reply.add_done_callback(partial(_note, order, number))
    stage.log.commit()
    await asyncio.sleep(0)
    assert order == [0, 1, 2]


async def test_a_request_may_be_answered_by_a_later_one(stage: Stage) -> None:
    waiting = stage.submit("wait")
    assert not waiting.done()
    assert await stage.submit("wake") == 1
    assert await waiting == "woken"


async def test_a_load_replays_the_log_and_then_calls_loaded(stage: Stage) -> None:
    await stage.submit("add", 5, 6)
    await stage.lead()
    assert len(stage.shards) == 2
    assert stage.shard.total == 11
    assert stage.shard.loaded_at == stage.clock.wall_ms()
    assert await stage.submit("get") == 11


async def test_commands_are_rejected_while_the_log_is_loading(stage: Stage) -> None:
    stage.coordinator.lead(0, stage.log)
    with pytest.raises(CoordinatorLoadInProgress):
        stage.submit("get")


async def test_records_of_a_newer_release_are_skipped() -> None:
    stage = Stage()
    stage.log.append(
        encode_batch([Record(timestamp=0, key=b"?", value=b"?"), Record(timestamp=0, key=b"number", value=b"4")])
    )
    stage.log.append(encode_batch([Record(timestamp=0, key=b"\0\0\0\1", value=b"marker")], is_control=True))
    await stage.lead()
    assert stage.shard.total == 4


@pytest.mark.parametrize("record", [Record(timestamp=0, key=b"number", value=b"x"), Record(timestamp=0, value=b"1")])
async def test_a_damaged_log_is_not_served(record: Record) -> None:
    stage = Stage()
    stage.log.append(encode_batch([record]))
    await stage.lead()
    with pytest.raises(NotCoordinator):
        stage.submit("get")


async def test_after_a_load_replies_wait_for_uncommitted_records(stage: Stage) -> None:
    stage.log.is_held = True
    stage.submit("add", 1)
    stage.log.waits.clear()
    await stage.lead()
    read = stage.submit("get")
    assert not read.done()
    stage.log.commit()
    assert await read == 1


async def test_waiting_requests_fail_when_the_leader_changes(stage: Stage) -> None:
    stage.log.is_held = True
    waiting, parked = stage.submit("wait"), stage.submit("add", 1)
    stage.submit("alarm", 1_000)
    stage.coordinator.close()
    for future in (waiting, parked):
        with pytest.raises(NotCoordinator):
            await future
    with pytest.raises(NotCoordinator):
        stage.submit("get")
    stage.clock.advance(10)
    stage.log.commit()
    assert stage.logged() == [1]


@pytest.mark.parametrize(
    ("refusal", "answer"),
    [
        (NotEnoughReplicas(), CoordinatorNotAvailable),
        (NotLeaderOrFollower(), NotCoordinator),
        (StorageError(), NotCoordinator),
        (MessageTooLarge(), Refusal),
    ],
)
async def test_a_command_whose_records_cannot_be_written_changes_nothing(
    stage: Stage, refusal: Refusal, answer: type[Refusal]
) -> None:
    waiting = stage.submit("wait")
    stage.log.refusal = refusal
    with pytest.raises(answer) as caught:
        await stage.submit("add", 1)
    assert type(caught.value) is answer
    stage.log.refusal = None
    stage.check()
    assert len(stage.shards) == 1
    assert await stage.submit("wake") == 1
    assert await waiting == "woken"


async def test_a_commit_that_takes_too_long_fails_and_the_next_one_continues(stage: Stage) -> None:
    stage.log.is_held = True
    late = stage.submit("add", 1)
    stage.log.commit(RequestTimedOut.code)
    with pytest.raises(CoordinatorNotAvailable):
        await late
    after = stage.submit("add", 2)
    stage.log.commit()
    assert await after == 3
    stage.check()


@pytest.mark.parametrize("code", [RequestTimedOut.code, NotEnoughReplicasAfterAppend.code])
async def test_requests_after_a_late_commit_are_answered_when_it_is_committed(stage: Stage, code: int) -> None:
    stage.log.is_held = True
    late = stage.submit("add", 1)
    stage.log.commit(code)
    with pytest.raises(CoordinatorNotAvailable):
        await late
    pending = stage.submit("get")
    assert not pending.done(), "the total may still be lost"
    stage.log.commit()
    assert await pending == 1


async def test_many_late_commits_leave_a_single_wait(stage: Stage) -> None:
    stage.log.is_held = True
    late = [stage.submit("add", 1) for _ in range(3)]
    stage.log.commit(RequestTimedOut.code)
    assert [end for end, _ in stage.log.waits] == [3]
    for each in late:
        with pytest.raises(CoordinatorNotAvailable):
            await each


async def test_a_failed_log_stops_the_shard(stage: Stage) -> None:
    stage.log.is_held = True
    waiting, parked = stage.submit("wait"), stage.submit("add", 1)
    stage.log.commit(StorageError.code)
    for future in (waiting, parked):
        with pytest.raises(NotCoordinator):
            await future
    with pytest.raises(NotCoordinator):
        stage.submit("get")


async def test_a_decision_that_need_not_be_atomic_is_written_in_several_batches(stage: Stage) -> None:
    count = 3 * SPLIT_SIZE // 31
    assert await stage.submit("sweep", *([1] * count)) == count
    assert len(stage.log.written) == 3
    stage.check()


async def test_a_decision_that_was_written_in_part_reloads_the_shard(stage: Stage) -> None:
    stage.log.refusal, stage.log.refuse_after = NotEnoughReplicas(), 1
    with pytest.raises(NotCoordinator):
        await stage.submit("sweep", *([1] * (2 * SPLIT_SIZE // 31)))
    await stage.coordinator.partition_loaded(0)
    assert len(stage.shards) == 2
    assert stage.shard.total > 0
    stage.check()


async def test_a_shard_that_fails_on_its_own_record_is_loaded_again(stage: Stage) -> None:
    stage.shard.fails_on = 7
    waiting = stage.submit("wait")
    with pytest.raises(NotCoordinator):
        await stage.submit("add", 7)
    with pytest.raises(NotCoordinator):
        await waiting
    await stage.coordinator.partition_loaded(0)
    assert await stage.submit("get") == 7


async def test_an_exception_in_a_decision_fails_only_that_command(stage: Stage) -> None:
    with pytest.raises(ZeroDivisionError):
        await stage.submit("bug")
    assert await stage.submit("get") == 0


async def test_a_timer_becomes_a_command(stage: Stage) -> None:
    await stage.submit("alarm", 2_000)
    await stage.submit("alarm", 3_000)
    stage.clock.advance(2.9)
    assert stage.shard.total == 0
    stage.clock.advance(0.1)
    assert stage.shard.total == 1000
    stage.check()


async def test_a_timer_whose_records_cannot_be_written_fires_again(stage: Stage) -> None:
    await stage.submit("alarm", 2_000)
    stage.log.refusal = NotEnoughReplicas()
    stage.clock.advance(5)
    assert stage.shard.total == 0
    stage.log.refusal = None
    stage.clock.advance(1)
    assert stage.shard.total == 1000


async def test_a_cancelled_caller_is_not_answered(stage: Stage) -> None:
    waiting = stage.submit("wait")
    waiting.cancel()
    assert await stage.submit("wake") == 1


async def test_loaded_shards_are_listed(stage: Stage) -> None:
    assert [(index, shard) for index, shard in stage.coordinator.active()] == [(0, stage.shard)]
    assert await stage.coordinator.submit_to(0, ("get",)) == 0
    with pytest.raises(NotCoordinator):
        await stage.coordinator.submit_to(1, ("get",))


# -- transactions --------------------------------------------------------------------------


async def test_transactional_records_have_the_producers_id_and_take_effect_with_the_marker(stage: Stage) -> None:
    assert await stage.submit("stage", 9, 5, 6) == 0
    header = BatchHeader.at(memoryview(stage.log.written[0]))
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 0)
    assert await stage.submit("get") == 0
    await stage.end(9)
    assert await stage.submit("get") == 11
    marker = BatchHeader.at(memoryview(stage.log.written[1]))
    assert marker.is_control
    assert (marker.producer_id, marker.producer_epoch) == (9, 4)


async def test_a_load_applies_markers_in_log_order(stage: Stage) -> None:
    await stage.submit("stage", 9, 1)
    await stage.end(9, is_commit=False)
    await stage.submit("stage", 9, 10)
    await stage.submit("stage", 8, 100)
    await stage.end(9)
    await stage.lead()
    assert (stage.shard.total, stage.shard.staged) == (10, {8: 100})


async def test_a_marker_is_visible_to_others_when_it_is_committed(stage: Stage) -> None:
    await stage.submit("stage", 9, 5)
    stage.log.is_held = True
    ended, read = stage.end(9), stage.submit("get")
    assert not ended.done() and not read.done()
    stage.log.commit()
    await ended
    assert await read == 5


async def test_a_marker_that_is_not_committed_in_time_fails_with_a_retriable_error(stage: Stage) -> None:
    await stage.submit("stage", 9, 5)
    stage.log.is_held = True
    ended = stage.end(9)
    stage.log.commit(RequestTimedOut.code)
    with pytest.raises(CoordinatorNotAvailable):
        await ended
    stage.log.is_held = False
    await stage.end(9)
    assert await stage.submit("get") == 5


async def test_a_marker_that_the_log_rejects_changes_nothing(stage: Stage) -> None:
    await stage.submit("stage", 9, 5)
    stage.log.refusal = InvalidProducerEpoch()
    with pytest.raises(InvalidProducerEpoch):
        await stage.end(9)
    stage.log.refusal = NotLeaderOrFollower()
    with pytest.raises(NotCoordinator):
        await stage.end(9)
    assert stage.shard.staged == {9: 5}


async def test_a_shard_that_fails_on_a_marker_is_loaded_again(stage: Stage) -> None:
    await stage.submit("stage", 9, 5)
    stage.shard.fails_on = 5
    with pytest.raises(NotCoordinator):
        await stage.end(9)
    await stage.coordinator.partition_loaded(0)
    assert stage.shard.total == 5


async def test_only_an_active_shard_ends_and_verifies_transactions() -> None:
    stage = Stage()
    with pytest.raises(NotCoordinator):
        stage.end(9)
    stage.coordinator.lead(0, stage.log)
    with pytest.raises(CoordinatorLoadInProgress):
        stage.end(9)
    with pytest.raises(CoordinatorLoadInProgress):
        stage.coordinator.begin_verification(0, 9, 3)
    await stage.coordinator.partition_loaded(0)
    assert stage.coordinator.begin_verification(0, 9, 3) is not None
    stage.coordinator.close()
    with pytest.raises(NotCoordinator):
        stage.coordinator.begin_verification(0, 9, 3)
