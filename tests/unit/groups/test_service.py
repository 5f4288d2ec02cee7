"""The groups of a node follow changes of leaders, topics and settings in the metadata."""

from typing import Any
from uuid import UUID

import pytest

from penstock.config.settings import BrokerSettings
from penstock.coordinator.decision import InTransaction, TransactionEnd
from penstock.coordinator.errors import CoordinatorLoadInProgress, NotCoordinator
from penstock.coordinator.keys import java_hash, partition_of
from penstock.groups import service
from penstock.groups.commands import (
    JoinGroup,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    TxnOffsetCommit,
)
from penstock.groups.configured import consumer_settings, group_settings
from penstock.groups.consumer import target, update
from penstock.groups.consumer.commands import ConsumerGroupHeartbeat, MigrationPolicy
from penstock.groups.consumer.target import AssignTarget, TargetAssigned, assigning
from penstock.groups.consumer.topics import Topics
from penstock.groups.service import Groups
from penstock.metadata.delta import Delta
from penstock.metadata.image import BROKER, GROUP
from penstock.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
)
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId
from penstock.model.job import Job
from penstock.model.topic import CONSUMER_OFFSETS
from tests.unit.coordinator.node import ME, OTHER, CoordinatorNode, topic, turns

OFFSETS_ID, ORDERS_ID, NEW_ID = UUID(int=1), UUID(int=2), UUID(int=3)


class GroupsNode(CoordinatorNode[Groups]):
    def __init__(self, *, partition_count: int = 2) -> None:
        super().__init__(CONSUMER_OFFSETS, OFFSETS_ID, partition_count=partition_count)

    @property
    def groups(self) -> Groups:
        return self.service

    def make(self) -> Groups:
        return Groups(
            node_id=ME,
            replicas=self.replicas,  # type: ignore[arg-type]
            clock=self.clock,
            current_settings=lambda: self.settings,
        )

    async def lead(self, *leaders: NodeId) -> None:
        self.commit(*topic(CONSUMER_OFFSETS, OFFSETS_ID, *(leaders or (ME, ME))))
        await self.settle()

    async def put(self, group_id: str, *, topic_id: UUID = ORDERS_ID, name: str = "orders", offset: int = 7) -> Any:
        offsets = (OffsetToCommit(topic=name, topic_id=topic_id, partition=0, offset=offset),)
        return await self.groups.ask(group_id, OffsetCommit(group_id=group_id, offsets=offsets))

    async def stage(self, group_id: str, *, topic_id: UUID = ORDERS_ID, offset: int = 9) -> Any:
        verification = self.groups.begin_verification(group_id, 5, 0)
        offsets = (OffsetToCommit(topic="orders", topic_id=topic_id, partition=0, offset=offset),)
        transaction = InTransaction(5, 0, verification or False)
        return await self.groups.ask(
            group_id, TxnOffsetCommit(group_id=group_id, transaction=transaction, offsets=offsets)
        )

    async def end(self, group_id: str) -> None:
        end = TransactionEnd(
            producer_id=5, producer_epoch=1, is_commit=True, coordinator_epoch=0, transaction_version=2
        )
        await self.groups.end_transaction(self.groups.offsets_partition(group_id).partition, end)

    async def get(self, group_id: str) -> dict[str, int]:
        reply = await self.groups.ask(group_id, OffsetFetch(group_id=group_id))
        return {name: value.offset for name, found in reply.topics for _, value in found}


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("abc", 96354), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)
def test_hashes_equal_javas(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed
    assert 0 <= partition_of(text, 50) < 50


def test_the_smallest_hash_maps_to_the_first_partition() -> None:
    # a and b: one in each of two partitions.
    assert partition_of("polygenelubricants", 50) == 0
    assert (partition_of("a", 2), partition_of("b", 2)) == (1, 0)


async def test_no_coordinator_is_available_without_the_topic() -> None:
    node = GroupsNode()
    with pytest.raises(NotCoordinator):
        await node.put("a")
    assert await node.groups.list_groups(ListGroups()) == []
    await node.groups.loaded("a")


async def test_groups_are_served_by_the_leader_of_their_partition() -> None:
    node = GroupsNode()
    await node.lead(ME, OTHER)
    assert (await node.put("b")).errors == (0,)
    with pytest.raises(NotCoordinator):
        await node.put("a")


async def test_a_loading_shard_answers_load_in_progress() -> None:
    node = GroupsNode()
    node.commit(*topic(CONSUMER_OFFSETS, OFFSETS_ID, ME, ME))
    with pytest.raises(CoordinatorLoadInProgress):
        node.groups.submit("a", ListGroups())
    with pytest.raises(CoordinatorLoadInProgress):
        await node.groups.list_groups(ListGroups())
    await node.settle()
    assert await node.groups.list_groups(ListGroups()) == []


async def test_all_shards_are_listed() -> None:
    node = GroupsNode()
    await node.lead()
    await node.put("a")
    await node.put("b")
    assert {listed.group_id for listed in await node.groups.list_groups(ListGroups())} == {"a", "b"}


async def test_groups_are_listed_only_when_every_log_is_open() -> None:
    node = GroupsNode()
    node.replicas.opening = {0}
    await node.lead()
    node.commit(*topic("orders", ORDERS_ID, ME))
    node.replicas.image = node.image
    await node.put("a")
    with pytest.raises(CoordinatorLoadInProgress):
        await node.groups.list_groups(ListGroups())
    with pytest.raises(CoordinatorLoadInProgress):
        await node.put("b")
    node.replicas.opening.clear()
    for opened in node.replicas.on_late_open:
        opened(CONSUMER_OFFSETS, 0)
    await turns()
    await node.put("b")
    assert sorted(each.group_id for each in await node.groups.list_groups(ListGroups())) == ["a", "b"]


async def test_waiting_requests_fail_when_another_node_becomes_leader() -> None:
    node = GroupsNode()
    await node.lead()
    join = JoinGroup(
        group_id="a",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(("range", b""),),
        fresh_id=UUID(int=9),
        must_know_member_id=False,
    )
    waiting = node.groups.submit("a", join)
    assert not waiting.done()
    node.commit(PartitionChangeRecord(partition_id=1, topic_id=OFFSETS_ID, leader=OTHER))
    with pytest.raises(NotCoordinator):
        await waiting
    with pytest.raises(NotCoordinator):
        await node.put("a")
    assert (await node.put("b")).errors == (0,)


async def test_a_new_leader_epoch_reloads_the_log() -> None:
    node = GroupsNode()
    await node.lead()
    node.commit(*topic("orders", ORDERS_ID, ME))
    await node.put("a")
    node.commit(PartitionChangeRecord(partition_id=1, topic_id=OFFSETS_ID, leader=ME))
    with pytest.raises(CoordinatorLoadInProgress):
        node.groups.submit("a", ListGroups())
    await node.settle()
    assert await node.get("a") == {"orders": 7}


async def test_a_partition_whose_log_is_lost_is_not_served() -> None:
    node = GroupsNode()
    del node.replicas.partitions[1]
    await node.lead()
    with pytest.raises(NotCoordinator):
        await node.put("a")


async def test_a_log_that_is_opened_before_the_first_image_keeps_its_offsets() -> None:
    node = GroupsNode()
    await node.lead()
    node.commit(*topic("orders", ORDERS_ID, ME))
    await node.put("a")
    node.groups.close()
    node.replicas.on_late_open.clear()
    node.replicas.image = node.image
    node.service = node.make()
    for opened in node.replicas.on_late_open:
        opened(CONSUMER_OFFSETS, 1)
    await turns()
    node.service.image_changed(Delta.whole(node.image), node.image)
    await node.settle()
    assert await node.get("a") == {"orders": 7}


async def test_only_offsets_of_the_deleted_topic_are_deleted() -> None:
    node = GroupsNode()
    await node.lead()
    node.commit(*topic("orders", ORDERS_ID, ME), *topic("bills", NEW_ID, ME))
    for group_id in ("a", "b"):
        await node.put(group_id)
        await node.put(group_id, name="bills", topic_id=NEW_ID, offset=3)
    node.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
    assert [await node.get(group_id) for group_id in ("a", "b")] == [{"bills": 3}] * 2
    await node.restart()
    assert await node.get("a") == {"bills": 3}


async def test_offsets_of_a_topic_deleted_without_a_leader_are_deleted_after_the_load() -> None:
    node = GroupsNode()
    await node.lead()
    node.commit(*topic("orders", ORDERS_ID, ME), *topic("bills", NEW_ID, ME))
    await node.put("a")
    await node.put("b", name="orders", topic_id=UUID(int=0), offset=5)
    await node.put("a", name="bills", topic_id=NEW_ID, offset=3)
    node.groups.close()
    node.service = node.make()
    node.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
    await node.restart()
    assert [await node.get(group_id) for group_id in ("a", "b")] == [{"bills": 3}, {}]


async def test_a_marker_ends_the_transaction_only_in_its_partition() -> None:
    node = GroupsNode()
    await node.lead()
    node.commit(*topic("orders", ORDERS_ID, ME))
    for group_id in ("a", "b"):
        assert (await node.stage(group_id)).errors == (0,)
    assert node.groups.begin_verification("a", 5, 0) is None
    await node.end("a")
    assert node.groups.begin_verification("a", 5, 1) is not None
    assert [await node.get(group_id) for group_id in ("a", "b")] == [{"orders": 9}, {}]
    await node.restart()
    assert [await node.get(group_id) for group_id in ("a", "b")] == [{"orders": 9}, {}]
    await node.end("b")
    assert await node.get("b") == {"orders": 9}


async def test_transactions_are_rejected_where_the_group_is_not_coordinated() -> None:
    node = GroupsNode()
    with pytest.raises(NotCoordinator):
        node.groups.offsets_partition("a")
    await node.lead(ME, OTHER)
    with pytest.raises(NotCoordinator):
        await node.stage("a")
    with pytest.raises(NotCoordinator):
        await node.end("a")


async def test_pending_offsets_of_a_topic_deleted_meanwhile_are_dropped_after_the_load() -> None:
    node = GroupsNode()
    await node.lead()
    node.commit(*topic("orders", ORDERS_ID, ME))
    await node.stage("a")
    node.groups.close()
    node.service = node.make()
    node.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
    await node.restart()
    await node.end("a")
    assert await node.get("a") == {}


async def test_deleting_the_offsets_topic_removes_all_groups() -> None:
    node = GroupsNode()
    await node.lead()
    await node.put("a")
    node.commit(RemoveTopicRecord(topic_id=OFFSETS_ID))
    with pytest.raises(NotCoordinator):
        await node.put("a")


async def test_changed_settings_apply_from_the_next_command_on() -> None:
    node = GroupsNode()
    await node.lead()
    join = JoinGroup(
        group_id="a",
        session_timeout_ms=1_000,
        protocol_type="consumer",
        protocols=(("range", b""),),
        fresh_id=UUID(int=9),
    )
    invalid_session_timeout, member_id_required = 26, 79
    assert (await node.groups.ask("a", join)).error == invalid_session_timeout
    node.settings = BrokerSettings({"group.min.session.timeout.ms": "500"})
    node.commit(ConfigRecord(resource_type=BROKER, resource_name="", name="log.retention.ms", value="1"))
    assert (await node.groups.ask("a", join)).error == member_id_required


async def test_a_groups_own_settings_reach_its_members() -> None:
    node = GroupsNode()
    await node.lead()
    node.commit(*topic("orders", ORDERS_ID, ME))
    beat = ConsumerGroupHeartbeat(
        group_id="a",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("orders",),
        topic_partitions={},
    )
    reply = await node.groups.ask("a", beat)
    assert (reply.heartbeat_interval_ms, reply.assignment) == (5_000, {ORDERS_ID: frozenset({0})})
    name = "consumer.heartbeat.interval.ms"
    node.commit(ConfigRecord(resource_type=GROUP, resource_name="a", name=name, value="7000"))
    assert (await node.groups.ask("a", beat)).heartbeat_interval_ms == 7_000


async def test_the_consumer_protocol_needs_the_feature_and_the_setting() -> None:
    node = GroupsNode()
    served = [node.groups.serves_consumer_protocol]
    node.commit(FeatureLevelRecord(name="group.version", feature_level=1))
    served.append(node.groups.serves_consumer_protocol)
    node.settings = BrokerSettings({"group.coordinator.rebalance.protocols": "classic"})
    served.append(node.groups.serves_consumer_protocol)
    assert served == [False, True, False]


async def test_an_exception_in_a_shard_is_answered_and_keeps_the_connection() -> None:
    node = GroupsNode()
    await node.lead()
    with pytest.raises(Refusal) as refusal:
        await node.groups.ask("a", object())
    assert refusal.value.code == -1


def test_group_settings_stay_within_the_bounds_of_the_broker() -> None:
    broker = BrokerSettings(
        {
            "offsets.retention.minutes": "2",
            "group.max.size": "5",
            "group.consumer.migration.policy": "UPGRADE",
            "group.consumer.assignors": "range",
        }
    )
    assert group_settings(broker).offsets_retention_ms == 120_000
    settings = consumer_settings(
        broker, {"consumer.session.timeout.ms": "99000000", "consumer.heartbeat.interval.ms": "not a number"}
    )
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (60_000, 5_000)
    assert (settings.migration_policy, settings.classic_size_max) == (MigrationPolicy.UPGRADE, 5)
    assert settings.assignors == ("range",)


async def test_all_committed_offsets_are_listed_with_pauses() -> None:
    node = GroupsNode()
    await node.lead()
    await node.put("g", offset=7)
    await node.put("h", offset=9)
    found = list(node.groups.committed())
    assert sorted(each for each in found if each is not None) == [("g", "orders", 0, 7), ("h", "orders", 0, 9)]
    assert found.count(None) == 2
    node.groups.close()


async def test_a_large_group_is_assigned_by_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (target, update):
        monkeypatch.setattr(module, "MEMBERS_AT_ONCE_MAX", 1)
    node = GroupsNode()
    node.settings = BrokerSettings({"group.consumer.assignment.interval.ms": "0"})
    await node.lead()
    node.commit(*topic("orders", ORDERS_ID, ME, ME, ME))
    assert await beat_until_assigned(node, "xyz") == {0, 1, 2}
    assert not node.groups._assignments


async def test_an_assignment_that_fails_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (target, update):
        monkeypatch.setattr(module, "MEMBERS_AT_ONCE_MAX", 1)
    attempts: list[AssignTarget] = []

    def failing(action: AssignTarget) -> Job[list[TargetAssigned]]:
        attempts.append(action)
        if len(attempts) == 1:
            raise Refusal("not now")
        return assigning(action)

    monkeypatch.setattr(service, "assigning", failing)
    node = GroupsNode()
    node.settings = BrokerSettings({"group.consumer.assignment.interval.ms": "0"})
    await node.lead()
    node.commit(*topic("orders", ORDERS_ID, ME, ME, ME))
    assert await beat_until_assigned(node, "xyz") == {0, 1, 2}
    assert len(attempts) > 1


async def test_a_node_that_stops_abandons_its_assignments(monkeypatch: pytest.MonkeyPatch) -> None:
    node = GroupsNode()
    await node.lead()
    action = AssignTarget(
        group_id="a", epoch=1, assignor="uniform", members={}, targets={}, resolved={}, topics=Topics()
    )
    node.groups.perform(1, action)
    node.groups.abandon(1)
    await turns()
    assert not node.groups._assignments


async def beat_until_assigned(node: GroupsNode, members: str) -> set[int]:
    """Send heartbeats of three members until each has a partition; return the partitions."""
    epochs, owned = dict.fromkeys(members, 0), dict[str, frozenset[int]]()
    for _ in range(10):
        for member in members:
            reply = await node.groups.ask(
                "a",
                ConsumerGroupHeartbeat(
                    group_id="a",
                    member_id=member,
                    member_epoch=epochs[member],
                    rebalance_timeout_ms=1000,
                    subscribed_topic_names=("orders",),
                    topic_partitions={ORDERS_ID: owned[member]} if owned.get(member) and epochs[member] else {},
                ),
            )
            assert not reply.error, reply
            epochs[member] = reply.member_epoch
            owned[member] = reply.assignment.get(ORDERS_ID, frozenset())
            await turns()
    assert [len(partitions) for partitions in owned.values()] == [1] * len(members)
    return set().union(*owned.values())
