"""Scenarios with three nodes that run production code on an in-memory network."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.metadata.records import LOST_DIRECTORY, ConfigRecord, PartitionChangeRecord
from penstock.model.errors import NotEnoughReplicas, NotEnoughReplicasAfterAppend, NotLeaderOrFollower
from penstock.model.ids import NodeId, TopicPartition
from penstock.storage.store import LogStore
from tests.unit.replication.replicated_partition import NODES, TOPIC, TOPIC_ID, ReplicatedPartition


def story(tell: Callable[[ReplicatedPartition], Awaitable[None]], **options: object) -> ReplicatedPartition:
    async def run() -> ReplicatedPartition:
        world = ReplicatedPartition(**options)  # type: ignore[arg-type]
        await world.settle()
        await tell(world)
        world.check()
        return world

    return asyncio.run(run())


def test_a_write_is_acknowledged_when_all_replicas_hold_it_and_their_logs_agree() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.send(1, count=3)
        assert world.acked == {}
        await world.settle()
        assert sorted(world.acked) == [0, 1, 2]
        world.send(1)
        await world.settle(seconds=1)
        assert all(node.values() == world.nodes[NodeId(1)].values() for node in world.nodes.values())
        assert {node.partition.high_watermark for node in world.nodes.values()} == {4}

    story(tell)


def test_a_write_is_not_acknowledged_before_it_is_durable_on_a_follower() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.syncs_at_once = True  # the world finishes no sync by itself
        world.send(1)
        for _ in range(5):
            await world.settle()
        leader, *followers = world.nodes.values()
        assert [each.partition.log.end_offset for each in followers] == [1, 1]
        while leader.disk.finish_sync():
            pass
        while followers[0].disk.finish_sync():
            pass
        await world.settle()
        assert world.acked == {}
        while followers[1].disk.finish_sync():
            pass
        await world.settle()
        assert sorted(world.acked) == [0]

    story(tell, syncs_at_once=False)


def test_a_silent_follower_leaves_the_isr_and_rejoins() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.network.cut = {(1, 3), (2, 3)}
        world.send(1)
        await world.settle(seconds=5)
        assert world.acked == {}
        await world.settle(seconds=60)
        assert world.state.isr == (1, 2)
        assert sorted(world.acked) == [0]
        world.network.cut = set()
        await world.settle(seconds=40)
        assert sorted(world.state.isr) == [1, 2, 3]
        assert world.nodes[NodeId(3)].values() == {0: b"0"}

    story(tell)


def test_an_isr_below_the_minimum_rejects_writes_before_and_after_the_append() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.network.cut = {(1, 2), (1, 3)}
        world.send(1)
        world.elect(1, isr=(1,))
        await world.settle()
        assert world.refused == [NotEnoughReplicasAfterAppend.code]
        with pytest.raises(NotEnoughReplicas):
            world.send(1)
        world.send(1, acks=1)
        await world.settle()
        assert world.nodes[NodeId(1)].partition.high_watermark == 0

    story(tell)


def test_a_follower_truncates_only_the_batches_of_a_deposed_leader() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.send(1, count=2)
        await world.settle()
        world.network.cut = {(1, 2), (1, 3)}
        world.send(1, count=5)
        world.elect(2, isr=(2, 3))
        world.deliver(2, 3)
        await world.settle(deliver=False)
        world.send(2)
        await world.settle(deliver=False)
        assert sorted(world.acked) == [0, 1, 2]
        world.network.cut = set()
        await world.settle(seconds=40)
        assert world.refused == [NotLeaderOrFollower.code]
        assert world.nodes[NodeId(1)].values() == world.nodes[NodeId(2)].values()
        assert world.nodes[NodeId(1)].partition.log.end_offset == 3
        assert sorted(world.state.isr) == [1, 2, 3]

    story(tell)


def test_a_partitioned_leader_never_acknowledges() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.network.cut = {(1, 2), (1, 3)}
        world.elect(2, isr=(2, 3))
        world.deliver(2, 3)
        world.send(1)
        await world.settle(seconds=20, deliver=False)
        assert world.acked == {}

    story(tell)


def test_a_restarted_broker_rejoins_the_isr_only_with_its_new_broker_epoch() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.send(1)
        await world.settle()
        world.nodes[NodeId(3)].crash(power=True)
        world.elect(1, isr=(1, 2))
        world.send(1)
        await world.settle(seconds=1)
        node = world.nodes[NodeId(3)]
        node.start()
        world.register(node, fenced=True)
        await world.settle(seconds=2)
        assert world.state.isr == (1, 2)
        assert node.values() == {0: b"0", 1: b"1"}
        world.register(node)
        await world.settle(seconds=2)
        assert sorted(world.state.isr) == [1, 2, 3]

    story(tell)


def test_a_replica_on_an_empty_disk_is_copied_before_it_counts() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        for _ in range(20):
            world.send(1, count=5)
        await world.settle()
        node = world.nodes[NodeId(2)]
        node.crash(power=False)
        world.elect(1, isr=(1, 3))
        await world.settle()
        node.disk.remove_folder("/data")
        world.restart(2)
        await world.settle(seconds=3)
        assert node.values() == world.nodes[NodeId(1)].values()
        assert world.state.directories[1] == node.store.directory_id
        assert sorted(world.state.isr) == [1, 2, 3]

    story(tell)


def test_a_damaged_follower_log_is_set_aside_and_copied_again() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        for _ in range(5):
            world.send(1, count=5)
        await world.settle()
        node = world.nodes[NodeId(2)]
        node.crash(power=False)
        world.elect(1, isr=(1, 3))
        node.disk.flip("/data/orders-0/00000000000000000000.log", 150)
        world.restart(2)
        await world.settle(seconds=3)
        assert node.partition.log.damage is None
        assert node.values() == world.nodes[NodeId(1)].values()
        assert sorted(world.state.isr) == [1, 2, 3]
        assert world.state.directories[1] == node.store.directory_id

    story(tell)


@pytest.mark.parametrize("is_renamed", [False, True], ids=["before the rename", "after it"])
def test_a_damaged_log_is_replaced_although_setting_it_aside_fails_at_first(
    monkeypatch: pytest.MonkeyPatch, is_renamed: bool
) -> None:
    set_aside, failures = LogStore.set_aside_damaged, [OSError(5, "bad sector")]

    def fail_once(store: LogStore, topic_partition: TopicPartition) -> str:
        if failures and not is_renamed:
            raise failures.pop()
        folder = set_aside(store, topic_partition)
        if failures:
            raise failures.pop()
        return folder

    async def tell(world: ReplicatedPartition) -> None:
        for _ in range(5):
            world.send(1, count=5)
        await world.settle()
        node = world.nodes[NodeId(2)]
        node.crash(power=False)
        world.elect(1, isr=(1, 3))
        node.disk.flip("/data/orders-0/00000000000000000000.log", 150)
        monkeypatch.setattr(LogStore, "set_aside_damaged", fail_once)
        world.restart(2)
        await world.settle(seconds=5)
        assert not failures and node.partition.log.damage is None
        assert node.values() == world.nodes[NodeId(1)].values()
        assert sorted(world.state.isr) == [1, 2, 3]

    story(tell)


def test_a_damaged_log_without_a_healthy_leader_is_kept() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        for _ in range(5):
            world.send(1, count=5)
        await world.settle()
        for node_id in NODES:
            world.nodes[node_id].crash(power=False)
        node = world.nodes[NodeId(2)]
        world.elect(-1, isr=(2,))
        node.disk.flip("/data/orders-0/00000000000000000000.log", 150)
        world.restart(2)
        await world.settle(seconds=3)
        assert node.partition.log.damage is not None
        assert [name for name in node.disk.list("/data") if name.startswith("orders")] == ["orders-0"]

    story(tell)


def test_a_replica_that_was_reassigned_is_deleted() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.send(1)
        await world.settle()
        node = world.nodes[NodeId(3)]
        world.change(replicas=(NodeId(1), NodeId(2)), isr=(NodeId(1), NodeId(2)),
                     directories=world.state.directories[:2])  # fmt: skip
        await world.settle()
        assert not node.disk.exists("/data/orders-0")
        world.send(1)
        await world.settle()
        assert sorted(world.acked) == [0, 1]

    story(tell)


def test_deleted_records_are_deleted_on_followers() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        for _ in range(5):
            world.send(1)
        await world.settle(seconds=1)
        leader = world.nodes[NodeId(1)].partition
        leader.log.advance_start(3)
        world.send(1)
        await world.settle(seconds=2)
        assert [node.partition.log.start_offset for node in world.nodes.values()] == [3, 3, 3]
        assert leader.leadership is not None
        assert leader.leadership.low_watermark(3, is_alive=lambda node_id: True) == 3

    story(tell)


def test_a_follower_that_ends_before_the_leaders_start_restarts_there() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.network.cut = {(1, 3), (2, 3)}
        world.elect(1, isr=(1, 2))
        for _ in range(5):
            world.send(1)
        await world.settle()
        world.nodes[NodeId(1)].partition.log.advance_start(4)
        world.network.cut = set()
        await world.settle(seconds=40)
        follower = world.nodes[NodeId(3)].partition.log
        assert (follower.start_offset, follower.end_offset) == (4, 5)
        assert sorted(world.state.isr) == [1, 2, 3]

    story(tell)


def test_a_new_leader_refuses_end_offsets_until_it_knows_the_high_watermark() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.send(1)
        await world.settle()
        world.network.cut = {(2, 3), (1, 2), (1, 3)}
        world.elect(2, isr=(2, 3))
        await world.settle()
        leader = world.nodes[NodeId(2)].partition
        assert leader.is_leader
        assert leader.high_watermark == 0
        assert not leader.mark_is_known
        world.network.cut = set()
        await world.settle(seconds=30)
        assert leader.high_watermark == 1
        assert leader.mark_is_known

    story(tell)


def test_a_throttled_replica_catches_up_slowly() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.nodes[NodeId(1)].settings = world.nodes[NodeId(1)].settings.with_dynamic(
            cluster={}, node={"leader.replication.throttled.rate": "2000"}
        )
        replicas = world.nodes[NodeId(1)].replicas
        replicas.leader_throttle.configure(world.nodes[NodeId(1)].settings)
        world.configure("leader.replication.throttled.replicas", "*")
        world.elect(1, isr=(1, 2))
        world.network.cut = {(1, 3)}
        for _ in range(100):
            world.send(1, count=30)
            await world.settle()
        size = world.nodes[NodeId(1)].partition.log.size
        world.network.cut = set()
        await world.settle(seconds=4)
        behind = world.nodes[NodeId(3)].partition.log.size
        assert 0 < behind < size
        await world.settle(seconds=size / 2000 + 10)
        assert world.nodes[NodeId(3)].partition.log.size == size
        assert len(world.acked) == 3000

    story(tell, replica_fetch_max_bytes="4000")


def test_a_rejected_proposal_is_repeated() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.controller_is_away = True
        world.network.cut = {(1, 3), (2, 3)}
        world.send(1)
        await world.settle(seconds=70)
        assert world.acked == {}
        world.controller_is_away = False
        await world.settle(seconds=2)
        assert sorted(world.acked) == [0]

    story(tell)


def test_the_folder_of_an_unknown_topic_is_kept() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.send(1)
        await world.settle()
        node = world.nodes[NodeId(2)]
        node.crash(power=False)
        node.disk.make_folder("/data/stranger-0")
        world.restart(2)
        await world.settle(seconds=2)
        assert node.disk.exists("/data/stranger-0")
        assert LOST_DIRECTORY not in world.state.directories

    story(tell)


def test_a_leader_checks_records_again_that_a_follower_rejects() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.network.cut = {(1, 3), (2, 3)}
        world.elect(1, isr=(1, 2))
        for _ in range(5):
            world.send(1)
        await world.settle()
        leader = world.nodes[NodeId(1)]
        leader.disk.flip("/data/orders-0/00000000000000000000.log", 100)
        world.network.cut = set()
        await world.settle(seconds=60)
        assert world.state.leader == 2
        assert sorted(world.state.isr) == [1, 2, 3]
        assert all(node.values() == world.acked for node in world.nodes.values())

    story(tell)


def test_a_corrupt_offset_is_not_mistaken_for_a_gap() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.network.cut = {(1, 3), (2, 3)}
        world.elect(1, isr=(1, 2))
        for _ in range(5):
            world.send(1)
        await world.settle()
        # The base offset of the last batch, which no checksum covers.
        size = world.nodes[NodeId(1)].partition.log.size // 5
        world.nodes[NodeId(1)].disk.flip("/data/orders-0/00000000000000000000.log", 4 * size + 2, 8)
        world.network.cut = set()
        await world.settle(seconds=60)
        assert all(node.values() == world.acked for node in world.nodes.values())
        assert sorted(world.state.isr) == [1, 2, 3]

    story(tell)


def test_a_higher_min_isr_applies_no_later_than_a_smaller_isr_of_the_same_image() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.network.cut = {(1, 2), (1, 3)}
        world.send(1)
        # A node that is far behind gets one image for several commits. Node 2 may be elected: it is in the ELR.
        world.commit(
            ConfigRecord(resource_type=2, resource_name=TOPIC, name="min.insync.replicas", value="2"),
            PartitionChangeRecord(
                partition_id=0, topic_id=TOPIC_ID, isr=(NodeId(1),), eligible_leader_replicas=(NodeId(2),)
            ),
        )
        await world.settle()
        assert world.acked == {}
        assert world.refused == [NotEnoughReplicasAfterAppend.code]
        assert world.nodes[NodeId(1)].partition.high_watermark == 0

    story(tell, min_isr=1)


def test_a_leader_does_not_act_on_its_smaller_isr_before_it_knows_the_min_isr_of_that_time() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.network.cut = {(1, 2), (1, 3)}
        world.send(1)
        world.configure("min.insync.replicas", "2")
        await world.settle(seconds=60, deliver=False)
        assert world.state.isr == (1,)
        assert world.acked == {}, "node 2 may be elected from the ELR"
        await world.settle()
        assert world.acked == {}
        assert world.refused == [NotEnoughReplicasAfterAppend.code]

    story(tell, min_isr=1)


def test_nothing_waits_for_the_end_of_a_log_whose_high_watermark_does_not_move() -> None:
    async def tell(world: ReplicatedPartition) -> None:
        world.network.cut = {(1, 2), (1, 3)}
        world.elect(1, isr=[1])
        await world.settle()
        world.send(1, acks=1)
        leader = world.nodes[NodeId(1)].partition
        assert leader.high_watermark < leader.log.end_offset
        assert not leader.wait_committed(world.clock.now + 30, lambda code: None)

    story(tell, min_isr=2)
