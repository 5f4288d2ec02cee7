"""SyncGroup through its handler."""

from kio.schema.sync_group.v5.request import SyncGroupRequest

from penstock.coordinator.errors import CoordinatorLoadInProgress
from penstock.groups.commands import (
    SyncGroup,
    SyncReply,
)
from penstock.handlers import (
    sync_group,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import node_with_orders

INCONSISTENT_GROUP_PROTOCOL = 23


async def test_a_sync_must_name_its_protocol_from_version_five_on() -> None:
    world = node_with_orders()
    world.groups.replies[SyncGroup] = SyncReply(assignment=b"a")
    body = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=())  # type: ignore[arg-type]
    reply = await world.ask(sync_group.handle, ApiKey.SYNC_GROUP, body)
    assert reply.error_code == INCONSISTENT_GROUP_PROTOCOL and not world.groups.commands
    reply = await world.ask(sync_group.handle, ApiKey.SYNC_GROUP, body, version=4)
    assert (reply.error_code, reply.assignment) == (0, b"a")
    world.groups.replies[SyncGroup] = CoordinatorLoadInProgress()
    reply = await world.ask(sync_group.handle, ApiKey.SYNC_GROUP, body, version=4)
    assert reply.error_code == CoordinatorLoadInProgress.code
