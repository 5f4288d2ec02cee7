"""Requests to a transaction's coordinator on this and on other nodes."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from penstock.model.topic import TRANSACTION_STATE
from penstock.transactions.commands import AddPartitions, VerifyPartitions
from penstock.transactions.coordinator_client import TransactionCoordinators
from tests.unit.client.peers import FakePeers, led_by

A = TopicPartition(TopicName("a"), PartitionIndex(0))
B = TopicPartition(TopicName("b"), PartitionIndex(1))


class CoordinatorsOfNode1:
    """Node 1 and its coordinators: itself, or the node that leads the only partition of the state topic."""

    def __init__(self, leader: int) -> None:
        image = led_by(TRANSACTION_STATE, [leader])
        self.peers = FakePeers(self._answer)
        self.submitted: list[Any] = []
        self.codes = {("a", 0): 0, ("b", 1): 0}
        here: Any = self
        peers: Any = self.peers
        self.coordinators = TransactionCoordinators(node_id=NodeId(1), image=lambda: image, peers=peers, here=here)

    @property
    def requests(self) -> list[tuple[int, Any]]:
        """Return the nodes that received requests, each with the transaction."""
        return [(node, request.transactions[0]) for node, request in self.peers.asked]

    def submit(self, transactional_id: str, command: Any) -> "asyncio.Future[Any]":
        self.submitted.append(command)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result("here")
        return future

    async def add_partitions(self, command: Any) -> int:
        self.submitted.append(command)
        return 0

    def _answer(self, request: Any) -> Any:
        (transaction,) = request.transactions
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


async def test_a_coordinator_on_this_node_is_called_directly() -> None:
    world = CoordinatorsOfNode1(leader=1)
    assert await world.coordinators.submit(verify()) == "here"
    assert await world.coordinators.add_partitions(add()) == 0
    assert (len(world.submitted), world.requests) == (2, [])


async def test_another_node_answers_for_each_partition_in_request_order() -> None:
    world = CoordinatorsOfNode1(leader=2)
    world.codes["b", 1] = 48
    assert await world.coordinators.submit(verify()) == (48, 0)
    node, transaction = world.requests[0]
    assert (node, transaction.verify_only, transaction.producer_id) == (2, True, 5)


async def test_adding_on_another_node_returns_one_code() -> None:
    world = CoordinatorsOfNode1(leader=2)
    assert await world.coordinators.add_partitions(add()) == 0
    world.codes["b", 1] = 51
    assert await world.coordinators.submit(add()) == 51
    assert not world.requests[0][1].verify_only


async def test_an_unreachable_coordinator_is_a_retriable_error() -> None:
    world = CoordinatorsOfNode1(leader=2)
    world.peers.is_down = True
    with pytest.raises(CoordinatorNotAvailable):
        await world.coordinators.submit(verify())
