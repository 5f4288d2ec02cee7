"""ConsumerGroupDescribe through its handler."""

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.consumer.commands import (
    ConsumerGroupDescribe,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedPartitions,
)
from penstock.handlers import (
    consumer_group_describe,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ORDERS_ID, node_with_orders

NOT_COORDINATOR, UNSUPPORTED_VERSION = 16, 35


async def test_a_group_of_the_consumer_protocol_is_described() -> None:
    world = node_with_orders()
    owned = (DescribedPartitions(topic_id=ORDERS_ID, topic_name="orders", partitions=(0,)),)
    member = DescribedConsumerMember(
        member_id="m",
        instance_id=None,
        rack_id="r",
        member_epoch=3,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("orders",),
        subscribed_topic_regex="",
        assignment=owned,
        target_assignment=(),
        member_type=1,
    )
    world.groups.replies[ConsumerGroupDescribe] = (
        DescribedConsumerGroup(group_id="g", group_state="Stable", group_epoch=3, members=(member,)),
    )
    body = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=True)  # type: ignore[arg-type]
    (group,) = (await world.ask(consumer_group_describe.handle, ApiKey.CONSUMER_GROUP_DESCRIBE, body)).groups
    assert (group.group_state, group.group_epoch, group.authorized_operations) == ("Stable", 3, 3400)
    (member,) = group.members
    assert (member.subscribed_topic_regex, member.member_type, member.rack_id) == ("", 1, "r")
    assert member.assignment.topic_partitions[0].topic_name == "orders"


async def test_each_group_is_refused_while_the_consumer_protocol_is_disabled() -> None:
    world = node_with_orders()
    world.groups.serves_consumer_protocol = False
    body = ConsumerGroupDescribeRequest(group_ids=("g", "h"), include_authorized_operations=True)  # type: ignore[arg-type]
    reply = await world.ask(consumer_group_describe.handle, ApiKey.CONSUMER_GROUP_DESCRIBE, body)
    assert [(each.group_id, each.error_code, each.authorized_operations) for each in reply.groups] == [
        ("g", UNSUPPORTED_VERSION, -(2**31)),
        ("h", UNSUPPORTED_VERSION, -(2**31)),
    ]


async def test_the_coordinators_error_is_returned_for_its_group() -> None:
    world = node_with_orders()
    world.groups.replies[ConsumerGroupDescribe] = NotCoordinator()
    body = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)  # type: ignore[arg-type]
    (group,) = (await world.ask(consumer_group_describe.handle, ApiKey.CONSUMER_GROUP_DESCRIBE, body)).groups
    assert (group.group_id, group.error_code, group.members) == ("g", NOT_COORDINATOR, ())
