"""DescribeGroups through its handler."""

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.commands import (
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
)
from penstock.handlers import (
    describe_groups,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import node_with_orders

NOT_COORDINATOR = 16
GROUP_ID_NOT_FOUND = 69


async def test_groups_are_described_and_missing_ones_are_dead_or_not_found() -> None:
    world = node_with_orders()
    member = DescribedMember(
        member_id="m", instance_id=None, client_id="c", client_host="/h", metadata=b"s", assignment=b"a"
    )
    world.groups.replies[DescribeGroups] = (
        DescribedGroup(group_id="g", state="Stable", protocol_type="consumer", protocol="range", members=(member,)),
    )
    body = DescribeGroupsRequest(groups=("g",), include_authorized_operations=True)  # type: ignore[arg-type]
    (group,) = (await world.ask(describe_groups.handle, ApiKey.DESCRIBE_GROUPS, body)).groups
    assert (group.group_state, group.protocol_data, group.authorized_operations) == ("Stable", "range", 3400)
    assert [(each.client_host, each.member_assignment) for each in group.members] == [("/h", b"a")]
    world.groups.replies[DescribeGroups] = (
        DescribedGroup(error=GROUP_ID_NOT_FOUND, error_message="no", group_id="g", state="Dead"),
    )
    for version, error in ((6, GROUP_ID_NOT_FOUND), (5, 0)):
        (group,) = (await world.ask(describe_groups.handle, ApiKey.DESCRIBE_GROUPS, body, version=version)).groups
        assert (group.error_code, group.group_state) == (error, "Dead")
    world.groups.replies[DescribeGroups] = NotCoordinator()
    (group,) = (await world.ask(describe_groups.handle, ApiKey.DESCRIBE_GROUPS, body)).groups
    assert (group.error_code, group.authorized_operations) == (NOT_COORDINATOR, -(2**31))
