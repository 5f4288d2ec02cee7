"""Markers are appended immediately, and done when they are committed."""

import asyncio
from typing import Any

import pytest

from penstock.coordinator.decision import TransactionEnd
from penstock.model.errors import (
    InvalidProducerEpoch,
    Refusal,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
)
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.replication.waiting import WaitingProduce
from penstock.transactions.marker_writer import MarkerWriter


class MarkedPartition:
    """A partition that accepts one marker, at offset 10."""

    def __init__(self) -> None:
        self.high_watermark = 10
        self.markers: list[dict[str, Any]] = []
        self.waiting: list[WaitingProduce] = []
        self.refusal: Refusal | None = None

    def append_marker(self, **marker: Any) -> Any:
        if self.refusal is not None:
            raise self.refusal
        self.markers.append(marker)

        class Appended:
            last_offset = 10

        return Appended

    def wait_durable(self, waiting: WaitingProduce) -> None:
        self.waiting.append(waiting)


class WriterOfOnePartition:
    def __init__(self) -> None:
        self.partition = MarkedPartition()
        self.ended: list[tuple[int, TransactionEnd]] = []
        replicas: Any = self
        clock: Any = self
        self.writer = MarkerWriter(replicas=replicas, clock=clock, end_offsets=self._end_offsets)

    def find(self, topic: str, index: int) -> MarkedPartition | None:
        return self.partition if topic in ("t", CONSUMER_OFFSETS) else None

    def wall_ms(self) -> int:
        return 5_000

    def monotonic(self) -> float:
        return 100.0

    async def _end_offsets(self, index: int, end: TransactionEnd) -> None:
        self.ended.append((index, end))

    def write(self, topic: str = "t") -> "asyncio.Task[None]":
        return asyncio.ensure_future(self.writer.write(topic, 0, 7, 3, 5, True, 2))


@pytest.fixture
async def world() -> WriterOfOnePartition:
    return WriterOfOnePartition()


async def test_a_marker_is_done_when_it_is_below_the_high_watermark(world: WriterOfOnePartition) -> None:
    task = world.write()
    await asyncio.sleep(0)
    assert world.partition.markers == [
        {
            "producer_id": 7,
            "producer_epoch": 3,
            "commit": True,
            "coordinator_epoch": 5,
            "now_ms": 5_000,
            "transaction_version": 2,
        }
    ]
    (waiting,) = world.partition.waiting
    assert (waiting.offset, waiting.deadline, task.done()) == (11, 130.0, False)
    waiting.done(0)
    await task


async def test_a_marker_that_is_immediately_durable_does_not_wait(world: WriterOfOnePartition) -> None:
    world.partition.high_watermark = 11
    await world.write()
    assert world.partition.waiting == []


async def test_the_group_coordinator_writes_the_markers_of_its_partitions(world: WriterOfOnePartition) -> None:
    await world.write(CONSUMER_OFFSETS)
    assert world.partition.markers == []
    assert world.ended == [
        (
            0,
            TransactionEnd(producer_id=7, producer_epoch=3, is_commit=True, coordinator_epoch=5, transaction_version=2),
        )
    ]


@pytest.mark.parametrize("refusal", [RequestTimedOut, StorageError, UnknownTopicOrPartition])
async def test_errors_that_end_the_wait_are_raised(world: WriterOfOnePartition, refusal: type[Refusal]) -> None:
    task = world.write()
    await asyncio.sleep(0)
    world.partition.waiting[0].done(refusal.code)
    with pytest.raises(refusal):
        await task


async def test_an_unexpected_error_code_is_raised_as_a_refusal(world: WriterOfOnePartition) -> None:
    task = world.write()
    await asyncio.sleep(0)
    world.partition.waiting[0].done(6)
    with pytest.raises(Refusal, match="error code 6"):
        await task


async def test_a_cancelled_write_ignores_the_result(world: WriterOfOnePartition) -> None:
    task = world.write()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    world.partition.waiting[0].done(0)
    assert task.cancelled()


async def test_markers_for_unknown_partitions_are_rejected(world: WriterOfOnePartition) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        await world.write("elsewhere")
    world.partition.refusal = InvalidProducerEpoch()
    with pytest.raises(InvalidProducerEpoch):
        await world.write()
