"""The transaction coordinator of a node on in-memory logs: from the request to the markers, with restarts."""

from dataclasses import replace
from typing import Any, Self
from uuid import UUID

import pytest

from penstock.config.settings import BrokerSettings
from penstock.coordinator.errors import CoordinatorLoadInProgress, NotCoordinator
from penstock.metadata.records import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
)
from penstock.model.errors import NotEnoughReplicas, Refusal
from penstock.model.topic import TRANSACTION_STATE
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
from penstock.transactions.records import TransactionRecord, TransactionValue, encode
from penstock.transactions.service import Transactions
from penstock.transactions.states import State
from penstock.wire.records import Record, encode_batch
from tests.unit.coordinator.node import ME, OTHER, CoordinatorNode, topic
from tests.unit.transactions.harness import P0, P1

STATE_ID, ORDERS_ID = UUID(int=1), UUID(int=2)
CONCURRENT = 51


class TransactionsNode(CoordinatorNode[Transactions]):
    def __init__(self) -> None:
        self.markers: list[tuple[int, int, int, int, bool, int]] = []
        self.refusals: list[Refusal] = []
        self.next_id = 4_000
        self.has_ids = True
        super().__init__(TRANSACTION_STATE, STATE_ID)

    @property
    def transactions(self) -> Transactions:
        return self.service

    def make(self) -> Transactions:
        return Transactions(
            node_id=ME,
            replicas=self.replicas,  # type: ignore[arg-type]
            clock=self.clock,
            current_settings=BrokerSettings,
            take_producer_id=self.take,
            write_marker=self.write,
        )

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

    async def start(self) -> Self:
        self.commit(
            FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=2),
            *topic(TRANSACTION_STATE, STATE_ID, ME, ME),
            *topic("orders", ORDERS_ID, ME, ME),
        )
        await self.settle()
        return self

    def put(self, name: str, value: TransactionValue) -> None:
        """Write a record directly to the log."""
        key, written = encode(TransactionRecord(name, value), version=1)
        batch = encode_batch([Record(timestamp=1, key=key, value=written)])
        self.replicas.partitions[ord(name[0]) % 2].append(memoryview(bytearray(batch)), acks=-1, now_ms=1)

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
    node = TransactionsNode()
    with pytest.raises(NotCoordinator):
        await node.init()
    assert await node.transactions.list_transactions(ListTransactions()) == []
    await node.transactions.loaded("a")


async def test_a_transaction_from_begin_to_end() -> None:
    node = await TransactionsNode().start()
    assert await node.init() == InitProducerIdReply(producer_id=4_001, epoch=0)
    assert await node.add(4_001, 0) == 0
    node.refusals = [NotEnoughReplicas()]
    assert await node.end(4_001, 0) == EndTxnReply(producer_id=4_001, epoch=1)
    await node.settle()
    assert len(node.transactions._markers) == 1
    assert await node.state() == "PrepareCommit"
    await node.settle(1)
    assert len(node.transactions._markers) == 0
    assert sorted(node.markers) == [(index, 4_001, 1, 0, True, 2) for index in (0, 1)]
    assert await node.state() == "CompleteCommit"
    assert await node.end(4_001, 0) == EndTxnReply(producer_id=4_001, epoch=1)


async def test_a_decided_transaction_is_completed_after_a_restart() -> None:
    node = await TransactionsNode().start()
    await node.init()
    await node.add(4_001, 0)
    node.refusals = [NotEnoughReplicas() for _ in range(2)]
    await node.end(4_001, 0, commit=False)
    await node.settle()
    assert not node.markers
    await node.restart()
    assert sorted(node.markers) == [(index, 4_001, 1, 0, False, 2) for index in (0, 1)]
    assert await node.state() == "CompleteAbort"


async def test_partitions_of_deleted_topics_need_no_marker() -> None:
    node = await TransactionsNode().start()
    await node.init()
    await node.add(4_001, 0)
    node.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
    await node.end(4_001, 0)
    await node.settle()
    assert await node.state() == "CompleteCommit" and not node.markers


async def test_another_leader_takes_over() -> None:
    node = await TransactionsNode().start()
    await node.init()
    await node.add(4_001, 0)
    node.refusals = [NotEnoughReplicas() for _ in range(9)]
    await node.end(4_001, 0)
    await node.settle()
    index = ord("a") % 2
    node.commit(PartitionChangeRecord(partition_id=index, topic_id=STATE_ID, leader=OTHER))
    assert len(node.transactions._markers) == 0
    with pytest.raises(NotCoordinator):
        await node.init()
    node.refusals.clear()
    node.commit(PartitionChangeRecord(partition_id=index, topic_id=STATE_ID, leader=ME))
    with pytest.raises(CoordinatorLoadInProgress):
        await node.init()
    await node.settle()
    assert {marker[3] for marker in node.markers} == {2}, "markers must have the epoch of the new leader"
    assert await node.state() == "CompleteCommit"


async def test_deleting_the_topic_removes_the_coordinator() -> None:
    node = await TransactionsNode().start()
    await node.init()
    node.commit(RemoveTopicRecord(topic_id=STATE_ID))
    with pytest.raises(NotCoordinator):
        await node.init()


async def test_the_last_epoch_requires_a_new_producer_id() -> None:
    node = TransactionsNode()
    node.put("a", exhausted(State.ONGOING, node.clock.wall_ms()))
    await node.start()
    assert await node.end(900, 32_766) == EndTxnReply(producer_id=4_001, epoch=0)
    await node.settle()
    assert node.markers == [(0, 900, 32_767, 0, True, 2)]
    assert await node.add(4_001, 0) == 0


async def test_a_timeout_waits_for_a_producer_id_if_it_needs_one() -> None:
    node = TransactionsNode()
    node.put("a", exhausted(State.ONGOING, node.clock.wall_ms()))
    await node.start()
    node.has_ids = False
    await node.settle(61)
    assert await node.state() == "Ongoing"
    with pytest.raises(NotEnoughReplicas):
        await node.end(900, 32_766)
    node.has_ids = True
    await node.settle(2)
    assert await node.state() == "CompleteAbort"
    assert node.markers == [(0, 900, 32_767, 0, False, 2)]


async def test_a_new_producer_waits_for_the_abort_of_the_old_one() -> None:
    node = await TransactionsNode().start()
    await node.init()
    await node.add(4_001, 0)
    assert (await node.init()).error == CONCURRENT
    await node.settle()
    assert await node.init() == InitProducerIdReply(producer_id=4_001, epoch=2)


async def test_transactions_of_all_shards_are_listed() -> None:
    node = await TransactionsNode().start()
    for name in ("a", "b", "c"):
        await node.init(name)
    found = await node.transactions.list_transactions(ListTransactions())
    assert sorted(each.transactional_id for each in found) == ["a", "b", "c"]


async def test_the_finalised_version_reaches_the_shards() -> None:
    node = await TransactionsNode().start()
    await node.init()
    await node.add(4_001, 0)
    node.commit(FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=1))
    assert (await node.init()).error == CONCURRENT
    await node.settle()
    assert {marker[5] for marker in node.markers} == {0}


async def test_an_exception_fails_one_request_and_keeps_the_connection() -> None:
    node = await TransactionsNode().start()
    await node.init()
    with pytest.raises(Refusal, match="AddPartitions failed"):
        await node.transactions.ask("a", replace(_ADD, partitions=None))  # type: ignore[arg-type]
    assert await node.add(4_001, 0) == 0


_ADD = AddPartitions(transactional_id="a", producer_id=4_001, epoch=0, partitions=frozenset({P0}), client_version=2)
