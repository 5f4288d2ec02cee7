"""The writer of transaction markers for partitions of this node.

Used by the coordinators of this node and of others. A marker is done when it is below the high
watermark. The group coordinator writes those of `__consumer_offsets`, so that offsets take effect there.
Calls go to replication/partition.py. Refuses: UnknownTopicOrPartition, and what the partition refuses.
"""

import asyncio
from collections.abc import Awaitable, Callable

from penstock.coordinator.decision import TransactionEnd
from penstock.model.errors import NO_ERROR, Refusal, RequestTimedOut, StorageError, UnknownTopicOrPartition
from penstock.model.ids import TopicName
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.ports.clock import Clock
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.replication.waiting import WaitingProduce

TIMEOUT_S = 30.0
"""How long a marker may take to become durable before the caller has to retry."""

EndOffsets = Callable[[int, TransactionEnd], Awaitable[object]]
"""Writes the marker to a partition of `__consumer_offsets`; done when it is durable."""


class MarkerWriter:
    def __init__(self, *, replicas: Replicas, clock: Clock, end_offsets: EndOffsets) -> None:
        self._replicas = replicas
        self._clock = clock
        self._end_offsets = end_offsets

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
        found = self._replicas.find(TopicName(topic), partition)
        if found is None:
            raise UnknownTopicOrPartition
        if topic == CONSUMER_OFFSETS:
            end = TransactionEnd(
                producer_id=producer_id,
                producer_epoch=epoch,
                is_commit=commit,
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
            )
            await self._end_offsets(partition, end)
            return
        appended = found.append_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            now_ms=self._clock.wall_ms(),
            transaction_version=transaction_version,
        )
        if appended.last_offset >= found.high_watermark:
            await self._durable(found, appended.last_offset + 1)

    async def _durable(self, partition: Partition, end: int) -> None:
        settled: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def done(code: int) -> None:
            if not settled.done():
                settled.set_result(code)

        partition.wait_durable(WaitingProduce(end, self._clock.monotonic() + TIMEOUT_S, done))
        code = await settled
        for refusal in (RequestTimedOut, StorageError, UnknownTopicOrPartition):
            if code == refusal.code:
                raise refusal
        if code != NO_ERROR:
            raise Refusal(f"the marker may not be durable: error code {code}")
