"""DeleteTopics through its handler."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as DeleteTopicsRequestV5
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from penstock.handlers import delete_topics
from penstock.model.errors import StorageError
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SOON, LimitedClient, create, new_topic


async def delete(node: FakeNode, *topics: tuple[str | None, UUID | None], wait: Any = SOON) -> Any:
    states: Any = tuple(DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics)  # type: ignore[arg-type]
    body = DeleteTopicsRequest(topics=states, timeout=wait)
    return (await node.ask(delete_topics.handle, ApiKey.DELETE_TOPICS, body)).responses


async def test_topics_are_deleted_by_name_and_by_id() -> None:
    node = FakeNode()
    await create(node, new_topic("a"), new_topic("b"))
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
    await create(node, new_topic("a"))
    names: Any = ("a",)
    body = DeleteTopicsRequestV5(topic_names=names, timeout=SOON)
    reply = await node.ask(delete_topics.handle, ApiKey.DELETE_TOPICS, body, version=5)
    assert [(result.name, result.error_code) for result in reply.responses] == [("a", 0)]
    assert not node.image.topics


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73), (5, 73)])
async def test_disabled_deletion_has_the_error_code_of_the_version(version: int, code: int) -> None:
    node = FakeNode({"delete.topic.enable": "false"})
    await create(node, new_topic("a"))
    names: Any = ("a",)
    body = DeleteTopicsRequestV5(topic_names=names, timeout=SOON)
    reply = await node.ask(delete_topics.handle, ApiKey.DELETE_TOPICS, body, version=version)
    assert [result.error_code for result in reply.responses] == [code]
    assert "a" in node.image.topics


async def test_a_topic_that_is_named_twice_by_name_or_id_is_not_deleted() -> None:
    node = FakeNode()
    await create(node, new_topic("a"), new_topic("b"))
    id_a, _ = (node.image.topics[name].id for name in node.image.topics)
    results = await delete(node, ("a", None), (None, id_a), ("b", None), ("b", None))
    assert [(result.error_code, result.error_message) for result in results] == [
        (42, "The provided topic name maps to an ID that was already supplied."),
        (42, "Duplicate topic name."),
    ]
    assert len(node.image.topics) == 2


async def test_a_reference_must_be_either_a_name_or_a_known_id() -> None:
    node = FakeNode()
    results = await delete(node, (None, UUID(int=99)), (None, None), ("a", UUID(int=5)))
    assert sorted((int(result.error_code), result.error_message) for result in results) == [
        (42, "Neither topic name nor id were specified."),
        (42, "You may not specify both topic name and topic id."),
        (100, "This server does not host this topic ID."),
    ]


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(milliseconds=-1)])
async def test_nothing_is_deleted_with_a_timeout_of_zero_or_less(wait: timedelta) -> None:
    node = FakeNode()
    await create(node, new_topic("a"))
    (result,) = await delete(node, ("a", None), wait=wait)
    assert (result.name, result.error_code, result.error_message) == ("a", 7, None)
    assert "a" in node.image.topics


async def test_a_controller_that_cannot_commit_refuses_every_topic() -> None:
    node = FakeNode()
    await create(node, new_topic("a"))
    node.quorum.refusal = StorageError()
    assert [result.error_code for result in await delete(node, ("a", None))] == [56]


@pytest.mark.parametrize(("version", "code"), [(4, 0), (5, 89), (6, 89)])
async def test_a_deletion_over_the_quota_is_refused_or_only_throttled(version: int, code: int) -> None:
    limited = LimitedClient()
    await limited.create("first", 15)
    body = DeleteTopicsRequest(topics=(DeleteTopicState(name="first", topic_id=None),), timeout=SOON)  # type: ignore[arg-type]
    request = limited.request(ApiKey.DELETE_TOPICS, version, body)
    (result,) = (await delete_topics.handle(limited.node.context, request)).responses
    assert (result.error_code, result.error_message) == (code, None)
    assert request.header.throttle_ms >= 5000
    assert limited.muted
