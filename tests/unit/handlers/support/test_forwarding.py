"""Requests are forwarded to the controller and back, and this node catches up with it."""

import asyncio
from typing import Any

from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse, PartitionData, TopicData
from kio.schema.envelope.v0.response import EnvelopeResponse
from kio.schema.errors import ErrorCode

from penstock.client.peers import Peers
from penstock.handlers.support.forwarding import Relay, address_bytes
from penstock.metadata.image import EMPTY, Image
from penstock.model.ids import NodeId, Offset
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header
from tests.unit.client.wires import WireNetwork, WireServer, make_peers
from tests.unit.metadata.world import TestClock, settle


class FollowingQuorum:
    """Node 1, which follows node 2."""

    def __init__(self, peers: Peers | None) -> None:
        self.peers = peers
        self.node_id = NodeId(1)
        self.leader: NodeId | None = NodeId(2)
        self.is_active = False
        self.image: Image = EMPTY


def controller(header: Header, body: Any) -> Any:
    """Answer with the content of the envelope, and report ten committed records."""
    if header.api_key == ApiKey.ENVELOPE:
        return EnvelopeResponse(response_data=body.request_data, error_code=ErrorCode.none)
    partition = PartitionData(
        partition_index=0,  # type: ignore[arg-type]
        error_code=ErrorCode.none,
        error_message=None,
        leader_id=2,  # type: ignore[arg-type]
        leader_epoch=1,  # type: ignore[arg-type]
        high_watermark=10,  # type: ignore[arg-type]
        current_voters=(),
        observers=(),
    )
    topic = TopicData(topic_name=body.topics[0].topic_name, partitions=(partition,))
    return DescribeQuorumResponse(error_code=ErrorCode.none, error_message=None, topics=(topic,), nodes=())


async def test_a_change_is_answered_after_this_node_has_applied_it() -> None:
    network, clock = WireNetwork(), TestClock()
    network.servers["node", 2] = WireServer(controller)
    quorum = FollowingQuorum(make_peers(network, clock))
    relay = Relay(quorum=quorum, clock=clock)  # type: ignore[arg-type]
    assert relay.is_needed
    forwarding = asyncio.ensure_future(relay.forward(b"frame", ApiKey.CREATE_TOPICS, b""))
    await settle()
    assert not forwarding.done(), "the ten records are not applied yet"
    quorum.image = Image(offset=Offset(9))
    clock.advance(0.01)
    assert await forwarding == b"frame"


async def test_a_read_does_not_wait_and_a_node_that_lags_waits_at_most_a_second() -> None:
    network, clock = WireNetwork(), TestClock()
    network.servers["node", 2] = WireServer(controller)
    relay = Relay(quorum=FollowingQuorum(make_peers(network, clock)), clock=clock)  # type: ignore[arg-type]
    assert await relay.forward(b"frame", ApiKey.DESCRIBE_QUORUM, b"") == b"frame"
    forwarding = asyncio.ensure_future(relay.forward(b"frame", ApiKey.CREATE_TOPICS, b""))
    await settle()
    clock.advance(1.1)
    assert await forwarding == b"frame"


def silent(header: Header, body: Any) -> Any:
    """Answer ApiVersions and nothing else, like a process that hangs."""
    return None


async def test_a_node_that_becomes_the_controller_stops_waiting_for_another() -> None:
    network, clock = WireNetwork(), TestClock()
    network.servers["node", 2] = WireServer(silent)
    quorum = FollowingQuorum(make_peers(network, clock))
    relay = Relay(quorum=quorum, clock=clock)  # type: ignore[arg-type]
    forwarding = asyncio.ensure_future(relay.forward(b"frame", ApiKey.CREATE_TOPICS, b""))
    await settle()
    quorum.leader, quorum.is_active = NodeId(1), True
    clock.advance(0.2)
    assert await forwarding is None


async def test_the_next_controller_gets_the_request_when_the_previous_one_hangs() -> None:
    network, clock = WireNetwork(), TestClock()
    network.servers["node", 2] = WireServer(silent)
    network.servers["node", 3] = WireServer(controller)
    quorum = FollowingQuorum(make_peers(network, clock))
    relay = Relay(quorum=quorum, clock=clock)  # type: ignore[arg-type]
    forwarding = asyncio.ensure_future(relay.forward(b"frame", ApiKey.DESCRIBE_QUORUM, b""))
    await settle()
    quorum.leader = NodeId(3)
    clock.advance(0.2)
    assert await forwarding == b"frame"


async def test_forwarding_gives_up_after_a_while_without_a_controller() -> None:
    clock = TestClock()
    quorum = FollowingQuorum(make_peers(WireNetwork(), clock))
    quorum.leader = None
    relay = Relay(quorum=quorum, clock=clock)  # type: ignore[arg-type]
    forwarding = asyncio.ensure_future(relay.forward(b"frame", ApiKey.CREATE_TOPICS, b""))
    await settle()
    clock.advance(31)
    assert await forwarding is None
    assert not Relay(quorum=FollowingQuorum(None), clock=clock).is_needed  # type: ignore[arg-type]


def test_addresses_are_converted_to_bytes() -> None:
    assert address_bytes("127.0.0.1") == b"\x7f\0\0\x01"
    assert address_bytes("not an address") == b""
