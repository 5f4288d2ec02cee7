"""ConsumerGroupHeartbeat through its handler."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.consumer.commands import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
)
from penstock.handlers import (
    consumer_group_heartbeat,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ORDERS_ID, node_with_orders

NOT_COORDINATOR, UNSUPPORTED_VERSION = 16, 35


def beat(**changes: Any) -> ConsumerGroupHeartbeatRequest:
    wanted: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": 3, "topic_partitions": None, **changes}
    return ConsumerGroupHeartbeatRequest(**wanted)


async def test_a_heartbeat_returns_an_assignment_or_none() -> None:
    world = node_with_orders()
    world.groups.replies[ConsumerGroupHeartbeat] = ConsumerGroupHeartbeatReply(
        member_id="m", member_epoch=4, heartbeat_interval_ms=5000, assignment={ORDERS_ID: frozenset({1, 0})}
    )
    owned = (TopicPartitions(topic_id=ORDERS_ID, partitions=(0,)),)  # type: ignore[arg-type]
    reply = await world.ask(
        consumer_group_heartbeat.handle, ApiKey.CONSUMER_GROUP_HEARTBEAT, beat(topic_partitions=owned)
    )
    assert (reply.member_epoch, reply.heartbeat_interval.total_seconds()) == (4, 5)
    assert [(each.topic_id, each.partitions) for each in reply.assignment.topic_partitions] == [(ORDERS_ID, (0, 1))]
    assert world.groups.commands[0].topic_partitions == {ORDERS_ID: frozenset({0})}
    world.groups.replies[ConsumerGroupHeartbeat] = ConsumerGroupHeartbeatReply(member_id="m", member_epoch=4)
    reply = await world.ask(consumer_group_heartbeat.handle, ApiKey.CONSUMER_GROUP_HEARTBEAT, beat())
    assert reply.assignment is None and world.groups.commands[1].topic_partitions is None


async def test_the_consumer_protocol_can_be_disabled() -> None:
    world = node_with_orders()
    world.groups.serves_consumer_protocol = False
    reply = await world.ask(consumer_group_heartbeat.handle, ApiKey.CONSUMER_GROUP_HEARTBEAT, beat())
    assert reply.error_code == UNSUPPORTED_VERSION
    assert not world.groups.commands


@pytest.mark.parametrize(("member_id", "is_fresh"), [("", True), ("m", False)])
async def test_only_a_member_without_an_id_gets_one(member_id: str, is_fresh: bool) -> None:
    world = node_with_orders()
    world.groups.replies[ConsumerGroupHeartbeat] = ConsumerGroupHeartbeatReply(member_id="m", member_epoch=1)
    body = beat(member_id=member_id, member_epoch=0)
    await world.ask(consumer_group_heartbeat.handle, ApiKey.CONSUMER_GROUP_HEARTBEAT, body, version=0)
    (command,) = world.groups.commands
    assert (command.fresh_id != UUID(int=0)) is is_fresh
    assert (command.client_id, command.client_host, command.version) == ("test", "/10.1.2.3", 0)


async def test_an_error_is_returned_with_its_message() -> None:
    world = node_with_orders()
    world.groups.replies[ConsumerGroupHeartbeat] = NotCoordinator()
    reply = await world.ask(consumer_group_heartbeat.handle, ApiKey.CONSUMER_GROUP_HEARTBEAT, beat())
    assert (reply.error_code, reply.error_message) == (NOT_COORDINATOR, NotCoordinator().message)
    assert (reply.member_id, reply.member_epoch, reply.assignment) == (None, 0, None)
