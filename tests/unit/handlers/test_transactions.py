"""What the transaction APIs make of requests and of the coordinator's answers, in every version."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest as AddPartitionsV3
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic as TopicV3
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

from penstock.coordinator.errors import CoordinatorLoadInProgress, NotCoordinator
from penstock.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)
from penstock.handlers.creation import create_by_themselves
from penstock.model.errors import InvalidProducerEpoch
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.model.topic import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.storage.producer_state import Producer
from penstock.transactions import commands
from penstock.wire import codec
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode, FakePartition


def place(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


async def node_with_topic(name: str, partitions: int = 2) -> FakeNode:
    node = FakeNode({"num.partitions": str(partitions)})
    await create_by_themselves(node.context, [TopicName(name)])
    return node


# -- FindCoordinator and InitProducerId ------------------------------------------------------------


async def test_the_coordinator_of_a_transactional_id_is_found_and_its_topic_made() -> None:
    node = FakeNode()
    body: Any = FindCoordinatorRequest(key_type=1, coordinator_keys=("tx",))  # type: ignore[arg-type]
    reply = await node.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)
    assert [(each.key, each.node_id, each.error_code) for each in reply.coordinators] == [("tx", 1, 0)]
    assert len(node.image.topics[TRANSACTION_STATE].partitions) == 50
    assert node.image.topic_config(TRANSACTION_STATE)["cleanup.policy"] == "compact"


async def init(node: FakeNode, *, version: int = 5, **fields: Any) -> tuple[int, int, int]:
    values: dict[str, Any] = {"transactional_id": "tx", "transaction_timeout": timedelta(seconds=30)}
    body = InitProducerIdRequest(**values | fields)
    reply = await node.ask(init_producer_id.handle, ApiKey.INIT_PRODUCER_ID, body, version=version)
    return reply.error_code, reply.producer_id, reply.producer_epoch


async def test_a_transactional_producer_gets_its_id_from_the_coordinator() -> None:
    node = FakeNode()
    node.transactions.replies[commands.InitProducerId] = commands.InitProducerIdReply(producer_id=7, epoch=3)
    assert await init(node) == (0, 7, 3)
    assert node.transactions.asked == [commands.InitProducerId(transactional_id="tx", timeout_ms=30_000)]
    assert await init(node, producer_id=7, producer_epoch=3) == (0, 7, 3)
    assert (node.transactions.asked[1].producer_id, node.transactions.asked[1].epoch) == (7, 3)


@pytest.mark.parametrize(("version", "code"), [(0, 47), (3, 47), (4, 90), (5, 90)])
async def test_a_fenced_producer_is_told_so_in_words_that_it_knows(version: int, code: int) -> None:
    node = FakeNode()
    node.transactions.replies[commands.InitProducerId] = commands.InitProducerIdReply(error=90)
    assert await init(node, version=version) == (code, -1, -1)


async def test_an_id_of_another_coordinator_gets_nothing() -> None:
    node = FakeNode()
    node.transactions.replies[commands.InitProducerId] = NotCoordinator()
    assert await init(node) == (16, -1, -1)


# -- adding --------------------------------------------------------------------------------


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
    (asked,) = node.transactions.asked
    assert asked == commands.AddPartitions(
        transactional_id="tx", producer_id=7, epoch=3, partitions=frozenset({place("t", 0), place("t", 1)})
    )


async def test_one_missing_partition_keeps_the_others_out() -> None:
    node = await node_with_topic("t")
    assert await add_as_client(node, 3, t=(0, 2), u=(0,)) == {("t", 0): 55, ("t", 2): 3, ("u", 0): 3}
    assert node.transactions.asked == []


@pytest.mark.parametrize(("version", "code"), [(0, 47), (1, 47), (2, 90), (3, 90)])
async def test_the_coordinators_refusal_is_told_for_each_partition(version: int, code: int) -> None:
    node = await node_with_topic("t")
    node.transactions.replies[commands.AddPartitions] = 90
    assert await add_as_client(node, version, t=(0, 1)) == {("t", 0): code, ("t", 1): code}
    node.transactions.replies[commands.AddPartitions] = CoordinatorLoadInProgress()
    assert await add_as_client(node, version, t=(1,)) == {("t", 1): 14}


async def test_a_broker_adds_to_many_transactions_or_has_them_verified() -> None:
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
    assert node.transactions.asked[0].client_version == 2


async def test_adding_offsets_adds_the_partition_of_the_group() -> None:
    node = FakeNode()
    node.transactions.replies[commands.AddPartitions] = 0
    body: Any = AddOffsetsToTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, group_id="g")  # type: ignore[arg-type]
    for version in range(5):
        reply = await node.ask(add_offsets_to_txn.handle, ApiKey.ADD_OFFSETS_TO_TXN, body, version=version)
        assert reply.error_code == 0
    # The hash of "g" in Java is 103.
    assert node.transactions.asked[0].partitions == frozenset({place(CONSUMER_OFFSETS, 103 % 50)})
    node.transactions.replies[commands.AddPartitions] = 51
    assert (await node.ask(add_offsets_to_txn.handle, ApiKey.ADD_OFFSETS_TO_TXN, body)).error_code == 51


async def test_offsets_cannot_be_added_while_nobody_can_keep_them() -> None:
    node = FakeNode({"offsets.topic.replication.factor": "3"})
    body: Any = AddOffsetsToTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, group_id="g")  # type: ignore[arg-type]
    assert (await node.ask(add_offsets_to_txn.handle, ApiKey.ADD_OFFSETS_TO_TXN, body)).error_code == 15


# -- ending --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
async def test_an_end_says_what_the_producer_goes_on_with(version: int) -> None:
    node = FakeNode()
    node.transactions.replies[commands.EndTxn] = commands.EndTxnReply(producer_id=7, epoch=4)
    body: Any = EndTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, committed=True)  # type: ignore[arg-type]
    reply = await node.ask(end_txn.handle, ApiKey.END_TXN, body, version=version)
    assert reply.error_code == 0
    assert (reply.producer_id, reply.producer_epoch) == ((7, 4) if version >= 5 else (-1, -1))
    (asked,) = node.transactions.asked
    assert (asked.is_commit, asked.client_version) == (True, 2 if version >= 5 else 0)


@pytest.mark.parametrize(("version", "code"), [(1, 47), (2, 90), (5, 90)])
async def test_a_zombies_end_is_refused(version: int, code: int) -> None:
    node = FakeNode()
    node.transactions.replies[commands.EndTxn] = commands.EndTxnReply(error=90)
    body: Any = EndTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, committed=False)  # type: ignore[arg-type]
    assert (await node.ask(end_txn.handle, ApiKey.END_TXN, body, version=version)).error_code == code


@pytest.mark.parametrize("version", [1, 2])
async def test_markers_are_written_where_they_can_be(version: int) -> None:
    node = FakeNode()
    node.marker_writer.refusals["u"] = InvalidProducerEpoch()
    marker: Any = WritableTxnMarker(
        producer_id=7,  # type: ignore[arg-type]
        producer_epoch=3,  # type: ignore[arg-type]
        transaction_result=True,
        coordinator_epoch=5,  # type: ignore[arg-type]
        transaction_version=2 if version == 2 else 0,  # type: ignore[arg-type]
        topics=tuple(WritableTxnMarkerTopic(name=name, partition_indexes=(0, 1)) for name in "tu"),  # type: ignore[arg-type]
    )
    body = WriteTxnMarkersRequest(markers=(marker,))
    reply = await node.ask(write_txn_markers.handle, ApiKey.WRITE_TXN_MARKERS, body, version=version)
    (answered,) = reply.markers
    assert answered.producer_id == 7
    assert {topic.name: [each.error_code for each in topic.partitions] for topic in answered.topics} == {
        "t": [0, 0],
        "u": [47, 47],
    }
    assert node.marker_writer.written == [("t", index, 7, 3, 5, True, 2 if version == 2 else 0) for index in (0, 1)]


# -- looking -------------------------------------------------------------------------------


async def test_transactions_are_described() -> None:
    node = FakeNode()
    node.transactions.replies[commands.DescribeTransaction] = commands.DescribedTransaction(
        transactional_id="tx",
        state="Ongoing",
        timeout_ms=60_000,
        start_ms=1_000,
        producer_id=7,
        epoch=3,
        partitions=(place("t", 0), place("t", 2), place("u", 1)),
    )
    body: Any = DescribeTransactionsRequest(transactional_ids=("tx",))  # type: ignore[arg-type]
    (found,) = (await node.ask(describe_transactions.handle, ApiKey.DESCRIBE_TRANSACTIONS, body)).transaction_states
    assert (found.error_code, found.transaction_state, found.producer_id, found.producer_epoch) == (0, "Ongoing", 7, 3)
    assert found.transaction_start_time.timestamp() == 1.0
    assert found.transaction_timeout == timedelta(minutes=1)
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("t", (0, 2)), ("u", (1,))]
    node.transactions.replies[commands.DescribeTransaction] = NotCoordinator()
    (found,) = (await node.ask(describe_transactions.handle, ApiKey.DESCRIBE_TRANSACTIONS, body)).transaction_states
    assert (found.error_code, found.transactional_id) == (16, "tx")
    assert found.transaction_start_time.timestamp() == 0


async def test_transactions_are_listed_and_strange_states_named() -> None:
    node = FakeNode()
    node.transactions.replies[commands.ListTransactions] = [
        commands.ListedTransaction(transactional_id="tx", producer_id=7, state="Ongoing")
    ]
    body: Any = ListTransactionsRequest(
        state_filters=("Ongoing", "Sleeping", "Sleeping"),
        producer_id_filters=(7,),  # type: ignore[arg-type]
        duration_filter=5,  # type: ignore[arg-type]
        transactional_id_pattern="t.*",
    )
    reply = await node.ask(list_transactions.handle, ApiKey.LIST_TRANSACTIONS, body)
    assert reply.unknown_state_filters == ("Sleeping",)
    assert [(each.transactional_id, each.producer_id, each.transaction_state) for each in reply.transaction_states] == [
        ("tx", 7, "Ongoing")
    ]
    (asked,) = node.transactions.asked
    assert (asked.producer_ids, asked.duration_ms, asked.pattern) == (frozenset({7}), 5, "t.*")
    node.transactions.replies[commands.ListTransactions] = CoordinatorLoadInProgress()
    assert (await node.ask(list_transactions.handle, ApiKey.LIST_TRANSACTIONS, body, version=0)).error_code == 14


async def test_producers_are_described_where_they_wrote() -> None:
    node = FakeNode()
    open_one = Producer(7, 3, 0)
    open_one.wrote(0, 10, 12, 99, 0)
    open_one.txn_first_offset = 10
    partition = node.replicas.put(FakePartition("t"))
    partition.log.producers_known = [open_one]
    node.replicas.put(FakePartition("t", 1, is_leader=False))
    body: Any = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0, 1, 2)),))  # type: ignore[arg-type]
    (topic,) = (await node.ask(describe_producers.handle, ApiKey.DESCRIBE_PRODUCERS, body)).topics
    assert [each.error_code for each in topic.partitions] == [0, 0, 3], "a follower answers too"
    (found,) = topic.partitions[0].active_producers
    assert (found.producer_id, found.producer_epoch, found.last_sequence, found.last_timestamp) == (7, 3, 2, 99)
    assert (found.coordinator_epoch, found.current_txn_start_offset) == (-1, 10)
