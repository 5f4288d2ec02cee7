"""Share groups of a node: their partitions' state is initialized through the share coordinator."""

import asyncio

import pytest

from penstock.groups import service as module
from penstock.groups.commands import DeleteGroups, ForgetTopics
from penstock.groups.consumer.assignors import NOTHING, Assignment
from penstock.groups.consumer.commands import ConsumerGroupHeartbeat
from penstock.groups.service import Groups
from penstock.groups.share.commands import (
    STATE_EXISTS,
    InitializeShareState,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatReply,
)
from penstock.metadata.image import GROUP
from penstock.metadata.records import ConfigRecord, PartitionChangeRecord, RemoveTopicRecord
from penstock.model.errors import NotEnoughReplicas
from tests.unit.coordinator.node import ME, OTHER, turns
from tests.unit.coordinator.node import topic as created
from tests.unit.groups.test_service import OFFSETS_ID, ORDERS_ID, GroupsNode

BOTH = {ORDERS_ID: frozenset({0, 1})}


class ShareNode(GroupsNode):
    """A node whose share coordinator answers when the test lets it."""

    def __init__(self) -> None:
        self.requested: list[InitializeShareState] = []
        self.allowed = asyncio.Event()
        self.initialized: Assignment | None = None
        super().__init__()

    def make(self) -> Groups:
        return Groups(
            node_id=ME,
            replicas=self.replicas,  # type: ignore[arg-type]
            clock=self.clock,
            current_settings=lambda: self.settings,
            initialize_share_state=self._initialize,
        )

    async def _initialize(self, action: InitializeShareState) -> Assignment:
        self.requested.append(action)
        await self.allowed.wait()
        return action.partitions if self.initialized is None else self.initialized

    async def beat(self, epoch: int = 0, group_id: str = "a") -> ShareGroupHeartbeatReply:
        reply = await self.groups.ask(
            group_id,
            ShareGroupHeartbeat(
                group_id=group_id, member_id="m", member_epoch=epoch, subscribed_topic_names=("orders",)
            ),
        )
        assert isinstance(reply, ShareGroupHeartbeatReply)
        return reply


async def share_node() -> ShareNode:
    node = ShareNode()
    await node.lead()
    node.commit(*created("orders", ORDERS_ID, ME, ME))
    return node


async def test_a_member_gets_its_partitions_when_their_state_is_initialized() -> None:
    node = await share_node()
    first = await node.beat()
    await turns()
    assert [(each.group_id, each.partitions) for each in node.requested] == [("a", BOTH)]
    node.allowed.set()
    assert await node.groups.share_state_initialized("a", 10)
    await turns()
    node.clock.advance(2)
    assert (await node.beat(first.member_epoch)).assignment == BOTH
    assert await node.groups.share_state_initialized("a", 10), "nothing is left to wait for"
    node.groups.close()


async def test_waiting_for_the_state_ends_at_its_deadline() -> None:
    node = await share_node()
    await node.beat()
    waiting = asyncio.ensure_future(node.groups.share_state_initialized("a", 10))
    await turns()
    assert not waiting.done()
    assert await node.groups.share_state_initialized("b", 10), "another group does not wait for it"
    node.clock.advance(10)
    assert await waiting is False
    node.groups.close()


async def test_state_that_the_share_coordinator_could_not_initialize_is_requested_again() -> None:
    node = await share_node()
    node.initialized = NOTHING
    node.allowed.set()
    first = await node.beat()
    await turns()
    assert len(node.requested) == 1
    node.initialized = None
    node.clock.advance(31)
    await turns()
    assert len(node.requested) == 2
    node.clock.advance(2)
    assert (await node.beat(first.member_epoch)).assignment == BOTH
    node.groups.close()


async def test_a_result_that_cannot_be_recorded_is_requested_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    node = await share_node()
    await node.beat()
    await turns()
    submit, node.groups._shards.submit_to = node.groups._shards.submit_to, refuse  # type: ignore[assignment]
    node.allowed.set()
    await turns()
    assert "cannot record the initialized share partitions of group a" in caplog.text
    node.groups._shards.submit_to = submit  # type: ignore[method-assign]
    node.clock.advance(31)
    await turns()
    assert len(node.requested) == 2
    node.groups.close()


def refuse(index: int, command: object) -> None:
    raise NotEnoughReplicas


async def test_a_node_that_loses_the_partition_abandons_only_its_initializations() -> None:
    node = await share_node()
    await node.beat(group_id="a")
    await node.beat(group_id="b")
    await turns()
    assert sorted(group for _, group in node.groups._initializations.values()) == ["a", "b"]
    node.commit(PartitionChangeRecord(partition_id=1, topic_id=OFFSETS_ID, leader=OTHER))
    await turns()
    assert [group for _, group in node.groups._initializations.values()] == ["b"]
    node.groups.close()
    await turns()
    assert not node.groups._initializations


async def test_state_of_a_topic_deleted_without_a_leader_is_forgotten_after_the_load() -> None:
    node = await share_node()
    node.allowed.set()
    await node.beat()
    await turns()
    leaving = ShareGroupHeartbeat(group_id="a", member_id="m", member_epoch=-1)
    assert (await node.groups.ask("a", leaving)).error == 0
    assert await node.groups.ask("a", DeleteGroups(("a",))) == (STATE_EXISTS,)
    node.groups.close()
    node.service = node.make()
    node.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
    await node.restart()
    assert await node.groups.ask("a", DeleteGroups(("a",))) == (0,)
    node.groups.close()


async def test_a_node_without_a_share_coordinator_initializes_nothing() -> None:
    node = GroupsNode()
    await node.lead()
    node.commit(*created("orders", ORDERS_ID, ME))
    beat = ShareGroupHeartbeat(group_id="a", member_id="m", member_epoch=0, subscribed_topic_names=("orders",))
    first = await node.groups.ask("a", beat)
    await turns()
    assert (first.is_initializing, first.assignment) == (True, {})
    assert await node.groups.share_state_initialized("a", 10)
    node.groups.close()


async def test_only_share_groups_are_counted_by_their_state() -> None:
    node = await share_node()
    await node.put("b")
    await node.beat()
    assert (node.groups.count, list(node.groups.share_states())) == (2, ["Stable"])
    node.groups.close()


async def test_changed_settings_of_a_share_group_apply_from_the_next_heartbeat_on() -> None:
    node = await share_node()
    first = await node.beat()
    assert first.heartbeat_interval_ms == 5_000
    name = "share.heartbeat.interval.ms"
    node.commit(ConfigRecord(resource_type=GROUP, resource_name="a", name=name, value="7000"))
    assert (await node.beat(first.member_epoch)).heartbeat_interval_ms == 7_000
    node.groups.close()


async def test_the_settings_of_few_groups_are_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SETTINGS_KEPT", 2)
    node = await share_node()
    for number in range(5):
        await node.beat(group_id=f"share{number}")
        beat = ConsumerGroupHeartbeat(
            group_id=f"consumer{number}",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=("orders",),
            topic_partitions={},
        )
        assert (await node.groups.ask(beat.group_id, beat)).error == 0
    assert len(node.groups._settings_of) <= 2 and len(node.groups._share_settings_of) <= 2
    node.groups.close()


async def test_offsets_that_cannot_be_deleted_with_their_topic_are_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = await share_node()
    await node.put("a")
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.set_exception(NotEnoughReplicas())
    commands: list[object] = []

    def submit(index: int, command: object) -> "asyncio.Future[None]":
        commands.append(command)
        return failed

    node.groups._shards.submit_to = submit  # type: ignore[method-assign]
    node.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
    await turns()
    assert commands == [ForgetTopics((("orders", ORDERS_ID),))] * 2
    assert "cannot delete the offsets of deleted topics" in caplog.text
    node.groups.close()
