"""A transaction's coordinator is asked wherever it is."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.asking import PeerUnavailable
from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from penstock.model.topic import TRANSACTION_STATE
from penstock.transactions.asking import TransactionCoordinators
from penstock.transactions.commands import AddPartitions, VerifyPartitions

A = TopicPartition(TopicName("a"), PartitionIndex(0))
B = TopicPartition(TopicName("b"), PartitionIndex(1))


class World:
    def __init__(self, leader: int) -> None:
        topic = SimpleNamespace(partitions=[SimpleNamespace(leader=NodeId(leader))])
        image: Any = SimpleNamespace(topics={TRANSACTION_STATE: topic})
        mine: Any = self
        self.requests: list[Any] = []
        self.submitted: list[Any] = []
        self.codes = {("a", 0): 0, ("b", 1): 0}
        self.is_down = False
        self.coordinators = TransactionCoordinators(node_id=NodeId(1), image=lambda: image, peers=mine, here=mine)

    def submit(self, transactional_id: str, command: Any) -> "asyncio.Future[Any]":
        self.submitted.append(command)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result("here")
        return future

    async def add_partitions(self, command: Any) -> int:
        self.submitted.append(command)
        return 0

    async def ask(self, node: int, api_key: int, request: Any, *, timeout_s: float, purpose: str) -> Any:
        if self.is_down:
            raise PeerUnavailable
        (transaction,) = request.transactions
        self.requests.append((node, transaction))
        topics = [
            SimpleNamespace(
                name=topic.name,
                results_by_partition=[
                    SimpleNamespace(
                        partition_index=index,
                        partition_error_code=SimpleNamespace(value=self.codes[topic.name, index]),
                    )
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ]
        return SimpleNamespace(
            error_code=SimpleNamespace(value=0), results_by_transaction=[SimpleNamespace(topic_results=topics)]
        )


def verify() -> VerifyPartitions:
    return VerifyPartitions(transactional_id="id", producer_id=5, epoch=1, partitions=(B, A))


def add() -> AddPartitions:
    return AddPartitions(transactional_id="id", producer_id=5, epoch=1, partitions=frozenset({A, B}), client_version=2)


async def test_a_coordinator_on_this_node_is_asked_without_the_network() -> None:
    world = World(leader=1)
    assert await world.coordinators.submit(verify()) == "here"
    assert await world.coordinators.add_partitions(add()) == 0
    assert (len(world.submitted), world.requests) == (2, [])


async def test_another_node_answers_for_each_partition_in_the_order_of_the_question() -> None:
    world = World(leader=2)
    world.codes["b", 1] = 48
    assert await world.coordinators.submit(verify()) == (48, 0)
    node, transaction = world.requests[0]
    assert (node, transaction.verify_only, transaction.producer_id) == (2, True, 5)


async def test_adding_elsewhere_gives_one_code_for_all() -> None:
    world = World(leader=2)
    assert await world.coordinators.add_partitions(add()) == 0
    world.codes["b", 1] = 51
    assert await world.coordinators.submit(add()) == 51
    assert not world.requests[0][1].verify_only


async def test_a_coordinator_that_cannot_be_reached_is_one_to_come_back_to() -> None:
    world = World(leader=2)
    world.is_down = True
    with pytest.raises(CoordinatorNotAvailable):
        await world.coordinators.submit(verify())
