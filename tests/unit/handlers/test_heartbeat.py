"""Heartbeat through its handler."""

from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.errors import CoordinatorLoadInProgress, NotCoordinator
from penstock.groups.commands import (
    Heartbeat,
    HeartbeatReply,
)
from penstock.groups.records import OffsetCommitValue
from penstock.handlers import (
    heartbeat,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ORDERS_ID, body_of, node_with_orders

NOT_COORDINATOR = 16


def value(offset: int, topic_id: UUID = ORDERS_ID) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=offset, leader_epoch=2, metadata="n", commit_timestamp=1, expire_timestamp=-1, topic_id=topic_id
    )


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(
    ("group_reply", "error"),
    [
        (HeartbeatReply(0), 0),
        (HeartbeatReply(27), 27),
        (NotCoordinator(), NOT_COORDINATOR),
        # No session times out while the group is loaded.
        (CoordinatorLoadInProgress(), 0),
    ],
)
async def test_a_heartbeat_is_answered(version: int, group_reply: Any, error: int) -> None:
    world = node_with_orders()
    world.groups.replies[Heartbeat] = group_reply
    body = body_of(ApiKey.HEARTBEAT, version, group_id="g", generation_id=4, member_id="m")
    reply = await world.ask(heartbeat.handle, ApiKey.HEARTBEAT, body, version=version)
    assert reply.error_code == error
    assert world.groups.commands == [Heartbeat(group_id="g", generation=4, member_id="m")]
