"""BrokerRegistration through its handler."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from penstock.handlers import broker_registration
from penstock.model.ids import NodeId
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import directory
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import registration


async def register(node: FakeNode, node_id: int, *, version: int = 4, **changes: Any) -> tuple[ErrorCode, int]:
    body = registration(node_id, **changes)
    reply = await node.ask(broker_registration.handle, ApiKey.BROKER_REGISTRATION, body, version=version)
    return reply.error_code, reply.broker_epoch


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_a_new_broker_is_registered_and_fenced(node: FakeNode, version: int) -> None:
    error, epoch = await register(node, 4, version=version)
    broker = node.image.brokers[NodeId(4)]
    assert (error, broker.epoch, broker.fenced, broker.rack) == (ErrorCode.none, epoch, True, "r")
    assert broker.incarnation_id == UUID(int=77)
    assert [(each.name, each.host, each.port) for each in broker.end_points] == [("PLAINTEXT", "h", 9092)]
    assert broker.log_dirs == (directory(4),)


async def test_a_process_that_registers_again_keeps_its_epoch_and_a_new_process_gets_another(node: FakeNode) -> None:
    _, first = await register(node, 4)
    assert await register(node, 4) == (ErrorCode.none, first)
    node.quorum.put([])
    error, second = await register(node, 4, incarnation_id=UUID(int=78))
    assert error == ErrorCode.none
    assert second > first


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other"}, ErrorCode.inconsistent_cluster_id),
        ({"log_dirs": ()}, ErrorCode.invalid_registration),
        ({"version": 1}, ErrorCode.invalid_registration),  # names no directories
        ({"features": ()}, ErrorCode.unsupported_version),
    ],
)
async def test_an_invalid_registration_gets_no_epoch(node: FakeNode, changes: dict[str, Any], error: ErrorCode) -> None:
    assert await register(node, 4, **changes) == (error, -1)
    assert NodeId(4) not in node.image.brokers


async def test_only_the_active_controller_registers(node: FakeNode) -> None:
    node.quorum.is_active = False
    assert await register(node, 4) == (ErrorCode.not_controller, -1)
