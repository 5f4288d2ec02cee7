"""A marker goes to whoever leads its partition, together with others for the same node."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.asking import PeerUnavailable
from penstock.model.errors import (
    InvalidProducerEpoch,
    LeaderNotAvailable,
    Refusal,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from penstock.model.ids import NO_NODE, NodeId
from penstock.transactions.marker_sender import MarkerSender
from tests.support.stepped_clock import settle


class World:
    """Node 1 of a cluster; topic `t` has partitions led by nodes 1, 2, 2 and nobody."""

    def __init__(self) -> None:
        leaders = (1, 2, 2, NO_NODE)
        self.topic = SimpleNamespace(partitions=[SimpleNamespace(leader=NodeId(leader)) for leader in leaders])
        self.image: Any = SimpleNamespace(topics={"t": self.topic}, partition=lambda _, at: self.topic.partitions[at])
        peers: Any = self
        self.here: list[int] = []
        self.asked: list[tuple[int, list[int]]] = []
        self.code = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_down = False
        self.is_strange = False
        write_here: Any = self._write_here
        self.sender = MarkerSender(node_id=NodeId(1), image=lambda: self.image, peers=peers, write_here=write_here)

    async def _write_here(self, topic: str, partition: int, *marker: Any) -> None:
        self.here.append(partition)

    async def ask(self, node: int, api_key: int, request: Any, *, timeout_s: float, purpose: str) -> Any:
        self.asked.append((node, [marker.topics[0].partition_indexes[0] for marker in request.markers]))
        await self.gate.wait()
        if self.is_down:
            raise PeerUnavailable
        if self.is_strange:
            return SimpleNamespace(markers=[])
        result = SimpleNamespace(error_code=SimpleNamespace(value=self.code))
        answered = SimpleNamespace(topics=[SimpleNamespace(partitions=[result])])
        return SimpleNamespace(markers=[answered] * len(request.markers))

    def write(self, partition: int, topic: str = "t") -> "asyncio.Task[None]":
        return asyncio.ensure_future(self.sender.write(topic, partition, 7, 3, 5, True, 2))


async def test_a_partition_led_here_is_written_here() -> None:
    world = World()
    await world.write(0)
    assert (world.here, world.asked) == ([0], [])


async def test_markers_that_wait_for_one_node_go_together() -> None:
    world = World()
    world.gate.clear()
    first = world.write(1)
    await settle()
    rest = [world.write(2), world.write(1)]
    await settle()
    world.gate.set()
    await asyncio.gather(first, *rest)
    assert world.asked == [(2, [1]), (2, [2, 1])]


@pytest.mark.parametrize("refusal", [InvalidProducerEpoch, TransactionCoordinatorFenced, LeaderNotAvailable])
async def test_what_the_leader_refuses_is_refused_here(refusal: type[Refusal]) -> None:
    world = World()
    world.code = refusal.code
    with pytest.raises(Refusal) as caught:
        await world.write(1)
    known = refusal is not LeaderNotAvailable
    assert type(caught.value) is (refusal if known else Refusal)


async def test_a_node_that_does_not_answer_is_tried_again_by_the_caller() -> None:
    world = World()
    world.is_down = True
    with pytest.raises(Refusal, match="5"):
        await world.write(1)
    world.is_down = False
    await world.write(1)
    assert len(world.asked) == 2


async def test_nobody_waits_for_a_node_that_leads_the_partition_no_more() -> None:
    world = World()
    world.gate.clear()
    sent, queued, other = world.write(1), world.write(1), world.write(2)
    await settle()
    world.topic.partitions[1].leader = NodeId(1)
    nothing: Any = None
    world.sender.image_changed(nothing, world.image)
    for each in (sent, queued):
        with pytest.raises(Refusal, match="5"):
            await asyncio.wait_for(each, 5)
    assert not other.done(), "its partition is led there still"
    await world.write(1)
    assert world.here == [1]
    world.gate.set()
    await other


async def test_an_answer_that_says_nothing_of_a_marker_leaves_nobody_waiting() -> None:
    world = World()
    world.is_strange = True
    with pytest.raises(Refusal, match="5"):
        await asyncio.wait_for(world.write(1), 5)


async def test_a_partition_without_a_leader_and_an_unknown_one_are_told_apart() -> None:
    world = World()
    with pytest.raises(LeaderNotAvailable):
        await world.write(3)
    with pytest.raises(UnknownTopicOrPartition):
        await world.write(0, "other")


async def test_a_marker_nobody_wants_any_more_is_not_sent() -> None:
    world = World()
    world.gate.clear()
    first = world.write(1)
    await settle()
    second = world.write(2)
    await settle()
    second.cancel()
    world.gate.set()
    await first
    await settle()
    assert world.asked == [(2, [1])]
