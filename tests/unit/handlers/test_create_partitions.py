"""CreatePartitions through its handler."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)

from penstock.handlers import create_partitions
from penstock.model.errors import StorageError
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SOON, LimitedClient, create, new_topic


async def add(node: FakeNode, *topics: tuple[str, int], wait: Any = SOON, validate_only: bool = False) -> Any:
    listed: Any = tuple(
        CreatePartitionsTopic(name=name, count=count, assignments=None)  # type: ignore[arg-type]
        for name, count in topics
    )
    body = CreatePartitionsRequest(topics=listed, timeout=wait, validate_only=validate_only)
    return (await node.ask(create_partitions.handle, ApiKey.CREATE_PARTITIONS, body)).results


async def test_partitions_are_added_and_every_topic_is_answered() -> None:
    node = FakeNode()
    await create(node, new_topic("a", 1), new_topic("b", 1))
    results = await add(node, ("a", 3), ("b", 1), ("zz", 2))
    assert [(result.name, result.error_code, result.error_message) for result in results] == [
        ("a", 0, None),
        ("b", 37, "Topic already has 1 partition(s)."),
        ("zz", 3, None),
    ]
    assert [len(image.partitions) for image in node.image.topics.values()] == [3, 1]


async def test_topics_named_twice_or_only_validated_get_no_partitions() -> None:
    node = FakeNode()
    await create(node, new_topic("a", 1))
    results = await add(node, ("a", 3), ("a", 4))
    assert [(result.error_code, result.error_message) for result in results] == [(42, "Duplicate topic name.")]
    results = await add(node, ("a", 3), validate_only=True)
    assert [result.error_code for result in results] == [0]
    assert [len(image.partitions) for image in node.image.topics.values()] == [1]


async def test_new_partitions_can_be_assigned_manually() -> None:
    node = FakeNode()
    await create(node, new_topic("a", 1))
    assigned: Any = (CreatePartitionsAssignment(broker_ids=(9,)),)  # type: ignore[arg-type]
    listed: Any = (CreatePartitionsTopic(name="a", count=2, assignments=assigned),)  # type: ignore[arg-type]
    body = CreatePartitionsRequest(topics=listed, timeout=SOON, validate_only=False)
    (result,) = (await node.ask(create_partitions.handle, ApiKey.CREATE_PARTITIONS, body)).results
    assert (result.error_code, result.error_message) == (
        39,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    )


@pytest.mark.parametrize(
    ("count", "brokers", "code", "message"),
    [
        (
            3,
            ((1,),),
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (2, ((),), 39, "The manual partition assignment includes an empty replica list."),
        (2, ((1, 1),), 39, "The manual partition assignment includes the broker 1 more than once."),
        (1, None, 37, "Topic already has 1 partition(s)."),
        (0, None, 37, "The topic a currently has 1 partition(s); 0 would not be an increase."),
        (2, ((1,),), 0, None),
    ],
)
async def test_a_count_and_its_assignments_must_match(
    count: int, brokers: tuple[tuple[int, ...], ...] | None, code: int, message: str | None
) -> None:
    node = FakeNode()
    await create(node, new_topic("a", 1))
    assigned: Any = None if brokers is None else tuple(CreatePartitionsAssignment(broker_ids=ids) for ids in brokers)  # type: ignore[arg-type]
    topic = CreatePartitionsTopic(name="a", count=count, assignments=assigned)  # type: ignore[arg-type]
    body = CreatePartitionsRequest(topics=(topic,), timeout=SOON, validate_only=False)
    (result,) = (await node.ask(create_partitions.handle, ApiKey.CREATE_PARTITIONS, body)).results
    assert (result.error_code, result.error_message) == (code, message)


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(milliseconds=-1)])
async def test_nothing_is_added_with_a_timeout_of_zero_or_less(wait: timedelta) -> None:
    node = FakeNode()
    await create(node, new_topic("a", 1))
    (result,) = await add(node, ("a", 2), wait=wait)
    assert (result.name, result.error_code, result.error_message) == ("a", 7, None)


async def test_a_controller_that_cannot_commit_refuses_every_topic_once() -> None:
    node = FakeNode()
    await create(node, new_topic("a", 1))
    node.quorum.refusal = StorageError()
    results = await add(node, ("a", 2), ("zz", 1), ("zz", 2))
    assert [(result.name, result.error_code) for result in results] == [("a", 56), ("zz", 56)]


@pytest.mark.parametrize(("version", "code"), [(2, 0), (3, 89)])
async def test_partitions_over_the_quota_are_refused_or_only_throttled(version: int, code: int) -> None:
    limited = LimitedClient()
    await limited.create("first", 15)
    topic = CreatePartitionsTopic(name="first", count=16, assignments=None)  # type: ignore[arg-type]
    body = CreatePartitionsRequest(topics=(topic,), timeout=SOON, validate_only=False)
    request = limited.request(ApiKey.CREATE_PARTITIONS, version, body)
    (result,) = (await create_partitions.handle(limited.node.context, request)).results
    assert (result.error_code, result.error_message) == (code, None)
    assert request.header.throttle_ms == (5000 if code else 6000)
