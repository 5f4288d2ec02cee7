"""DescribeConfigs through its handler."""

import pytest

from penstock.handlers import describe_configs
from penstock.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SET, alter_config, describe_config, node_with_orders


async def test_every_option_of_a_topic_is_described(node: FakeNode) -> None:
    result = await describe_config(node, TOPIC, "orders")
    assert result.error_code == 0
    assert len(result.configs) == 34
    option = next(option for option in result.configs if option.name == "retention.bytes")
    assert (option.value, option.config_source, option.config_type, option.read_only) == ("-1", 5, 5, False)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in option.synonyms] == [
        ("log.retention.bytes", "-1", 5)
    ]
    assert option.documentation is None


@pytest.fixture
def node() -> FakeNode:
    return node_with_orders({"num.partitions": "4"})


async def test_docs_and_synonyms_are_sent_on_request(node: FakeNode) -> None:
    config = (await describe_config(node, TOPIC, "orders", "retention.ms", synonyms=False, doc=True)).configs[0]
    assert config.synonyms == ()
    assert config.documentation


async def test_the_oldest_version_is_answered_too(node: FakeNode) -> None:
    result = await describe_config(node, TOPIC, "orders", "retention.ms", version=1)
    assert [(option.name, option.value) for option in result.configs] == [("retention.ms", "604800000")]


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nope", 3, ""),
        (TOPIC, "", 17, "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "7", 42, "Unexpected broker id, expected 1 or empty string, but received 7"),
        (BROKER, "abc", 42, "Broker id must be an integer, but it is: abc"),
        (BROKER, "2147483648", 42, "Broker id must be an integer, but it is: 2147483648"),
        (BROKER_LOGGER, "7", 42, "Unexpected broker id, expected 1 but received 7"),
        (BROKER_LOGGER, "", 42, "Broker id must not be empty"),
        (CLIENT_METRICS, "", 42, "Client metrics subscription name must not be empty"),
        (GROUP, "", 42, "Group name must not be empty"),
        (9, "x", 42, describe_configs.UNKNOWN_TYPE),
    ],
)
async def test_an_invalid_resource_is_refused(node: FakeNode, kind: int, name: str, code: int, message: str) -> None:
    result = await describe_config(node, kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, message, ())
    assert (result.resource_type, result.resource_name) == (kind, name)


@pytest.mark.parametrize("kind", [BROKER, BROKER_LOGGER])
async def test_a_broker_id_with_more_digits_than_python_converts_is_refused(node: FakeNode, kind: int) -> None:
    name = "1" * 5000
    described = await describe_config(node, kind, name)
    altered = await alter_config(node, kind, name, ("root", SET, "INFO"))
    for result in (described, altered):
        assert result.error_code == 42
        assert "must be an integer" in str(result.error_message)


async def test_this_broker_and_the_cluster_wide_defaults_are_described_separately(node: FakeNode) -> None:
    await alter_config(node, BROKER, "", ("log.retention.bytes", SET, "10"))
    everywhere = await describe_config(node, BROKER, "")
    assert [(option.name, option.value, option.config_source) for option in everywhere.configs] == [
        ("log.retention.bytes", "10", 3)
    ]
    here = (await describe_config(node, BROKER, "1", "num.partitions")).configs[0]
    assert (here.value, here.read_only, here.config_source) == ("4", True, 4)


async def test_groups_and_subscriptions_without_settings_have_defaults(node: FakeNode) -> None:
    assert len((await describe_config(node, GROUP, "readers")).configs) == 23
    assert len((await describe_config(node, CLIENT_METRICS, "m")).configs) == 3
