"""Three nodes under any order of writes, crashes, network partitions and elections: no acknowledged record is lost.

Checks the invariants 13 to 20 and 23 of docs/reliability.md for one partition, and that all replicas end in sync.
"""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import NotEnoughReplicas, NotLeaderOrFollower
from penstock.model.ids import NodeId
from tests.unit.replication.replicated_partition import NODES, TOPIC, ReplicatedPartition

node_ids = st.sampled_from([int(each) for each in NODES])
steps = st.one_of(
    st.tuples(st.just("send"), node_ids, st.sampled_from([-1, -1, 1])),
    st.tuples(st.just("run"), st.sampled_from([0, 0, 1, 20]), st.booleans()),
    st.tuples(st.just("crash"), node_ids, st.booleans()),
    st.tuples(st.just("restart"), node_ids, st.just(0)),
    st.tuples(st.just("cut"), node_ids, node_ids),
    st.tuples(st.just("join"), node_ids, node_ids),
    st.tuples(st.just("elect"), node_ids, st.just(0)),
    st.tuples(st.just("deliver"), node_ids, st.just(0)),
    st.tuples(st.just("frames"), st.integers(1, 3), st.booleans()),
)


class Run:
    def __init__(self, world: ReplicatedPartition) -> None:
        self.world = world
        self.leaders: dict[int, int] = {0: 1}

    def alive(self, node_id: int) -> bool:
        return self.world.nodes[NodeId(node_id)].up

    async def take(self, kind: str, one: int, other: int) -> None:
        world = self.world
        if kind == "send":
            self.send(one, other)
        elif kind == "run":
            await world.settle(seconds=one, deliver=bool(other))
        elif kind == "frames":
            for _ in range(one):
                world.network.step()
                if other:
                    for node in world.nodes.values():
                        node.disk.finish_sync() if node.up else None
                await asyncio.sleep(0)
        elif kind == "crash" and self.alive(one):
            world.nodes[NodeId(one)].crash(power=bool(other))
        elif kind == "restart" and not self.alive(one):
            world.restart(one)
        elif kind == "cut" and one != other:
            world.network.cut.add((one, other))
        elif kind == "join":
            world.network.cut -= {(one, other), (other, one)}
        elif kind == "elect":
            await self.elect(one)
        elif kind == "deliver":
            world.deliver(one)

    def send(self, node_id: int, acks: int) -> None:
        node = self.world.nodes[NodeId(node_id)]
        if not node.up or node.replicas.find(TOPIC, 0) is None:
            return
        try:
            self.world.send(node_id, acks=acks)
        except (NotEnoughReplicas, NotLeaderOrFollower):
            return

    async def elect(self, node_id: int) -> None:
        """Elect a leader as a controller would: a live member of the ISR."""
        world = self.world
        if node_id not in world.state.isr or not self.alive(node_id):
            return
        world.deliver(node_id)
        world.elect(node_id)
        epoch = world.state.leader_epoch
        assert self.leaders.setdefault(epoch, node_id) == node_id, "two leaders in one epoch"
        world.deliver(node_id)
        world.check_leader_has_all(node_id)

    async def heal(self) -> None:
        world = self.world
        world.network.cut.clear()
        for node_id in NODES:
            if not self.alive(node_id):
                world.restart(node_id)
        await world.settle(seconds=2)
        if world.state.leader not in world.state.isr:
            await self.elect(world.state.isr[0])
        await world.settle(seconds=100)
        assert sorted(world.state.isr) == list(NODES), "not everybody is in sync again"
        world.send(world.state.leader)
        await world.settle(seconds=2)
        values = [node.values() for node in world.nodes.values()]
        assert values[0] == values[1] == values[2]
        marks = {node.partition.high_watermark for node in world.nodes.values()}
        assert marks == {world.nodes[NodeId(1)].partition.log.end_offset}
        world.check_leader_has_all(world.state.leader)


async def check_story(story: list[tuple[str, int, int]], *, min_isr: int) -> None:
    run = Run(ReplicatedPartition(min_isr=min_isr, syncs_at_once=False))
    await run.world.settle()
    for kind, one, other in story:
        await run.take(kind, one, other)
        run.world.check()
    await run.heal()


stories = st.lists(steps, max_size=40)


@settings(max_examples=25)
@given(stories, st.sampled_from([1, 2, 3]))
def test_no_acknowledged_record_is_lost_and_all_replicas_end_in_sync(
    story: list[tuple[str, int, int]], min_isr: int
) -> None:
    asyncio.run(check_story(story, min_isr=min_isr))


@pytest.mark.slow
@settings(max_examples=150)
@given(stories, st.sampled_from([1, 2, 3]))
def test_no_acknowledged_record_is_lost_in_many_stories(story: list[tuple[str, int, int]], min_isr: int) -> None:
    asyncio.run(check_story(story, min_isr=min_isr))
