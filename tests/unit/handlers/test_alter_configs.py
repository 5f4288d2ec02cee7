"""AlterConfigs through its handler."""

import pytest

from penstock.handlers import alter_configs
from penstock.metadata.image import BROKER, TOPIC
from penstock.model.errors import StorageError
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SET, alter_config, body_of, describe_config, node_with_orders


@pytest.fixture
def node() -> FakeNode:
    return node_with_orders({"num.partitions": "4"})


async def alter_all(
    node: FakeNode, *resources: tuple[int, str, dict[str, str | None]], version: int = 2, validate_only: bool = False
) -> list[tuple[int, str | None, int, str]]:
    listed = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": key, "value": value} for key, value in values.items()],
        }
        for kind, name, values in resources
    ]
    body = body_of(ApiKey.ALTER_CONFIGS, version, resources=listed, validate_only=validate_only)
    reply = await node.ask(alter_configs.handle, ApiKey.ALTER_CONFIGS, body, version=version)
    return [(each.error_code, each.error_message, each.resource_type, each.resource_name) for each in reply.responses]


@pytest.mark.parametrize("version", range(3))
async def test_the_settings_of_a_resource_are_replaced(node: FakeNode, version: int) -> None:
    await alter_config(node, TOPIC, "orders", ("retention.ms", SET, "77"))
    assert await alter_all(node, (TOPIC, "orders", {"flush.mode": "os"}), version=version) == [
        (0, None, TOPIC, "orders")
    ]
    option = (await describe_config(node, TOPIC, "orders", "retention.ms")).configs[0]
    assert option.config_source == 5
    assert (await describe_config(node, TOPIC, "orders", "flush.mode")).configs[0].value == "os"


async def test_each_resource_succeeds_or_fails_separately(node: FakeNode) -> None:
    found = await alter_all(
        node,
        (TOPIC, "orders", {"retention.ms": "5"}),
        (TOPIC, "nope", {"retention.ms": "5"}),
        (BROKER, "1", {"log.retention.bytes": "abc"}),
    )
    assert [(code, kind, name) for code, _, kind, name in found] == [
        (0, TOPIC, "orders"),
        (3, TOPIC, "nope"),
        (42, BROKER, "1"),
    ]
    assert (await describe_config(node, TOPIC, "orders", "retention.ms")).configs[0].value == "5"


async def test_validate_only_changes_nothing(node: FakeNode) -> None:
    before = node.image
    ((code, *_),) = await alter_all(node, (TOPIC, "orders", {"retention.ms": "5"}), validate_only=True)
    assert code == 0
    assert node.image is before


async def test_a_controller_that_cannot_commit_refuses_every_resource(node: FakeNode) -> None:
    node.quorum.refusal = StorageError()
    found = await alter_all(node, (TOPIC, "orders", {"retention.ms": "5"}), (BROKER, "", {}))
    assert [(code, kind, name) for code, _, kind, name in found] == [(56, TOPIC, "orders"), (56, BROKER, "")]
    node.quorum.is_active = False
    ((code, *_),) = await alter_all(node, (TOPIC, "orders", {}))
    assert code == 41
