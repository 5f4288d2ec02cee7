"""ControllerRegistration through its handler."""

from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.handlers import controller_registration
from penstock.model.ids import NodeId
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import body_of

KEY = ApiKey.CONTROLLER_REGISTRATION


async def register(node: FakeNode) -> Any:
    body = body_of(
        KEY,
        0,
        controller_id=3,
        incarnation_id=UUID(int=5),
        zk_migration_ready=False,
        listeners=[{"name": "CONTROLLER", "host": "h3", "port": 9093, "security_protocol": 0}],
        features=[{"name": "kraft.version", "min_supported_version": 0, "max_supported_version": 1}],
    )
    return await node.ask(controller_registration.handle, KEY, body)


async def test_a_controller_is_registered_with_its_listeners_and_features(node: FakeNode) -> None:
    assert (await register(node)).error_code == ErrorCode.none
    found = node.image.controllers[NodeId(3)]
    assert found.incarnation_id == UUID(int=5)
    assert [(each.name, each.host, each.port) for each in found.end_points] == [("CONTROLLER", "h3", 9093)]
    assert [(each.name, each.max_supported_version) for each in found.features] == [("kraft.version", 1)]


async def test_only_the_active_controller_registers(node: FakeNode) -> None:
    node.quorum.is_active = False
    assert (await register(node)).error_code == ErrorCode.not_controller
    assert not node.image.controllers
