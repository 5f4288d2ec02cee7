"""The transactions of a node on real logs in memory: from the request to the markers, over restarts and new leaders."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from penstock.config.settings import BrokerSettings
from penstock.coordinator.errors import CoordinatorLoadInProgress, NotCoordinator
from penstock.metadata import delta as metadata_delta
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.model.errors import NotEnoughReplicas, Refusal
from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.model.topic import TRANSACTION_STATE
from penstock.replication.partition import Partition
from penstock.sim.disk import SimDisk
from penstock.transactions.commands import (
    AddPartitions,
    DescribeTransaction,
    EndTxn,
    EndTxnReply,
    InitProducerId,
    InitProducerIdReply,
    ListTransactions,
)
from penstock.transactions.configured import TRANSACTION_VERSION
from penstock.transactions.errors import InvalidRegularExpression
from penstock.transactions.records import TransactionRecord, TransactionValue, encode
from penstock.transactions.service import Transactions
from penstock.transactions.states import State
from penstock.wire.records import Record, encode_batch
from tests.unit.coordinator.fakes import FakeClock
from tests.unit.storage.support import open_log
from tests.unit.transactions.harness import P0, P1

ME, OTHER = NodeId(1), NodeId(2)
STATE_ID, ORDERS_ID = UUID(int=1), UUID(int=2)
CONCURRENT = 51


def topic(name: str, topic_id: UUID, *leaders: NodeId) -> list[MetadataRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=(ME, OTHER),
                isr=(ME, OTHER),
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index, leader in enumerate(leaders)
        ),
    ]


class World:
    def __init__(self) -> None:
        self.opened_late: list[object] = []
        self.clock = FakeClock()
        self.partitions = [Partition(TRANSACTION_STATE, STATE_ID, index, ME, open_log(SimDisk())) for index in range(2)]
        self.image: Image = EMPTY
        self.markers: list[tuple[int, int, int, int, bool, int]] = []
        self.refusals: list[Refusal] = []
        self.next_id = 4_000
        self.has_ids = True
        self.transactions = self.make()

    def make(self) -> Transactions:
        return Transactions(
            node_id=ME,
            replicas=self,  # type: ignore[arg-type]
            clock=self.clock,
            current_settings=BrokerSettings,
            take_producer_id=self.take,
            write_marker=self.write,
        )

    def find(self, name: str, index: int) -> Partition | None:
        return self.partitions[index] if name == TRANSACTION_STATE and index < len(self.partitions) else None

    async def take(self) -> int:
        if not self.has_ids:
            raise NotEnoughReplicas
        self.next_id += 1
        return self.next_id

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
        if self.refusals:
            raise self.refusals.pop(0)
        assert topic == "orders"
        self.markers.append((partition, producer_id, epoch, coordinator_epoch, commit, transaction_version))

    def commit(self, *records: MetadataRecord) -> None:
        offset = Offset(self.image.offset + len(records))
        change, self.image = metadata_delta.apply(self.image, records, offset=offset, epoch=LeaderEpoch(1))
        self.transactions.image_changed(change, self.image)

    async def start(self) -> "World":
        self.commit(
            FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=2),
            *topic(TRANSACTION_STATE, STATE_ID, ME, ME),
            *topic("orders", ORDERS_ID, ME, ME),
        )
        await self.settle()
        return self

    async def settle(self, delay_s: float = 0) -> None:
        for name in ("a", "b"):
            await self.transactions.loaded(name)
        for _ in range(20):
            await asyncio.sleep(0)
        self.clock.advance(delay_s)
        for _ in range(20):
            await asyncio.sleep(0)

    async def restart(self) -> None:
        self.transactions.close()
        self.transactions = self.make()
        self.transactions.image_changed(metadata_delta.Delta.whole(self.image), self.image)
        await self.settle()

    def put(self, name: str, value: TransactionValue) -> None:
        """Write a record behind everybody's back."""
        key, written = encode(TransactionRecord(name, value), version=1)
        batch = encode_batch([Record(timestamp=1, key=key, value=written)])
        self.partitions[ord(name[0]) % 2].append(memoryview(bytearray(batch)), acks=-1, now_ms=1)

    async def init(self, name: str = "a") -> Any:
        return await self.transactions.ask(name, InitProducerId(transactional_id=name, timeout_ms=60_000))

    async def add(self, producer_id: int, epoch: int, name: str = "a") -> Any:
        command = AddPartitions(
            transactional_id=name,
            producer_id=producer_id,
            epoch=epoch,
            partitions=frozenset({P0, P1}),
            client_version=2,
        )
        return await self.transactions.ask(name, command)

    async def end(self, producer_id: int, epoch: int, name: str = "a", *, commit: bool = True) -> Any:
        command = EndTxn(
            transactional_id=name, producer_id=producer_id, epoch=epoch, is_commit=commit, client_version=2
        )
        return await self.transactions.ask(name, command)

    async def state(self, name: str = "a") -> str:
        found = await self.transactions.ask(name, DescribeTransaction(name))
        return str(found.state)


def exhausted(state: State, now: int) -> TransactionValue:
    return TransactionValue(
        producer_id=900,
        previous_producer_id=900,
        epoch=32_766,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset({P0}),
        last_update_ms=now,
        start_ms=now,
        client_version=2,
    )


async def test_without_the_topic_there_is_no_coordinator() -> None:
    world = World()
    with pytest.raises(NotCoordinator):
        await world.init()
    assert await world.transactions.list_transactions(ListTransactions()) == []
    await world.transactions.loaded("a")


async def test_a_transaction_from_begin_to_end() -> None:
    world = await World().start()
    assert await world.init() == InitProducerIdReply(producer_id=4_001, epoch=0)
    assert await world.add(4_001, 0) == 0
    world.refusals = [NotEnoughReplicas()]
    assert await world.end(4_001, 0) == EndTxnReply(producer_id=4_001, epoch=1)
    await world.settle()
    assert world.transactions.markers_pending == 1
    assert await world.state() == "PrepareCommit"
    await world.settle(1)
    assert world.transactions.markers_pending == 0
    assert sorted(world.markers) == [(index, 4_001, 1, 0, True, 2) for index in (0, 1)]
    assert await world.state() == "CompleteCommit"
    assert await world.end(4_001, 0) == EndTxnReply(producer_id=4_001, epoch=1)


async def test_a_decided_transaction_is_finished_after_a_restart() -> None:
    world = await World().start()
    await world.init()
    await world.add(4_001, 0)
    world.refusals = [NotEnoughReplicas() for _ in range(2)]
    await world.end(4_001, 0, commit=False)
    await world.settle()
    assert not world.markers
    await world.restart()
    assert sorted(world.markers) == [(index, 4_001, 1, 0, False, 2) for index in (0, 1)]
    assert await world.state() == "CompleteAbort"


async def test_partitions_of_deleted_topics_need_no_marker() -> None:
    world = await World().start()
    await world.init()
    await world.add(4_001, 0)
    world.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
    await world.end(4_001, 0)
    await world.settle()
    assert await world.state() == "CompleteCommit" and not world.markers


async def test_another_leader_takes_over() -> None:
    world = await World().start()
    await world.init()
    await world.add(4_001, 0)
    world.refusals = [NotEnoughReplicas() for _ in range(9)]
    await world.end(4_001, 0)
    await world.settle()
    index = ord("a") % 2
    world.commit(PartitionChangeRecord(partition_id=index, topic_id=STATE_ID, leader=OTHER))
    assert world.transactions.markers_pending == 0
    with pytest.raises(NotCoordinator):
        await world.init()
    world.refusals.clear()
    world.commit(PartitionChangeRecord(partition_id=index, topic_id=STATE_ID, leader=ME))
    with pytest.raises(CoordinatorLoadInProgress):
        await world.init()
    await world.settle()
    assert {marker[3] for marker in world.markers} == {2}, "markers carry the epoch of the new leader"
    assert await world.state() == "CompleteCommit"


async def test_deleting_the_topic_ends_it_all() -> None:
    world = await World().start()
    await world.init()
    world.commit(RemoveTopicRecord(topic_id=STATE_ID))
    with pytest.raises(NotCoordinator):
        await world.init()


async def test_the_last_epoch_takes_a_producer_id() -> None:
    world = World()
    world.put("a", exhausted(State.ONGOING, world.clock.wall_ms()))
    await world.start()
    assert await world.end(900, 32_766) == EndTxnReply(producer_id=4_001, epoch=0)
    await world.settle()
    assert world.markers == [(0, 900, 32_767, 0, True, 2)]
    assert await world.add(4_001, 0) == 0


async def test_a_timeout_waits_for_a_producer_id_if_it_needs_one() -> None:
    world = World()
    world.put("a", exhausted(State.ONGOING, world.clock.wall_ms()))
    await world.start()
    world.has_ids = False
    await world.settle(61)
    assert await world.state() == "Ongoing"
    with pytest.raises(NotEnoughReplicas):
        await world.end(900, 32_766)
    world.has_ids = True
    await world.settle(2)
    assert await world.state() == "CompleteAbort"
    assert world.markers == [(0, 900, 32_767, 0, False, 2)]


async def test_a_new_producer_waits_for_the_abort_of_the_old_one() -> None:
    world = await World().start()
    await world.init()
    await world.add(4_001, 0)
    assert (await world.init()).error == CONCURRENT
    await world.settle()
    assert await world.init() == InitProducerIdReply(producer_id=4_001, epoch=2)


async def test_lists_are_of_all_shards() -> None:
    world = await World().start()
    for name in ("a", "b", "c"):
        await world.init(name)
    found = await world.transactions.list_transactions(ListTransactions(pattern="[ab]"))
    assert sorted(each.transactional_id for each in found) == ["a", "b"]
    with pytest.raises(InvalidRegularExpression):
        await world.transactions.list_transactions(ListTransactions(pattern="["))


async def test_the_finalised_version_reaches_the_shards() -> None:
    world = await World().start()
    await world.init()
    await world.add(4_001, 0)
    world.commit(FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=1))
    assert (await world.init()).error == CONCURRENT
    await world.settle()
    assert {marker[5] for marker in world.markers} == {0}


async def test_a_bug_costs_one_request_and_no_connection() -> None:
    world = await World().start()
    await world.init()
    with pytest.raises(Refusal, match="AddPartitions failed"):
        await world.transactions.ask("a", replace(_ADD, partitions=None))  # type: ignore[arg-type]
    assert await world.add(4_001, 0) == 0


_ADD = AddPartitions(transactional_id="a", producer_id=4_001, epoch=0, partitions=frozenset({P0}), client_version=2)
