"""The groups of a node follow the metadata: leaders, topics and settings."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from penstock.config.settings import BrokerSettings
from penstock.coordinator.decision import InTransaction, TransactionEnd
from penstock.coordinator.errors import CoordinatorLoadInProgress, NotCoordinator
from penstock.coordinator.keys import java_hash, partition_of
from penstock.groups.commands import (
    JoinGroup,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    TxnOffsetCommit,
)
from penstock.groups.configured import consumer_settings, group_settings
from penstock.groups.consumer_commands import ConsumerGroupHeartbeat, MigrationPolicy
from penstock.groups.service import Groups
from penstock.metadata import delta as metadata_delta
from penstock.metadata.image import BROKER, EMPTY, GROUP, Image
from penstock.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.model.errors import Refusal
from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.replication.partition import Partition
from penstock.sim.disk import SimDisk
from tests.unit.coordinator.fakes import FakeClock
from tests.unit.storage.support import open_log

ME, OTHER = NodeId(1), NodeId(2)
OFFSETS_ID, ORDERS_ID, NEW_ID = UUID(int=1), UUID(int=2), UUID(int=3)


class FakeReplicas:
    def __init__(self) -> None:
        self.opened_late: list[object] = []
        self.partitions: dict[int, Partition] = {}

    def find(self, name: str, index: int) -> Partition | None:
        return self.partitions.get(index) if name == CONSUMER_OFFSETS else None


def topic(name: str, topic_id: UUID, *leaders: NodeId) -> list[MetadataRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=(ME, OTHER),
                isr=(ME, OTHER),
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index, leader in enumerate(leaders)
        ),
    ]


class World:
    def __init__(self, *, partition_count: int = 2) -> None:
        self.broker = BrokerSettings()
        self.clock = FakeClock()
        self.replicas = FakeReplicas()
        for index in range(partition_count):
            log = open_log(SimDisk())
            self.replicas.partitions[index] = Partition(CONSUMER_OFFSETS, OFFSETS_ID, index, ME, log)
        self.image: Image = EMPTY
        self.groups = self.make()

    def make(self) -> Groups:
        return Groups(
            node_id=ME,
            replicas=self.replicas,  # type: ignore[arg-type]
            clock=self.clock,
            current_settings=lambda: self.broker,
        )

    def commit(self, *records: MetadataRecord) -> None:
        offset = Offset(self.image.offset + len(records))
        change, self.image = metadata_delta.apply(self.image, records, offset=offset, epoch=LeaderEpoch(1))
        self.groups.image_changed(change, self.image)

    async def lead(self, *leaders: NodeId) -> None:
        self.commit(*topic(CONSUMER_OFFSETS, OFFSETS_ID, *(leaders or (ME, ME))))
        await self.settle()

    async def settle(self) -> None:
        for group_id in ("a", "b"):
            await self.groups.loaded(group_id)
        for _ in range(5):
            await asyncio.sleep(0)

    async def restart(self) -> None:
        self.groups.close()
        self.groups = self.make()
        self.groups.image_changed(metadata_delta.Delta.whole(self.image), self.image)
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
def test_hashes_are_those_of_java(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed
    assert 0 <= partition_of(text, 50) < 50


def test_the_smallest_hash_is_in_the_first_partition() -> None:
    # a and b: one in each of two partitions.
    assert partition_of("polygenelubricants", 50) == 0
    assert (partition_of("a", 2), partition_of("b", 2)) == (1, 0)


async def test_without_the_topic_there_is_no_coordinator() -> None:
    world = World()
    with pytest.raises(NotCoordinator):
        await world.put("a")
    assert await world.groups.list_groups(ListGroups()) == []
    await world.groups.loaded("a")


async def test_groups_are_served_where_their_partition_is_led() -> None:
    world = World()
    await world.lead(ME, OTHER)
    assert (await world.put("b")).errors == (0,)
    with pytest.raises(NotCoordinator):
        await world.put("a")


async def test_a_shard_that_is_being_read_says_so() -> None:
    world = World()
    world.commit(*topic(CONSUMER_OFFSETS, OFFSETS_ID, ME, ME))
    with pytest.raises(CoordinatorLoadInProgress):
        world.groups.submit("a", ListGroups())
    with pytest.raises(CoordinatorLoadInProgress):
        await world.groups.list_groups(ListGroups())
    await world.settle()
    assert await world.groups.list_groups(ListGroups()) == []


async def test_all_shards_are_listed() -> None:
    world = World()
    await world.lead()
    await world.put("a")
    await world.put("b")
    assert {listed.group_id for listed in await world.groups.list_groups(ListGroups())} == {"a", "b"}


async def test_whoever_waits_is_sent_away_when_another_node_leads() -> None:
    world = World()
    await world.lead()
    join = JoinGroup(
        group_id="a",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(("range", b""),),
        fresh_id=UUID(int=9),
        must_know_member_id=False,
    )
    waiting = world.groups.submit("a", join)
    assert not waiting.done()
    world.commit(PartitionChangeRecord(partition_id=1, topic_id=OFFSETS_ID, leader=OTHER))
    with pytest.raises(NotCoordinator):
        await waiting
    with pytest.raises(NotCoordinator):
        await world.put("a")
    assert (await world.put("b")).errors == (0,)


async def test_a_new_epoch_reads_the_log_again() -> None:
    world = World()
    await world.lead()
    world.commit(*topic("orders", ORDERS_ID, ME))
    await world.put("a")
    world.commit(PartitionChangeRecord(partition_id=1, topic_id=OFFSETS_ID, leader=ME))
    with pytest.raises(CoordinatorLoadInProgress):
        world.groups.submit("a", ListGroups())
    await world.settle()
    assert await world.get("a") == {"orders": 7}


async def test_a_partition_whose_log_is_lost_is_not_served() -> None:
    world = World()
    del world.replicas.partitions[1]
    await world.lead()
    with pytest.raises(NotCoordinator):
        await world.put("a")


async def test_offsets_of_a_deleted_topic_go_and_others_stay() -> None:
    world = World()
    await world.lead()
    world.commit(*topic("orders", ORDERS_ID, ME), *topic("bills", NEW_ID, ME))
    for group_id in ("a", "b"):
        await world.put(group_id)
        await world.put(group_id, name="bills", topic_id=NEW_ID, offset=3)
    world.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
    assert [await world.get(group_id) for group_id in ("a", "b")] == [{"bills": 3}] * 2
    await world.restart()
    assert await world.get("a") == {"bills": 3}


async def test_a_topic_that_was_deleted_while_nobody_led_is_forgotten_after_the_load() -> None:
    world = World()
    await world.lead()
    world.commit(*topic("orders", ORDERS_ID, ME), *topic("bills", NEW_ID, ME))
    await world.put("a")
    await world.put("b", name="orders", topic_id=UUID(int=0), offset=5)
    await world.put("a", name="bills", topic_id=NEW_ID, offset=3)
    world.groups.close()
    world.groups = world.make()
    world.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
    await world.restart()
    assert [await world.get(group_id) for group_id in ("a", "b")] == [{"bills": 3}, {}]


async def test_a_marker_ends_the_transaction_in_its_partition_alone() -> None:
    world = World()
    await world.lead()
    world.commit(*topic("orders", ORDERS_ID, ME))
    for group_id in ("a", "b"):
        assert (await world.stage(group_id)).errors == (0,)
    assert world.groups.begin_verification("a", 5, 0) is None
    await world.end("a")
    assert world.groups.begin_verification("a", 5, 1) is not None
    assert [await world.get(group_id) for group_id in ("a", "b")] == [{"orders": 9}, {}]
    await world.restart()
    assert [await world.get(group_id) for group_id in ("a", "b")] == [{"orders": 9}, {}]
    await world.end("b")
    assert await world.get("b") == {"orders": 9}


async def test_transactions_are_of_no_use_where_the_groups_are_not() -> None:
    world = World()
    with pytest.raises(NotCoordinator):
        world.groups.offsets_partition("a")
    await world.lead(ME, OTHER)
    with pytest.raises(NotCoordinator):
        await world.stage("a")
    with pytest.raises(NotCoordinator):
        await world.end("a")


async def test_what_is_staged_for_a_topic_that_was_deleted_meanwhile_does_not_count_after_the_load() -> None:
    world = World()
    await world.lead()
    world.commit(*topic("orders", ORDERS_ID, ME))
    await world.stage("a")
    world.groups.close()
    world.groups = world.make()
    world.commit(RemoveTopicRecord(topic_id=ORDERS_ID))
    await world.restart()
    await world.end("a")
    assert await world.get("a") == {}


async def test_deleting_the_offsets_topic_ends_all_groups() -> None:
    world = World()
    await world.lead()
    await world.put("a")
    world.commit(RemoveTopicRecord(topic_id=OFFSETS_ID))
    with pytest.raises(NotCoordinator):
        await world.put("a")


async def test_changed_settings_hold_from_the_next_command_on() -> None:
    world = World()
    await world.lead()
    join = JoinGroup(
        group_id="a",
        session_timeout_ms=1_000,
        protocol_type="consumer",
        protocols=(("range", b""),),
        fresh_id=UUID(int=9),
    )
    invalid_session_timeout, member_id_required = 26, 79
    assert (await world.groups.ask("a", join)).error == invalid_session_timeout
    world.broker = BrokerSettings({"group.min.session.timeout.ms": "500"})
    world.commit(ConfigRecord(resource_type=BROKER, resource_name="", name="log.retention.ms", value="1"))
    assert (await world.groups.ask("a", join)).error == member_id_required


async def test_a_groups_own_settings_reach_its_members() -> None:
    world = World()
    await world.lead()
    world.commit(*topic("orders", ORDERS_ID, ME))
    beat = ConsumerGroupHeartbeat(
        group_id="a",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("orders",),
        topic_partitions={},
    )
    reply = await world.groups.ask("a", beat)
    assert (reply.heartbeat_interval_ms, reply.assignment) == (5_000, {ORDERS_ID: frozenset({0})})
    name = "consumer.heartbeat.interval.ms"
    world.commit(ConfigRecord(resource_type=GROUP, resource_name="a", name=name, value="7000"))
    assert (await world.groups.ask("a", beat)).heartbeat_interval_ms == 7_000


async def test_the_consumer_protocol_needs_the_feature_and_the_setting() -> None:
    world = World()
    served = [world.groups.serves_consumer_protocol]
    world.commit(FeatureLevelRecord(name="group.version", feature_level=1))
    served.append(world.groups.serves_consumer_protocol)
    world.broker = BrokerSettings({"group.coordinator.rebalance.protocols": "classic"})
    served.append(world.groups.serves_consumer_protocol)
    assert served == [False, True, False]


async def test_a_fault_in_a_shard_is_an_answer_and_not_the_end_of_the_connection() -> None:
    world = World()
    await world.lead()
    with pytest.raises(Refusal) as refusal:
        await world.groups.ask("a", object())
    assert refusal.value.code == -1


def test_settings_come_from_the_broker_and_the_group_stays_within_its_bounds() -> None:
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
