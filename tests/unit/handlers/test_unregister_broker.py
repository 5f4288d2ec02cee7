"""UnregisterBroker through its handler."""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from penstock.handlers import unregister_broker
from penstock.model.ids import NodeId
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import node_ids
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import only_partition


async def unregister(node: FakeNode, node_id: int) -> Any:
    body = UnregisterBrokerRequest(broker_id=node_id)  # type: ignore[arg-type]
    return await node.ask(unregister_broker.handle, ApiKey.UNREGISTER_BROKER, body)


async def test_a_broker_that_is_unregistered_leaves_the_isr_and_stops_leading(node: FakeNode) -> None:
    reply = await unregister(node, 1)
    assert (reply.error_code, reply.error_message) == (ErrorCode.none, None)
    assert NodeId(1) not in node.image.brokers
    assert (only_partition(node).leader, only_partition(node).isr) == (2, node_ids(2, 3))


async def test_an_unknown_broker_is_refused(node: FakeNode) -> None:
    reply = await unregister(node, 9)
    assert (reply.error_code, reply.error_message) == (
        ErrorCode.broker_id_not_registered,
        "Broker ID 9 is not currently registered",
    )


async def test_only_the_active_controller_unregisters(node: FakeNode) -> None:
    node.quorum.is_active = False
    assert (await unregister(node, 2)).error_code == ErrorCode.not_controller
    assert NodeId(2) in node.image.brokers
