"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources."""

import logging
from typing import Any
from uuid import UUID

import pytest
from kio.schema.alter_configs.v2 import request as legacy
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1 import request as incremental
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

from penstock.handlers import alter_configs, describe_configs, incremental_alter_configs, list_config_resources
from penstock.handlers.entities import int8
from penstock.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from penstock.metadata.records import TopicRecord
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode

SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def node() -> FakeNode:
    node = FakeNode({"num.partitions": "4"})
    node.quorum.put([TopicRecord(name="orders", topic_id=UUID(int=9))])
    return node


async def describe(
    node: FakeNode, kind: int, name: str, *keys: str, version: int = 4, synonyms: bool = True, doc: bool = False
) -> Any:
    body = DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(resource_type=int8(kind), resource_name=name, configuration_keys=keys or None),
        ),
        include_synonyms=synonyms,
        include_documentation=doc,
    )
    reply = await node.ask(describe_configs.handle, ApiKey.DESCRIBE_CONFIGS, body, version=version)
    (result,) = reply.results
    return result


async def alter(
    node: FakeNode, kind: int, name: str, *changes: tuple[str, int, str | None], rehearse: bool = False
) -> Any:
    body = incremental.IncrementalAlterConfigsRequest(
        resources=(
            incremental.AlterConfigsResource(
                resource_type=int8(kind),
                resource_name=name,
                configs=tuple(
                    incremental.AlterableConfig(name=option, config_operation=int8(operation), value=value)
                    for option, operation, value in changes
                ),
            ),
        ),
        validate_only=rehearse,
    )
    reply = await node.ask(incremental_alter_configs.handle, ApiKey.INCREMENTAL_ALTER_CONFIGS, body)
    (result,) = reply.responses
    return result


async def test_every_option_of_a_topic_is_described(node: FakeNode) -> None:
    result = await describe(node, TOPIC, "orders")
    assert result.error_code == 0
    assert len(result.configs) == 34
    option = next(option for option in result.configs if option.name == "retention.bytes")
    assert (option.value, option.config_source, option.config_type, option.read_only) == ("-1", 5, 5, False)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in option.synonyms] == [
        ("log.retention.bytes", "-1", 5)
    ]
    assert option.documentation is None


async def test_docs_and_synonyms_are_sent_when_asked_for(node: FakeNode) -> None:
    told = (await describe(node, TOPIC, "orders", "retention.ms", synonyms=False, doc=True)).configs[0]
    assert told.synonyms == ()
    assert told.documentation


async def test_the_oldest_version_is_answered_too(node: FakeNode) -> None:
    result = await describe(node, TOPIC, "orders", "retention.ms", version=1)
    assert [(option.name, option.value) for option in result.configs] == [("retention.ms", "604800000")]


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nope", 3, ""),
        (TOPIC, "", 17, "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "7", 42, "Unexpected broker id, expected 1 or empty string, but received 7"),
        (BROKER, "abc", 42, "Broker id must be an integer, but it is: abc"),
        (BROKER_LOGGER, "7", 42, "Unexpected broker id, expected 1 but received 7"),
        (BROKER_LOGGER, "", 42, "Broker id must not be empty"),
        (CLIENT_METRICS, "", 42, "Client metrics subscription name must not be empty"),
        (GROUP, "", 42, "Group name must not be empty"),
        (9, "x", 42, describe_configs.UNKNOWN_TYPE),
    ],
)
async def test_what_cannot_be_described_is_refused(
    node: FakeNode, kind: int, name: str, code: int, message: str
) -> None:
    result = await describe(node, kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, message, ())
    assert (result.resource_type, result.resource_name) == (kind, name)


async def test_a_change_shows_in_the_next_description(node: FakeNode) -> None:
    assert (await alter(node, TOPIC, "orders", ("retention.ms", SET, "77"))).error_code == 0
    option = (await describe(node, TOPIC, "orders", "retention.ms")).configs[0]
    assert (option.value, option.config_source) == ("77", 1)
    await alter(node, TOPIC, "orders", ("retention.ms", DELETE, None))
    option = (await describe(node, TOPIC, "orders", "retention.ms")).configs[0]
    assert (option.value, option.config_source) == ("604800000", 5)


async def test_a_rehearsal_changes_nothing(node: FakeNode) -> None:
    before = node.image
    assert (await alter(node, TOPIC, "orders", ("retention.ms", SET, "77"), rehearse=True)).error_code == 0
    assert node.image is before


async def test_a_refused_change_says_why(node: FakeNode) -> None:
    result = await alter(node, BROKER, "1", ("num.partitions", SET, "5"))
    assert (result.error_code, result.error_message) == (
        42,
        "Cannot update these configs dynamically: [num.partitions]",
    )


async def test_this_broker_and_all_brokers_are_described_apart(node: FakeNode) -> None:
    await alter(node, BROKER, "", ("log.retention.bytes", SET, "10"))
    everywhere = await describe(node, BROKER, "")
    assert [(option.name, option.value, option.config_source) for option in everywhere.configs] == [
        ("log.retention.bytes", "10", 3)
    ]
    here = (await describe(node, BROKER, "1", "num.partitions")).configs[0]
    assert (here.value, here.read_only, here.config_source) == ("4", True, 4)


async def test_groups_and_subscriptions_have_defaults_before_anybody_sets_them(node: FakeNode) -> None:
    assert len((await describe(node, GROUP, "readers")).configs) == 17
    assert len((await describe(node, CLIENT_METRICS, "m")).configs) == 3


async def test_the_level_of_a_logger_changes_in_this_process(node: FakeNode) -> None:
    logger = logging.getLogger("penstock.test.handlers")
    try:
        assert (await alter(node, BROKER_LOGGER, "1", (logger.name, SET, "ERROR"), rehearse=True)).error_code == 0
        assert logger.level == logging.NOTSET
        assert (await alter(node, BROKER_LOGGER, "1", (logger.name, SET, "ERROR"))).error_code == 0
        option = (await describe(node, BROKER_LOGGER, "1", logger.name)).configs[0]
        assert (option.value, option.config_source, option.config_type) == ("ERROR", 6, 0)
    finally:
        logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("7", ("root", SET, "INFO"), 42, "Unexpected node id. Expected 1, but received 7"),
        ("", ("root", SET, "INFO"), 42, "Node id must be an integer, but it is: "),
        ("1", ("root", APPEND, "INFO"), 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ("1", ("root", DELETE, None), 42, "Removing the log level of the root logger is not allowed"),
        ("1", ("root", SET, None), 42, "Null value not supported for : root"),
        ("1", ("nope", SET, "INFO"), 40, "Logger nope does not exist!"),
    ],
)
async def test_a_bad_change_of_loggers_is_refused(
    node: FakeNode, name: str, change: tuple[str, int, str | None], code: int, message: str
) -> None:
    result = await alter(node, BROKER_LOGGER, name, change)
    assert (result.error_code, result.error_message) == (code, message)


async def test_the_older_request_replaces_everything(node: FakeNode) -> None:
    await alter(node, TOPIC, "orders", ("retention.ms", SET, "77"))
    body = legacy.AlterConfigsRequest(
        resources=(
            legacy.AlterConfigsResource(
                resource_type=int8(TOPIC),
                resource_name="orders",
                configs=(legacy.AlterableConfig(name="flush.mode", value="os"),),
            ),
        ),
        validate_only=False,
    )
    reply = await node.ask(alter_configs.handle, ApiKey.ALTER_CONFIGS, body)
    assert [(result.error_code, result.resource_name) for result in reply.responses] == [(0, "orders")]
    option = (await describe(node, TOPIC, "orders", "retention.ms")).configs[0]
    assert option.config_source == 5
    assert (await describe(node, TOPIC, "orders", "flush.mode")).configs[0].value == "os"


async def list_resources(node: FakeNode, *kinds: int, version: int = 1) -> Any:
    body = ListConfigResourcesRequest(resource_types=tuple(map(int8, kinds)))
    return await node.ask(list_config_resources.handle, ApiKey.LIST_CONFIG_RESOURCES, body, version=version)


async def test_what_can_be_configured_is_listed(node: FakeNode) -> None:
    await alter(node, GROUP, "readers", ("consumer.session.timeout.ms", SET, "50000"))
    await alter(node, CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))
    reply = await list_resources(node)
    assert [(found.resource_type, found.resource_name) for found in reply.config_resources] == [
        (GROUP, "readers"),
        (CLIENT_METRICS, "m"),
        (BROKER_LOGGER, "1"),
        (BROKER, "1"),
        (TOPIC, "orders"),
    ]
    only_topics = await list_resources(node, TOPIC)
    assert [found.resource_name for found in only_topics.config_resources] == ["orders"]


async def test_the_first_version_knows_subscriptions_alone(node: FakeNode) -> None:
    await alter(node, CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))
    reply = await list_resources(node, version=0)
    assert [found.resource_name for found in reply.config_resources] == ["m"]


async def test_an_unknown_kind_is_refused(node: FakeNode) -> None:
    assert (await list_resources(node, 1)).error_code == 35
