"""LeaveGroup through its handler."""

from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.commands import (
    LeaveGroup,
    LeaveReply,
)
from penstock.handlers import (
    leave_group,
)
from penstock.wire.api import ApiKey
from penstock.wire.codec import request_class
from tests.unit.handlers.requests import node_with_orders

NOT_COORDINATOR = 16
UNKNOWN_MEMBER_ID = 25


async def test_a_leave_response_has_one_error_or_one_per_member() -> None:
    world = node_with_orders()
    world.groups.replies[LeaveGroup] = LeaveReply(errors=(UNKNOWN_MEMBER_ID,))
    old = request_class(ApiKey.LEAVE_GROUP, 2)(group_id="g", member_id="m")
    reply = await world.ask(leave_group.handle, ApiKey.LEAVE_GROUP, old, version=2)
    assert reply.error_code == UNKNOWN_MEMBER_ID
    world.groups.replies[LeaveGroup] = LeaveReply(errors=(0, UNKNOWN_MEMBER_ID))
    members = (MemberIdentity(member_id="m"), MemberIdentity(member_id="", group_instance_id="i"))
    body = LeaveGroupRequest(group_id="g", members=members)  # type: ignore[arg-type]
    reply = await world.ask(leave_group.handle, ApiKey.LEAVE_GROUP, body)
    assert reply.error_code == 0
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in reply.members] == [
        ("m", None, 0),
        ("", "i", UNKNOWN_MEMBER_ID),
    ]
    for version in (2, 5):
        world.groups.replies[LeaveGroup] = NotCoordinator()
        reply = await world.ask(leave_group.handle, ApiKey.LEAVE_GROUP, old if version == 2 else body, version=version)
        assert (reply.error_code, reply.members) == (NOT_COORDINATOR, ())
