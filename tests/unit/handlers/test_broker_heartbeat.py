"""BrokerHeartbeat through its handler."""

from typing import Any

import pytest
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.errors import ErrorCode

from penstock.handlers import broker_heartbeat, broker_registration
from penstock.model.ids import NodeId
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import directory, node_ids
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import only_partition, registration


async def beat(node: FakeNode, node_id: int, *, version: int = 2, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "broker_id": node_id,
        "broker_epoch": node.image.brokers[NodeId(node_id)].epoch,
        "current_metadata_offset": node.image.offset,
        "want_fence": False,
        "want_shut_down": False,
    }
    body = BrokerHeartbeatRequest(**(fields | changes))
    return await node.ask(broker_heartbeat.handle, ApiKey.BROKER_HEARTBEAT, body, version=version)


@pytest.mark.parametrize("version", range(3))
async def test_a_broker_that_has_caught_up_is_unfenced(node: FakeNode, version: int) -> None:
    await node.ask(broker_registration.handle, ApiKey.BROKER_REGISTRATION, registration(4))
    behind = await beat(node, 4, version=version, current_metadata_offset=0)
    assert (behind.error_code, behind.is_fenced, behind.is_caught_up) == (ErrorCode.none, True, False)
    reply = await beat(node, 4, version=version)
    assert (reply.error_code, reply.is_fenced, reply.is_caught_up) == (ErrorCode.none, False, True)
    assert not node.image.brokers[NodeId(4)].fenced


async def test_a_broker_may_ask_to_be_fenced_or_to_shut_down(node: FakeNode) -> None:
    reply = await beat(node, 2, want_fence=True)
    assert (reply.is_fenced, reply.should_shut_down) == (True, False)
    assert node.image.brokers[NodeId(2)].fenced
    reply = await beat(node, 1, want_shut_down=True)
    assert reply.error_code == ErrorCode.none
    assert only_partition(node).leader == 3
    assert node.image.brokers[NodeId(1)].in_controlled_shutdown


async def test_an_offline_directory_takes_its_replicas_out_of_the_isr(node: FakeNode) -> None:
    await beat(node, 1, offline_log_dirs=(directory(1),))
    assert (only_partition(node).leader, only_partition(node).isr) == (2, node_ids(2, 3))


async def test_a_stale_broker_is_refused(node: FakeNode) -> None:
    reply = await beat(node, 2, broker_epoch=0)
    assert (reply.error_code, reply.is_fenced) == (ErrorCode.stale_broker_epoch, True)


async def test_only_the_active_controller_answers(node: FakeNode) -> None:
    node.quorum.is_active = False
    assert (await beat(node, 2)).error_code == ErrorCode.not_controller
