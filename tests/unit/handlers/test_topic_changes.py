"""CreateTopics, DeleteTopics and CreatePartitions through their handlers."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as DeleteTopicsRequestV5
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from penstock.handlers import create_partitions, create_topics, delete_topics
from penstock.model.errors import StorageError
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode

SOON: Any = timedelta(seconds=30)


def topic(name: str, count: int = -1, factor: int = -1, **configs: str | None) -> CreatableTopic:
    values: Any = {"name": name, "num_partitions": count, "replication_factor": factor}
    return CreatableTopic(
        **values,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()),
    )


async def create(node: FakeNode, *topics: CreatableTopic, version: int = 7, wait: Any = SOON, **options: Any) -> Any:
    body = CreateTopicsRequest(topics=topics, timeout=wait, **options)
    return (await node.ask(create_topics.handle, ApiKey.CREATE_TOPICS, body, version=version)).topics


async def delete(node: FakeNode, *topics: tuple[str | None, UUID | None], wait: Any = SOON) -> Any:
    states: Any = tuple(DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics)  # type: ignore[arg-type]
    body = DeleteTopicsRequest(topics=states, timeout=wait)
    return (await node.ask(delete_topics.handle, ApiKey.DELETE_TOPICS, body)).responses


async def add(node: FakeNode, *topics: tuple[str, int], wait: Any = SOON, validate_only: bool = False) -> Any:
    listed: Any = tuple(
        CreatePartitionsTopic(name=name, count=count, assignments=None)  # type: ignore[arg-type]
        for name, count in topics
    )
    body = CreatePartitionsRequest(topics=listed, timeout=wait, validate_only=validate_only)
    return (await node.ask(create_partitions.handle, ApiKey.CREATE_PARTITIONS, body)).results


async def test_a_created_topic_is_in_the_image_and_its_reply_tells_all_of_it() -> None:
    node = FakeNode({"num.partitions": "3", "log.retention.hours": "1"})
    (created,) = await create(node, topic("a", cleanup_policy="compact"))
    image = node.image.topics[created.name]
    assert (created.topic_id, created.error_code, created.error_message) == (image.id, 0, None)
    assert (created.num_partitions, created.replication_factor) == (3, 1)
    sources = {config.name: (config.value, config.config_source) for config in created.configs}
    assert sources["cleanup.policy"] == ("compact", 1)
    assert sources["retention.ms"] == ("3600000", 4)
    assert sources["segment.bytes"] == ("1073741824", 5)
    assert [config.name for config in created.configs] == sorted(sources)
    assert "internal.segment.bytes" not in sources


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_creates(version: int) -> None:
    node = FakeNode()
    (created,) = await create(node, topic("a", 1, 1), version=version)
    assert created.error_code == 0
    assert "a" in node.image.topics


async def test_a_manual_assignment_reaches_the_controller() -> None:
    node = FakeNode()
    values: Any = {"name": "a", "num_partitions": -1, "replication_factor": -1, "configs": ()}
    assigned: Any = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),)  # type: ignore[arg-type]
    (created,) = await create(node, CreatableTopic(**values, assignments=assigned))
    assert (created.error_code, created.num_partitions) == (0, 1)


async def test_a_name_given_twice_and_the_metadata_log_are_refused_beside_what_works() -> None:
    node = FakeNode()
    results = await create(node, topic("b"), topic("b"), topic("__cluster_metadata"), topic("c"))
    assert [(result.name, result.error_code, result.error_message) for result in results] == [
        ("c", 0, None),
        ("b", 42, "Duplicate topic name."),
        ("__cluster_metadata", 42, "Creation of internal topic __cluster_metadata is prohibited."),
    ]
    assert list(node.image.topics) == ["c"]


async def test_validate_only_leaves_no_topic_behind() -> None:
    node = FakeNode()
    (result,) = await create(node, topic("a", 3), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert not node.image.topics


async def test_a_refused_topic_carries_code_and_message() -> None:
    node = FakeNode()
    (result,) = await create(node, topic("a", retention_ms="abc"))
    assert (result.error_code, result.topic_id, result.configs) == (40, None, ())
    assert result.error_message == "Invalid value abc for configuration retention.ms: Not a number of type LONG"


async def test_too_many_partitions_refuse_every_topic_of_the_request() -> None:
    results = await create(FakeNode(), topic("big", 10_001), topic("small"))
    assert [(result.error_code, result.error_message) for result in results] == [
        (44, "Excessively large number of partitions per request.")
    ] * 2


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(milliseconds=-1)])
async def test_no_time_to_wait_means_that_nothing_is_begun(wait: timedelta) -> None:
    node = FakeNode()
    (created,) = await create(node, topic("a"), wait=wait)
    assert (created.error_code, created.error_message) == (7, None)
    (deleted,) = await delete(node, ("a", None), wait=wait)
    assert (deleted.error_code, deleted.error_message) == (7, None)
    (added,) = await add(node, ("a", 2), wait=wait)
    assert (added.error_code, added.error_message) == (7, None)
    assert not node.image.topics


async def test_a_commit_that_takes_too_long_is_answered_when_the_time_is_up() -> None:
    node = FakeNode()
    node.quorum.stuck = True
    asked = asyncio.ensure_future(create(node, topic("a")))
    await node.clock.awaited.wait()
    node.clock.ring()
    (created,) = await asked
    assert created.error_code == 7


async def test_topics_are_deleted_by_name_and_by_id() -> None:
    node = FakeNode()
    await create(node, topic("a"), topic("b"))
    id_a, id_b = (node.image.topics[name].id for name in node.image.topics)
    results = await delete(node, ("a", None), (None, id_b), ("zz", None))
    assert [(result.name, result.topic_id, result.error_code, result.error_message) for result in results] == [
        ("a", id_a, 0, None),
        ("b", id_b, 0, None),
        ("zz", None, 3, "This server does not host this topic-partition."),
    ]
    assert not node.image.topics


async def test_older_versions_delete_by_name() -> None:
    node = FakeNode()
    await create(node, topic("a"))
    names: Any = ("a",)
    body = DeleteTopicsRequestV5(topic_names=names, timeout=SOON)
    reply = await node.ask(delete_topics.handle, ApiKey.DELETE_TOPICS, body, version=5)
    assert [(result.name, result.error_code) for result in reply.responses] == [("a", 0)]
    assert not node.image.topics


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73), (5, 73)])
async def test_switched_off_deletion_is_told_in_the_words_of_the_version(version: int, code: int) -> None:
    node = FakeNode({"delete.topic.enable": "false"})
    await create(node, topic("a"))
    names: Any = ("a",)
    body = DeleteTopicsRequestV5(topic_names=names, timeout=SOON)
    reply = await node.ask(delete_topics.handle, ApiKey.DELETE_TOPICS, body, version=version)
    assert [result.error_code for result in reply.responses] == [code]
    assert "a" in node.image.topics


async def test_partitions_are_added_and_every_topic_is_answered() -> None:
    node = FakeNode()
    await create(node, topic("a", 1), topic("b", 1))
    results = await add(node, ("a", 3), ("b", 1), ("zz", 2))
    assert [(result.name, result.error_code, result.error_message) for result in results] == [
        ("a", 0, None),
        ("b", 37, "Topic already has 1 partition(s)."),
        ("zz", 3, None),
    ]
    assert [len(image.partitions) for image in node.image.topics.values()] == [3, 1]


async def test_partitions_asked_for_twice_or_only_to_validate_are_not_added() -> None:
    node = FakeNode()
    await create(node, topic("a", 1))
    results = await add(node, ("a", 3), ("a", 4))
    assert [(result.error_code, result.error_message) for result in results] == [(42, "Duplicate topic name.")]
    results = await add(node, ("a", 3), validate_only=True)
    assert [result.error_code for result in results] == [0]
    assert [len(image.partitions) for image in node.image.topics.values()] == [1]


async def test_new_partitions_can_be_assigned_by_hand() -> None:
    node = FakeNode()
    await create(node, topic("a", 1))
    assigned: Any = (CreatePartitionsAssignment(broker_ids=(9,)),)  # type: ignore[arg-type]
    listed: Any = (CreatePartitionsTopic(name="a", count=2, assignments=assigned),)  # type: ignore[arg-type]
    body = CreatePartitionsRequest(topics=listed, timeout=SOON, validate_only=False)
    (result,) = (await node.ask(create_partitions.handle, ApiKey.CREATE_PARTITIONS, body)).results
    assert (result.error_code, result.error_message) == (
        39,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    )


async def test_a_quorum_that_cannot_commit_is_told_to_every_topic() -> None:
    node = FakeNode()
    await create(node, topic("a", 1))
    node.quorum.refusal = StorageError()
    assert [result.error_code for result in await create(node, topic("b"))] == [56]
    assert [result.error_code for result in await add(node, ("a", 2))] == [56]
    assert [result.error_code for result in await delete(node, ("a", None))] == [56]
