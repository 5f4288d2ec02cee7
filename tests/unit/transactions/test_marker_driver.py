"""Every partition gets its marker despite failures, and then the transaction is completed."""

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from penstock.model.errors import (
    InvalidProducerEpoch,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from penstock.model.ids import TopicPartition
from penstock.transactions.commands import Markers, MarkersWritten
from penstock.transactions.errors import TransactionCoordinatorFenced
from penstock.transactions.marker_driver import PAUSE_MS_MAX, MarkerDriver
from tests.unit.coordinator.fakes import FakeClock
from tests.unit.transactions.harness import P0, P1, P2

COMMIT = Markers("t", 1000, 6, True, (P0, P1, P2), 2)


class Stage:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.written: list[tuple[Any, ...]] = []
        self.tries: Counter[int] = Counter()
        self.errors: dict[int, list[Exception]] = {}
        self.completed: list[tuple[int, Markers]] = []
        self.refusals: list[Exception] = []
        self.deleted: set[TopicPartition] = set()
        self.is_held = False
        self.driver = MarkerDriver(
            write_marker=self.write, complete=self.complete, is_deleted=self.deleted.__contains__, clock=self.clock
        )

    async def write(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> None:
        self.tries[partition] += 1
        if errors := self.errors.get(partition):
            raise errors.pop(0)
        marker = (producer_id, epoch, coordinator_epoch, commit, transaction_version)
        self.written.append((topic, partition, *marker))
        await asyncio.sleep(0)
        if self.is_held:
            await asyncio.Event().wait()

    async def complete(self, index: int, command: MarkersWritten) -> bool:
        if self.refusals:
            raise self.refusals.pop(0)
        self.completed.append((index, command.markers))
        return True

    async def settle(self, delay_s: float = 0) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        self.clock.advance(delay_s)
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_all_partitions_get_the_marker_and_then_the_transaction_is_complete(stage: Stage) -> None:
    stage.driver.start(4, 9, COMMIT)
    assert len(stage.driver) == 1
    await stage.settle()
    assert sorted(stage.written) == [("orders", index, 1000, 6, 9, True, 2) for index in range(3)]
    assert stage.completed == [(4, COMMIT)]
    assert stage.completed[0][1] is COMMIT
    assert len(stage.driver) == 0


async def test_a_transaction_without_partitions_completes_immediately(stage: Stage) -> None:
    nothing = Markers("t", 1000, 6, False, (), 2)
    stage.driver.start(0, 1, nothing)
    await stage.settle()
    assert stage.completed == [(0, nothing)] and not stage.written


@pytest.mark.parametrize(
    "error",
    [NotLeaderOrFollower(), NotEnoughReplicas(), RequestTimedOut(), UnknownTopicOrPartition(), NotCoordinator()],
)
async def test_only_failed_partitions_are_retried(stage: Stage, error: Exception) -> None:
    stage.errors[1] = [error, error]
    stage.driver.start(0, 1, COMMIT)
    await stage.settle()
    assert not stage.completed
    await stage.settle(0.02)
    assert not stage.completed
    await stage.settle(0.04)
    assert stage.tries == {0: 1, 1: 3, 2: 1}
    assert len(stage.written) == 3 and len(stage.completed) == 1


async def test_an_unexpected_failure_is_retried(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.errors[0] = [ZeroDivisionError("a bug")]
    stage.refusals = [ZeroDivisionError("another")]
    with caplog.at_level(logging.CRITICAL, "penstock.transactions.marker_driver"):
        stage.driver.start(0, 1, Markers("t", 1000, 6, True, (P0,), 2))
        await stage.settle(1)
        await stage.settle(1)
    assert len(stage.completed) == 1


async def test_pauses_grow_up_to_a_limit(stage: Stage) -> None:
    stage.errors[0] = [NotEnoughReplicas() for _ in range(12)]
    stage.driver.start(0, 1, Markers("t", 1000, 6, True, (P0,), 2))
    for _ in range(12):
        assert not stage.completed
        await stage.settle(PAUSE_MS_MAX / 1000)
    await stage.settle()
    assert stage.tries[0] == 13 and len(stage.completed) == 1


async def test_a_deleted_partition_is_skipped(stage: Stage) -> None:
    stage.deleted.add(P0)
    stage.errors[1] = [UnknownTopicOrPartition()]
    stage.driver.start(0, 1, COMMIT)
    await stage.settle()
    stage.deleted.add(P1)
    await stage.settle(1)
    assert [partition for _, partition, *_ in stage.written] == [2]
    assert len(stage.completed) == 1


async def test_a_partition_with_a_newer_epoch_needs_no_marker(stage: Stage) -> None:
    stage.errors[1] = [InvalidProducerEpoch()]
    stage.driver.start(0, 1, COMMIT)
    await stage.settle()
    assert stage.tries[1] == 1 and len(stage.completed) == 1


async def test_a_fenced_coordinator_stops_and_completes_nothing(stage: Stage) -> None:
    stage.errors[1] = [TransactionCoordinatorFenced()]
    stage.driver.start(0, 1, COMMIT)
    stage.errors[0] = [TransactionCoordinatorFenced()]
    stage.driver.start(0, 1, Markers("u", 1001, 6, True, (P0,), 2))
    await stage.settle(5)
    assert not stage.completed and len(stage.driver) == 0


@pytest.mark.parametrize("refusal", [CoordinatorNotAvailable(), NotCoordinator(), CoordinatorLoadInProgress()])
async def test_completion_is_retried_until_it_is_written(stage: Stage, refusal: Exception) -> None:
    """Holds for a full disk too, which looks like a lost shard that would never be loaded again."""
    stage.refusals = [refusal, refusal]
    stage.driver.start(0, 1, COMMIT)
    await stage.settle(0.02)
    await stage.settle(0.04)
    assert len(stage.completed) == 1 and len(stage.written) == 3


async def test_abandoned_jobs_write_and_complete_nothing_more(stage: Stage) -> None:
    stage.errors[0] = [NotEnoughReplicas()]
    stage.driver.start(0, 1, COMMIT)
    stage.driver.start(5, 1, Markers("u", 1001, 6, False, (P1,), 2))
    await stage.settle()
    stage.driver.abandon(0)
    assert len(stage.driver) == 0
    await stage.settle(5)
    assert stage.tries[0] == 1
    assert [index for index, _ in stage.completed] == [5]


async def test_closing_stops_every_job(stage: Stage) -> None:
    stage.is_held = True
    stage.driver.start(0, 1, COMMIT)
    stage.driver.start(1, 1, COMMIT)
    await stage.settle()
    stage.driver.close()
    await stage.settle(5)
    assert not stage.completed and len(stage.driver) == 0


async def test_a_new_job_of_an_abandoned_shard_is_independent(stage: Stage) -> None:
    stage.is_held = True
    stage.driver.start(0, 1, COMMIT)
    await stage.settle()
    stage.driver.abandon(0)
    stage.is_held = False
    stage.driver.start(0, 2, COMMIT)
    await stage.settle()
    assert [index for index, _ in stage.completed] == [0]
    assert {marker[4] for marker in stage.written[-3:]} == {2}
