"""A marker is sent to its partition's leader, together with others for the same node."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

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
from tests.unit.client.peers import FakePeers, led_by


class SenderOfNode1:
    """Node 1 of a cluster; topic `t` has partitions led by nodes 1, 2, 2 and none."""

    def __init__(self) -> None:
        self.image = led_by("t", (1, 2, 2, NO_NODE))
        self.peers = FakePeers(self._answer)
        self.here: list[int] = []
        self.code = 0
        self.is_strange = False
        peers: Any = self.peers
        write_here: Any = self._write_here
        self.sender = MarkerSender(node_id=NodeId(1), image=lambda: self.image, peers=peers, write_here=write_here)

    async def _write_here(self, topic: str, partition: int, *marker: Any) -> None:
        self.here.append(partition)

    def _answer(self, request: Any) -> Any:
        if self.is_strange:
            return SimpleNamespace(markers=[])
        result = SimpleNamespace(error_code=SimpleNamespace(value=self.code))
        answered = SimpleNamespace(topics=[SimpleNamespace(partitions=[result])])
        return SimpleNamespace(markers=[answered] * len(request.markers))

    @property
    def requests(self) -> list[tuple[int, list[int]]]:
        """Return the nodes that received requests, each with the partitions of its markers."""
        return [
            (node, [marker.topics[0].partition_indexes[0] for marker in request.markers])
            for node, request in self.peers.asked
        ]

    def write(self, partition: int, topic: str = "t") -> "asyncio.Task[None]":
        return asyncio.ensure_future(self.sender.write(topic, partition, 7, 3, 5, True, 2))


@pytest.fixture
async def world() -> SenderOfNode1:
    return SenderOfNode1()


async def test_a_partition_led_by_this_node_is_written_directly(world: SenderOfNode1) -> None:
    await world.write(0)
    assert (world.here, world.requests) == ([0], [])


async def test_markers_for_one_node_share_a_request(world: SenderOfNode1) -> None:
    world.peers.gate.clear()
    first = world.write(1)
    await settle()
    rest = [world.write(2), world.write(1)]
    await settle()
    world.peers.gate.set()
    await asyncio.gather(first, *rest)
    assert world.requests == [(2, [1]), (2, [2, 1])]


@pytest.mark.parametrize("refusal", [InvalidProducerEpoch, TransactionCoordinatorFenced, LeaderNotAvailable])
async def test_errors_of_the_leader_are_raised(world: SenderOfNode1, refusal: type[Refusal]) -> None:
    world.code = refusal.code
    with pytest.raises(Refusal) as caught:
        await world.write(1)
    known = refusal is not LeaderNotAvailable
    assert type(caught.value) is (refusal if known else Refusal)


async def test_a_node_that_does_not_answer_is_a_retriable_error(world: SenderOfNode1) -> None:
    world.peers.is_down = True
    with pytest.raises(Refusal, match="5"):
        await world.write(1)
    world.peers.is_down = False
    await world.write(1)
    assert len(world.requests) == 2


async def test_waiting_ends_when_the_node_no_longer_leads_the_partition(world: SenderOfNode1) -> None:
    world.peers.gate.clear()
    sent, queued, other = world.write(1), world.write(1), world.write(2)
    await settle()
    world.image.topics["t"].partitions[1].leader = NodeId(1)
    nothing: Any = None
    world.sender.image_changed(nothing, world.image)
    for each in (sent, queued):
        with pytest.raises(Refusal, match="5"):
            await asyncio.wait_for(each, 5)
    assert not other.done(), "its leader has not changed"
    await world.write(1)
    assert world.here == [1]
    world.peers.gate.set()
    await other


async def test_a_marker_missing_from_the_response_is_a_retriable_error(world: SenderOfNode1) -> None:
    world.is_strange = True
    with pytest.raises(Refusal, match="5"):
        await asyncio.wait_for(world.write(1), 5)


async def test_a_partition_without_a_leader_and_an_unknown_one_raise_different_errors(world: SenderOfNode1) -> None:
    with pytest.raises(LeaderNotAvailable):
        await world.write(3)
    with pytest.raises(UnknownTopicOrPartition):
        await world.write(0, "other")


async def test_a_cancelled_marker_is_not_sent(world: SenderOfNode1) -> None:
    world.peers.gate.clear()
    first = world.write(1)
    await settle()
    second = world.write(2)
    await settle()
    second.cancel()
    world.peers.gate.set()
    await first
    await settle()
    assert world.requests == [(2, [1])]
