"""ListConfigResources through its handler."""

from typing import Any

import pytest
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

from penstock.handlers import list_config_resources
from penstock.handlers.support.entities import int8
from penstock.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SET, alter_config, node_with_orders


async def list_resources(node: FakeNode, *kinds: int, version: int = 1) -> Any:
    body = ListConfigResourcesRequest(resource_types=tuple(map(int8, kinds)))
    return await node.ask(list_config_resources.handle, ApiKey.LIST_CONFIG_RESOURCES, body, version=version)


@pytest.fixture
def node() -> FakeNode:
    return node_with_orders({"num.partitions": "4"})


async def test_configurable_resources_are_listed(node: FakeNode) -> None:
    await alter_config(node, GROUP, "readers", ("consumer.session.timeout.ms", SET, "50000"))
    await alter_config(node, CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))
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


async def test_version_0_lists_only_subscriptions(node: FakeNode) -> None:
    await alter_config(node, CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))
    reply = await list_resources(node, version=0)
    assert [found.resource_name for found in reply.config_resources] == ["m"]


async def test_an_unknown_type_is_refused(node: FakeNode) -> None:
    assert (await list_resources(node, 1)).error_code == 35
