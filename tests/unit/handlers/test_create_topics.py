"""CreateTopics through its handler."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
)

from penstock.config.describe import describe_topic
from penstock.handlers import create_topics
from penstock.model.errors import StorageError
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import LimitedClient, create, new_topic


async def test_a_created_topic_is_in_the_image_and_the_reply_describes_it() -> None:
    node = FakeNode({"num.partitions": "3", "log.retention.hours": "1"})
    (created,) = await create(node, new_topic("a", cleanup_policy="compact"))
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
async def test_every_version_creates_a_topic(version: int) -> None:
    node = FakeNode()
    (created,) = await create(node, new_topic("a", 1, 1), version=version)
    assert created.error_code == 0
    assert "a" in node.image.topics


async def test_the_settings_of_topics_with_the_same_configs_are_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[Any] = []

    def counting(settings: Any, configs: Any) -> Any:
        described.append(configs)
        return describe_topic(settings, configs)

    monkeypatch.setattr(create_topics, "describe_topic", counting)
    topics = [
        new_topic(f"t{number}", 1, 1, cleanup_policy="compact" if number % 2 else "delete") for number in range(6)
    ]
    results = await create(FakeNode(), *topics)
    assert described == [{"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}]
    policies = [next(one.value for one in each.configs if one.name == "cleanup.policy") for each in results]
    assert policies == ["delete", "compact"] * 3


async def test_versions_without_settings_in_the_response_do_not_describe_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create_topics, "describe_topic", lambda *_: pytest.fail("described"))
    (created,) = await create(FakeNode(), new_topic("a", 1, 1), version=4)
    assert (created.error_code, created.configs) == (0, ())


async def test_a_manual_assignment_reaches_the_controller() -> None:
    node = FakeNode()
    values: Any = {"name": "a", "num_partitions": -1, "replication_factor": -1, "configs": ()}
    assigned: Any = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),)  # type: ignore[arg-type]
    (created,) = await create(node, CreatableTopic(**values, assignments=assigned))
    assert (created.error_code, created.num_partitions) == (0, 1)


async def test_a_name_given_twice_and_the_metadata_log_are_refused_and_the_rest_is_created() -> None:
    node = FakeNode()
    results = await create(node, new_topic("b"), new_topic("b"), new_topic("__cluster_metadata"), new_topic("c"))
    assert [(result.name, result.error_code, result.error_message) for result in results] == [
        ("c", 0, None),
        ("b", 42, "Duplicate topic name."),
        ("__cluster_metadata", 42, "Creation of internal topic __cluster_metadata is prohibited."),
    ]
    assert list(node.image.topics) == ["c"]


async def test_validate_only_creates_no_topic() -> None:
    node = FakeNode()
    (result,) = await create(node, new_topic("a", 3), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert not node.image.topics


async def test_a_refused_topic_has_a_code_and_a_message() -> None:
    node = FakeNode()
    (result,) = await create(node, new_topic("a", retention_ms="abc"))
    assert (result.error_code, result.topic_id, result.configs) == (40, None, ())
    assert result.error_message == "Invalid value abc for configuration retention.ms: Not a number of type LONG"


async def test_every_topic_of_a_request_with_too_many_partitions_is_refused() -> None:
    results = await create(FakeNode(), new_topic("big", 10_001), new_topic("small"))
    assert [(result.error_code, result.error_message) for result in results] == [
        (44, "Excessively large number of partitions per request.")
    ] * 2


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (
            new_topic("a", 0),
            37,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (new_topic("a", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            new_topic("a", 1, 2),
            38,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
            "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            new_topic("a b"),
            17,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and "
            "'-'",
        ),
        (new_topic("there"), 36, "Topic 'there' already exists."),
        (new_topic("th.ere"), 0, None),
    ],
)
async def test_a_topic_that_cannot_be_created_is_refused(topic: Any, code: int, message: str | None) -> None:
    node = FakeNode()
    await create(node, new_topic("there"))
    (result,) = await create(node, topic)
    assert (result.error_code, result.error_message) == (code, message)


async def test_names_with_the_same_metric_name_collide() -> None:
    node = FakeNode()
    await create(node, new_topic("a.b"))
    (result,) = await create(node, new_topic("a_b"))
    assert (result.error_code, result.error_message) == (17, "Topic 'a_b' collides with existing topic: a.b")


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(milliseconds=-1)])
async def test_nothing_is_created_with_a_timeout_of_zero_or_less(wait: timedelta) -> None:
    node = FakeNode()
    (result,) = await create(node, new_topic("a"), wait=wait)
    assert (result.error_code, result.error_message) == (7, None)
    assert not node.image.topics


async def test_a_commit_that_takes_too_long_times_out() -> None:
    node = FakeNode()
    node.quorum.stuck = True
    pending = asyncio.ensure_future(create(node, new_topic("a")))
    await node.clock.awaited.wait()
    node.clock.ring()
    (created,) = await pending
    assert created.error_code == 7


async def test_a_controller_that_cannot_commit_refuses_every_topic() -> None:
    node = FakeNode()
    node.quorum.refusal = StorageError()
    results = await create(node, new_topic("a"), new_topic("b"), new_topic("b"))
    assert [(result.name, result.error_code) for result in results] == [("a", 56), ("b", 56)]


async def test_partitions_over_the_quota_are_refused_until_the_debt_is_paid() -> None:
    limited = LimitedClient()
    assert await limited.create("first", 15) == (0, 0)
    assert await limited.create("second", 1) == (89, 5000)
    assert limited.muted == [5.0]


async def test_versions_without_the_error_are_only_throttled() -> None:
    limited = LimitedClient()
    assert await limited.create("first", 15, version=5) == (0, 5000)
    assert await limited.create("second", 1, version=5) == (0, 6000)
    assert limited.muted == [5.0, 6.0]
