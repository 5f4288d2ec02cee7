"""ShareGroupDescribe through its handler."""

from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.consumer.commands import DescribedPartitions
from penstock.groups.share.commands import DescribedShareGroup, DescribedShareMember, ShareGroupDescribe
from penstock.handlers import share_group_describe
from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ORDERS_ID, node_with_orders

NOT_COORDINATOR = 16
BODY = ShareGroupDescribeRequest(group_ids=("g",), include_authorized_operations=True)  # type: ignore[arg-type]


async def test_a_group_is_described() -> None:
    node = node_with_orders()
    member = DescribedShareMember(
        member_id="m",
        rack_id=None,
        member_epoch=3,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("orders",),
        assignment=(DescribedPartitions(topic_id=ORDERS_ID, topic_name="orders", partitions=(0, 1)),),
    )
    node.groups.replies[ShareGroupDescribe] = (
        DescribedShareGroup(group_id="g", group_state="Stable", assignor_name="simple", members=(member,)),
    )
    (group,) = (await node.ask(share_group_describe.handle, ApiKey.SHARE_GROUP_DESCRIBE, BODY)).groups
    assert (group.group_state, group.assignor_name, group.authorized_operations) == ("Stable", "simple", 3400)
    assert group.members[0].assignment.topic_partitions[0].partitions == (0, 1)


async def test_the_coordinators_error_is_returned_for_its_group() -> None:
    node = node_with_orders()
    node.groups.replies[ShareGroupDescribe] = NotCoordinator()
    (group,) = (await node.ask(share_group_describe.handle, ApiKey.SHARE_GROUP_DESCRIBE, BODY)).groups
    assert (group.error_code, group.authorized_operations) == (NOT_COORDINATOR, -(2**31))
