"""AddPartitionsToTxn through its handler."""

from typing import Any

import pytest
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest as AddPartitionsV3
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic as TopicV3
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

from penstock.coordinator.errors import CoordinatorLoadInProgress
from penstock.handlers import (
    add_partitions_to_txn,
)
from penstock.handlers.support.topic_creation import create_automatically
from penstock.model.ids import TopicName
from penstock.transactions import commands
from penstock.wire import codec
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import body_of, topic_partition


async def node_with_topic(name: str, partitions: int = 2) -> FakeNode:
    node = FakeNode({"num.partitions": str(partitions)})
    await create_automatically(node.context, [TopicName(name)])
    return node


async def add_as_client(node: FakeNode, version: int, **topics: tuple[int, ...]) -> dict[tuple[str, int], int]:
    body: Any = AddPartitionsV3(
        v3_and_below_transactional_id="tx",  # type: ignore[arg-type]
        v3_and_below_producer_id=7,  # type: ignore[arg-type]
        v3_and_below_producer_epoch=3,  # type: ignore[arg-type]
        v3_and_below_topics=tuple(TopicV3(name=name, partitions=parts) for name, parts in topics.items()),  # type: ignore[arg-type]
    )
    written = codec.write_request(ApiKey.ADD_PARTITIONS_TO_TXN, version, body)
    seen = codec.read_request(ApiKey.ADD_PARTITIONS_TO_TXN, version, written)
    reply = await add_partitions_to_txn.handle(node.context, node.request(ApiKey.ADD_PARTITIONS_TO_TXN, version, seen))
    assert codec.write_response(ApiKey.ADD_PARTITIONS_TO_TXN, version, reply)
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in reply.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }


@pytest.mark.parametrize("version", range(4))
async def test_a_client_adds_partitions_to_its_transaction(version: int) -> None:
    node = await node_with_topic("t")
    node.transactions.replies[commands.AddPartitions] = 0
    assert await add_as_client(node, version, t=(0, 1)) == {("t", 0): 0, ("t", 1): 0}
    (command,) = node.transactions.commands
    assert command == commands.AddPartitions(
        transactional_id="tx",
        producer_id=7,
        epoch=3,
        partitions=frozenset({topic_partition("t", 0), topic_partition("t", 1)}),
    )


async def test_a_missing_partition_prevents_adding_the_others() -> None:
    node = await node_with_topic("t")
    assert await add_as_client(node, 3, t=(0, 2), u=(0,)) == {("t", 0): 55, ("t", 2): 3, ("u", 0): 3}
    assert node.transactions.commands == []


@pytest.mark.parametrize(("version", "code"), [(0, 47), (1, 47), (2, 90), (3, 90)])
async def test_the_coordinators_error_is_returned_for_each_partition(version: int, code: int) -> None:
    node = await node_with_topic("t")
    node.transactions.replies[commands.AddPartitions] = 90
    assert await add_as_client(node, version, t=(0, 1)) == {("t", 0): code, ("t", 1): code}
    node.transactions.replies[commands.AddPartitions] = CoordinatorLoadInProgress()
    assert await add_as_client(node, version, t=(1,)) == {("t", 1): 14}


async def test_a_broker_adds_to_or_verifies_many_transactions() -> None:
    node = await node_with_topic("t")
    node.transactions.replies[commands.AddPartitions] = 0
    node.transactions.replies[commands.VerifyPartitions] = (0, 120)
    topic: Any = AddPartitionsToTxnTopic(name="t", partitions=(0, 1))  # type: ignore[arg-type]
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3, "topics": (topic,)}
    body = AddPartitionsToTxnRequest(
        transactions=(
            AddPartitionsToTxnTransaction(transactional_id="a", **fields),  # type: ignore[arg-type]
            AddPartitionsToTxnTransaction(transactional_id="b", verify_only=True, **fields),  # type: ignore[arg-type]
        )
    )
    for version in (4, 5):
        reply = await node.ask(add_partitions_to_txn.handle, ApiKey.ADD_PARTITIONS_TO_TXN, body, version=version)
        assert {
            result.transactional_id: [
                each.partition_error_code for each in result.topic_results[0].results_by_partition
            ]
            for result in reply.results_by_transaction
        } == {"a": [0, 0], "b": [0, 120]}
    assert node.transactions.commands[0].client_version == 2


async def test_a_partition_that_is_named_twice_is_added_once() -> None:
    node = await node_with_topic("t")
    node.transactions.replies[commands.AddPartitions] = 0
    assert await add_as_client(node, 3, t=(1, 1, 0)) == {("t", 1): 0, ("t", 0): 0}
    (command,) = node.transactions.commands
    assert len(command.partitions) == 2


async def test_a_topic_that_is_named_twice_is_answered_once() -> None:
    node = await node_with_topic("t")
    await create_automatically(node.context, [TopicName("u")])
    node.transactions.replies[commands.AddPartitions] = 0
    topics = [{"name": name, "partitions": (index,)} for name, index in (("t", 0), ("u", 0), ("t", 1))]
    fields = {"transactional_id": "tx", "producer_id": 7, "producer_epoch": 3, "verify_only": False, "topics": topics}
    body = body_of(ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=[fields])
    reply = await node.ask(add_partitions_to_txn.handle, ApiKey.ADD_PARTITIONS_TO_TXN, body, version=5)
    (result,) = reply.results_by_transaction
    assert [
        (topic.name, [each.partition_index for each in topic.results_by_partition]) for topic in result.topic_results
    ] == [("t", [0, 1]), ("u", [0])]
