"""ShareGroupHeartbeat through its handler."""

from typing import Any
from uuid import UUID

from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.share.commands import ShareGroupHeartbeat, ShareGroupHeartbeatReply
from penstock.handlers import share_group_heartbeat
from penstock.metadata.records import FeatureLevelRecord
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode

TOPIC_ID = UUID(int=5)
NOT_COORDINATOR, UNSUPPORTED_VERSION = 16, 35


def request(epoch: int = 0, names: tuple[str, ...] | None = ("jobs",)) -> Any:
    return ShareGroupHeartbeatRequest(
        group_id="g",  # type: ignore[arg-type]
        member_id="m",
        member_epoch=epoch,  # type: ignore[arg-type]
        rack_id=None,
        subscribed_topic_names=names,  # type: ignore[arg-type]
    )


async def ask(node: FakeNode, body: Any) -> Any:
    return await node.ask(share_group_heartbeat.handle, ApiKey.SHARE_GROUP_HEARTBEAT, body)


async def test_a_member_gets_its_epoch_and_assignment() -> None:
    node = FakeNode()
    node.groups.replies[ShareGroupHeartbeat] = ShareGroupHeartbeatReply(
        member_id="m", member_epoch=3, heartbeat_interval_ms=5_000, assignment={TOPIC_ID: frozenset({1, 0})}
    )
    reply = await ask(node, request())
    assert (reply.error_code, reply.member_id, reply.member_epoch) == (0, "m", 3)
    (topic,) = reply.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (TOPIC_ID, (0, 1))
    (command,) = node.groups.commands
    assert (command.subscribed_topic_names, command.client_host) == (("jobs",), "/10.1.2.3")


async def test_an_unchanged_assignment_is_null() -> None:
    node = FakeNode()
    node.groups.replies[ShareGroupHeartbeat] = ShareGroupHeartbeatReply(member_id="m", member_epoch=3)
    assert (await ask(node, request(3, None))).assignment is None


async def test_a_join_waits_for_the_state_of_its_partitions() -> None:
    node = FakeNode()
    node.groups.replies[ShareGroupHeartbeat] = ShareGroupHeartbeatReply(
        member_id="m", member_epoch=2, assignment={}, is_initializing=True
    )
    await ask(node, request())
    assert [command.member_epoch for command in node.groups.commands] == [0, 2]
    await ask(node, request(2, None))
    assert len(node.groups.commands) == 3, "later heartbeats do not wait"


async def test_the_coordinators_error_is_returned() -> None:
    node = FakeNode()
    node.groups.replies[ShareGroupHeartbeat] = NotCoordinator()
    assert (await ask(node, request())).error_code == NOT_COORDINATOR


async def test_the_feature_must_be_enabled() -> None:
    node = FakeNode()
    node.quorum.put([FeatureLevelRecord(name="share.version", feature_level=0)])
    assert (await ask(node, request())).error_code == UNSUPPORTED_VERSION
