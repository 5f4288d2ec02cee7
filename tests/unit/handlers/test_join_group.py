"""JoinGroup through its handler."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.commands import (
    JoinedMember,
    JoinGroup,
    JoinReply,
)
from penstock.groups.records import OffsetCommitValue
from penstock.handlers import (
    join_group,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import ORDERS_ID, body_of, node_with_orders

NOT_COORDINATOR = 16


async def join(world: FakeNode, version: int) -> Any:
    body = body_of(
        ApiKey.JOIN_GROUP,
        version,
        group_id="g",
        rebalance_timeout=timedelta(seconds=9),
        protocols=[{"name": "range", "metadata": b"s"}],
    )
    return await world.ask(join_group.handle, ApiKey.JOIN_GROUP, body, version=version)


def value(offset: int, topic_id: UUID = ORDERS_ID) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=offset, leader_epoch=2, metadata="n", commit_timestamp=1, expire_timestamp=-1, topic_id=topic_id
    )


@pytest.mark.parametrize("version", range(10))
async def test_a_join_response_has_the_fields_of_its_version(version: int) -> None:
    world = node_with_orders()
    members = (JoinedMember(member_id="m", instance_id="i", metadata=b"s"),)
    world.groups.replies[JoinGroup] = JoinReply(
        member_id="m", generation=3, protocol_type="consumer", protocol_name="range", leader="m", members=members
    )
    reply = await join(world, version)
    assert (reply.error_code, reply.generation_id, reply.member_id, reply.leader) == (0, 3, "m", "m")
    assert (reply.protocol_name, reply.protocol_type) == ("range", "consumer" if version >= 7 else None)
    assert [each.metadata for each in reply.members] == [b"s"]
    (command,) = world.groups.commands
    assert (command.must_know_member_id, command.can_skip_assignment) == (version >= 4, version >= 9)
    assert (command.client_id, command.client_host) == ("test", "/10.1.2.3")
    assert command.rebalance_timeout_ms == (-1 if version == 0 else 9000)


@pytest.mark.parametrize("version", [0, 6, 7, 9])
async def test_a_refused_join_has_no_protocol_name(version: int) -> None:
    world = node_with_orders()
    world.groups.replies[JoinGroup] = NotCoordinator()
    reply = await join(world, version)
    assert (reply.error_code, reply.generation_id) == (NOT_COORDINATOR, -1)
    assert reply.protocol_name == (None if version >= 7 else "")
