from typing import Any
from uuid import UUID

import pytest
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from penstock.handlers import metadata
from penstock.metadata.records import (
    BrokerEndpoint,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.model.errors import StorageError
from penstock.wire import codec
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import broker
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import LimitedClient

ID = UUID(int=900)
UNKNOWN_OPERATIONS = -(2**31)


def named(*names: str) -> tuple[MetadataRequestTopic, ...]:
    return tuple(MetadataRequestTopic(name=name, topic_id=None) for name in names)  # type: ignore[arg-type]


async def ask(
    node: FakeNode,
    topics: tuple[MetadataRequestTopic, ...] | None,
    *,
    version: int = 13,
    create: bool = False,
    operations: bool = False,
) -> Any:
    body = MetadataRequest(
        topics=topics, allow_auto_topic_creation=create, include_topic_authorized_operations=operations
    )
    return await node.ask(metadata.handle, ApiKey.METADATA, body, version=version)


def with_topic(name: str = "a", *, replicas: tuple[int, ...] = (1,), leader: int = 1, **options: Any) -> FakeNode:
    node = FakeNode(**options)
    node.quorum.put(
        [
            TopicRecord(name=name, topic_id=ID),
            PartitionRecord(
                partition_id=0, topic_id=ID, replicas=replicas, isr=replicas, leader=leader, leader_epoch=4,
                partition_epoch=0,
            ),
        ]
    )  # fmt: skip
    return node


async def test_the_reply_has_brokers_cluster_controller_and_partitions() -> None:
    reply = await ask(with_topic(brokers=[broker(1, rack="r")]), named("a"))
    assert [(each.node_id, each.host, each.port, each.rack) for each in reply.brokers] == [(1, "host1", 9092, "r")]
    assert (reply.cluster_id, reply.controller_id, reply.error_code) == ("the-cluster", 1, 0)
    (topic,) = reply.topics
    assert (topic.error_code, topic.name, topic.topic_id, topic.is_internal) == (0, "a", ID, False)
    assert topic.topic_authorized_operations == UNKNOWN_OPERATIONS
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 4)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ((1,), (1,), ())


@pytest.mark.parametrize("version", range(14))
async def test_every_version_finds_a_topic_by_name(version: int) -> None:
    reply = await ask(with_topic(), named("a"), version=version)
    assert [(topic.name, topic.partitions[0].leader_id) for topic in reply.topics] == [("a", 1)]


async def test_null_means_all_topics_and_an_empty_list_none() -> None:
    node = with_topic()
    assert [topic.name for topic in (await ask(node, None)).topics] == ["a"]
    assert (await ask(node, ())).topics == ()


async def test_an_empty_list_means_all_topics_in_version_0() -> None:
    assert [topic.name for topic in (await ask(with_topic(), (), version=0)).topics] == ["a"]


async def test_unknown_and_invalid_names_have_different_errors_and_are_answered_once() -> None:
    reply = await ask(FakeNode(), named("nope", "bad name", "nope", "__consumer_offsets", ""))
    assert [(topic.name, topic.error_code, topic.is_internal) for topic in reply.topics] == [
        ("nope", 3, False),
        ("bad name", 17, False),
        ("__consumer_offsets", 3, True),
        ("", 17, False),
    ]


async def test_topics_are_found_by_id_and_names_beside_ids_are_ignored() -> None:
    other = UUID(int=901)
    requested = tuple(
        MetadataRequestTopic(name=name, topic_id=topic_id)  # type: ignore[arg-type]
        for name, topic_id in ((None, ID), (None, other), ("a", None))
    )
    reply = await ask(with_topic(), requested)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in reply.topics] == [
        (None, other, 100),
        ("a", ID, 0),
    ]


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_are_refused_before_version_12(version: int) -> None:
    requested = (MetadataRequestTopic(name="a", topic_id=ID),)  # type: ignore[arg-type]
    reply = await ask(with_topic(), requested, version=version)
    assert (reply.brokers, reply.cluster_id, reply.controller_id) == ((), None, -1)
    assert [(topic.name, topic.error_code) for topic in reply.topics] == [("a", 42)]


async def test_a_missing_topic_is_created_and_its_leader_returned_to_the_next_request() -> None:
    node = with_topic(settings={"num.partitions": "2"})
    reply = await ask(node, named("new", "a"), create=True)
    assert [(topic.name, topic.error_code) for topic in reply.topics] == [("new", 5), ("a", 0)]
    (topic,) = (await ask(node, named("new"), create=True)).topics
    assert (topic.error_code, topic.topic_id) == (0, node.image.topics[topic.name].id)
    assert [partition.leader_id for partition in topic.partitions] == [1, 1]


async def test_topics_that_are_created_automatically_count_against_the_quota_of_the_client() -> None:
    world = LimitedClient()
    throttled = []
    for names in (["a", "b"], [f"t{number}" for number in range(20)], ["c"]):
        body = MetadataRequest(
            topics=named(*names), allow_auto_topic_creation=True, include_topic_authorized_operations=False
        )
        read = codec.read_request(ApiKey.METADATA, 12, codec.write_request(ApiKey.METADATA, 12, body))
        request = world.request(ApiKey.METADATA, 12, read)
        await metadata.handle(world.node.context, request)
        throttled.append(request.header.throttle_ms)
    # A burst of ten partitions, and the one that exceeds it.
    assert len(world.node.image.topics) == 11
    assert throttled == [0, 1000, 1000]
    assert set(world.muted) == {1.0}


async def test_versions_without_the_flag_create_missing_topics() -> None:
    node = FakeNode()
    await ask(node, named("new"), version=3)
    assert list(node.image.topics) == ["new"]


@pytest.mark.parametrize(("settings", "create"), [({}, False), ({"auto.create.topics.enable": "false"}, True)])
async def test_no_topic_is_created_without_the_flag_or_against_the_setting(
    settings: dict[str, str], create: bool
) -> None:
    node = FakeNode(settings)
    reply = await ask(node, named("new"), create=create)
    assert [topic.error_code for topic in reply.topics] == [3]
    assert not node.image.topics


async def test_a_request_for_all_topics_creates_none() -> None:
    node = FakeNode()
    await ask(node, None, create=True)
    assert not node.image.topics


async def test_the_metadata_log_is_not_created_as_a_topic() -> None:
    node = FakeNode()
    reply = await ask(node, named("__cluster_metadata", "new"), create=True)
    assert [(topic.name, topic.error_code) for topic in reply.topics] == [("__cluster_metadata", 3), ("new", 5)]
    assert list(node.image.topics) == ["new"]


async def test_internal_topics_are_created_with_the_settings_of_their_coordinators() -> None:
    node = FakeNode(
        {
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }
    )
    names = ("__consumer_offsets", "__transaction_state", "__share_group_state")
    await ask(node, named(*names), create=True)
    reply = await ask(node, named(*names))
    assert [(topic.is_internal, len(topic.partitions)) for topic in reply.topics] == [(True, 5), (True, 4), (True, 3)]
    assert node.image.topic_config(reply.topics[0].name)["cleanup.policy"] == "compact"
    assert node.image.topic_config(reply.topics[1].name)["compression.type"] == "uncompressed"


async def test_a_topic_that_cannot_be_created_stays_unknown() -> None:
    reply = await ask(FakeNode({"default.replication.factor": "3"}), named("new", "bad name"), create=True)
    assert [topic.error_code for topic in reply.topics] == [3, 17]


async def test_operations_are_returned_on_request() -> None:
    reply = await ask(with_topic(), named("a", "nope"), operations=True)
    assert [topic.topic_authorized_operations for topic in reply.topics] == [3576, 3576]


async def test_a_partition_without_its_leader_has_an_error_and_lists_offline_replicas() -> None:
    node = with_topic(replicas=(1, 2), leader=2, brokers=[broker(1), broker(2, fenced=True)])
    (partition,) = (await ask(node, named("a"))).topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (5, -1, (2,))
    assert [each.node_id for each in (await ask(node, None)).brokers] == [1]


@pytest.mark.parametrize(("version", "code"), [(5, 5), (6, 72)])
async def test_a_leader_without_the_clients_listener_is_named_from_version_6(version: int, code: int) -> None:
    elsewhere = RegisterBrokerRecord(
        broker_id=2,
        incarnation_id=ID,
        broker_epoch=2,
        end_points=(BrokerEndpoint(name="OTHER", host="x", port=1, security_protocol=0),),
        fenced=False,
    )
    node = with_topic(replicas=(2,), leader=2, brokers=[broker(1), elsewhere])
    (partition,) = (await ask(node, named("a"), version=version)).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (code, -1)


async def test_version_0_omits_replicas_that_are_gone() -> None:
    node = with_topic(replicas=(1, 2), brokers=[broker(1), broker(2, fenced=True)])
    (partition,) = (await ask(node, named("a"), version=0)).topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.replica_nodes) == (9, 1, (1,))
    (partition,) = (await ask(node, named("a"), version=1)).topics[0].partitions
    assert (partition.error_code, partition.replica_nodes) == (0, (1, 2))


async def test_topics_stay_unknown_if_the_whole_creation_is_refused() -> None:
    node = FakeNode()
    node.quorum.refusal = StorageError()
    assert [topic.error_code for topic in (await ask(node, named("new"), create=True)).topics] == [3]
