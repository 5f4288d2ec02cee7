"""Requests to peers: responses are matched, requests time out, and the kinds of failure are distinguished."""

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from penstock.client.interfaces import PeerGone, PeerUnavailable
from penstock.handlers.support.entities import NO_THROTTLE
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header, parse_response_header, request_head
from tests.unit.client.wires import WireNetwork, WireServer, make_peers
from tests.unit.metadata.world import TestClock, settle

KEY = ApiKey.FIND_COORDINATOR


def request_for(name: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=0, coordinator_keys=(name,))  # type: ignore[arg-type]


def answer_to(_: Header, request: Any) -> FindCoordinatorResponse:
    coordinators = tuple(
        Coordinator(key=key, node_id=1, host="h", port=1, error_code=ErrorCode.none, error_message=None)  # type: ignore[arg-type]
        for key in request.coordinator_keys
    )
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=coordinators)


async def test_a_response_is_an_entity_in_the_highest_version_that_both_sides_support() -> None:
    network, clock = WireNetwork(), TestClock()
    server = network.servers["node", 2] = WireServer(answer_to)
    server.most[KEY] = 4
    answer = await make_peers(network, clock).ask(2, KEY, request_for("g"), timeout_s=1)
    assert answer.coordinators[0].key == "g"
    assert server.requests[0].version == 4


async def test_responses_out_of_order_reach_their_requests() -> None:
    network, clock = WireNetwork(), TestClock()
    waiting: list[tuple[Header, Any]] = []
    server = network.servers["node", 2] = WireServer(lambda header, body: waiting.append((header, body)))
    peers = make_peers(network, clock)
    first = asyncio.ensure_future(peers.ask(2, KEY, request_for("a"), timeout_s=1))
    second = asyncio.ensure_future(peers.ask(2, KEY, request_for("b"), timeout_s=1))
    await settle()
    assert len(server.wires) == 1
    for header, body in reversed(waiting):
        server.reply(server.wires[0], header, answer_to(header, body))
    assert (await first).coordinators[0].key == "a"
    assert (await second).coordinators[0].key == "b"


async def test_each_purpose_has_its_own_connection() -> None:
    network, clock = WireNetwork(), TestClock()
    server = network.servers["node", 2] = WireServer(answer_to)
    peers = make_peers(network, clock)
    await peers.ask(2, KEY, request_for("a"), timeout_s=1, purpose="fetch")
    await peers.ask(2, KEY, request_for("a"), timeout_s=1, purpose="heartbeat")
    assert len(server.wires) == 2


async def test_a_refused_connection_means_that_the_process_is_gone() -> None:
    peers = make_peers(WireNetwork(), TestClock())
    with pytest.raises(PeerGone):
        await peers.ask(2, KEY, request_for("a"), timeout_s=1)
    with pytest.raises(PeerGone):
        await peers.probe(2, timeout_s=1)
    with pytest.raises(PeerUnavailable, match="address of node 99 is unknown"):
        await peers.ask(99, KEY, request_for("a"), timeout_s=1)


async def test_a_silent_peer_is_not_gone_but_its_connection_is_closed() -> None:
    network, clock = WireNetwork(), TestClock()
    server = network.servers["node", 2] = WireServer(lambda header, body: None)
    response = asyncio.ensure_future(make_peers(network, clock).ask(2, KEY, request_for("a"), timeout_s=1))
    await settle()
    clock.advance(2)
    with pytest.raises(PeerUnavailable) as caught:
        await response
    assert not isinstance(caught.value, PeerGone)
    assert not server.wires


async def test_a_late_response_does_no_harm_if_the_peer_has_answered_other_requests() -> None:
    network, clock = WireNetwork(), TestClock()
    kept: list[Header] = []
    server = network.servers["node", 2] = WireServer(
        lambda header, body: kept.append(header) if "slow" in body.coordinator_keys else answer_to(header, body)
    )
    peers = make_peers(network, clock)
    slow = asyncio.ensure_future(peers.ask(2, KEY, request_for("slow"), timeout_s=1))
    await settle()
    clock.advance(0.5)
    await peers.ask(2, KEY, request_for("quick"), timeout_s=1)
    clock.advance(0.6)
    with pytest.raises(PeerUnavailable):
        await slow
    server.reply(server.wires[0], kept[0], answer_to(kept[0], request_for("slow")))
    assert (await peers.ask(2, KEY, request_for("b"), timeout_s=1)).coordinators[0].key == "b"
    assert network.dialled == 1


async def test_a_broken_connection_fails_requests_in_flight_and_the_next_request_opens_a_new_one() -> None:
    network, clock = WireNetwork(), TestClock()
    silent = network.servers["node", 2] = WireServer(lambda header, body: None)
    peers = make_peers(network, clock)
    response = asyncio.ensure_future(peers.ask(2, KEY, request_for("a"), timeout_s=1))
    await settle()
    silent.wires[0].break_off(ConnectionResetError())
    with pytest.raises(PeerUnavailable, match="broke"):
        await response
    network.servers["node", 2] = WireServer(answer_to)
    assert (await peers.ask(2, KEY, request_for("a"), timeout_s=1)).coordinators


async def test_attempts_after_a_failure_wait_longer_each_time() -> None:
    network, clock = WireNetwork(), TestClock()
    peers = make_peers(network, clock)
    with pytest.raises(PeerGone):
        await peers.ask(2, KEY, request_for("a"), timeout_s=9)
    again = asyncio.ensure_future(peers.ask(2, KEY, request_for("a"), timeout_s=9))
    await settle()
    assert network.dialled == 1
    clock.advance(0.03)
    with pytest.raises(PeerGone):
        await again
    third = asyncio.ensure_future(peers.ask(2, KEY, request_for("a"), timeout_s=9))
    await settle()
    clock.advance(0.029)
    await settle()
    assert network.dialled == 2
    clock.advance(0.03)
    with pytest.raises(PeerGone):
        await third


async def test_a_raw_response_is_read_from_the_ports_buffer() -> None:
    network, clock = WireNetwork(), TestClock()
    network.servers["node", 2] = WireServer(answer_to)
    peers = make_peers(network, clock)
    version = await peers.version(2, KEY, timeout_s=1)
    head = request_head(KEY, version, 77, "me", 5)
    body = b"\x00\x02\x02g\x00"
    seen: list[type] = []

    def read(frame: memoryview) -> int:
        seen.append(type(frame))
        return len(frame) - parse_response_header(KEY, version, frame)[1]

    assert await peers.ask_raw(2, bytearray(head[4:] + body), timeout_s=1, read=read) > 10
    assert seen == [memoryview]


async def test_closing_fails_waiting_and_later_requests() -> None:
    network, clock = WireNetwork(), TestClock()
    network.servers["node", 2] = WireServer(lambda header, body: None)
    peers = make_peers(network, clock)
    response = asyncio.ensure_future(peers.ask(2, KEY, request_for("a"), timeout_s=1))
    await settle()
    peers.close()
    with pytest.raises(PeerUnavailable):
        await response
    with pytest.raises(PeerUnavailable):
        await peers.ask(2, KEY, request_for("a"), timeout_s=1)
