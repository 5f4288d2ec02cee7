"""The channel finds the active controller on any node, and repeats the request after it has moved."""

import asyncio
from typing import Any

import pytest
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from penstock.client.channel import ControllerChannel, says_not_controller
from penstock.client.interfaces import PeerUnavailable
from penstock.handlers.support.entities import NO_THROTTLE
from penstock.model.errors import NotController
from penstock.model.ids import NodeId
from tests.unit.metadata.world import TestClock, settle


class Cluster:
    """Three nodes; this is node 1. All but the node named `active` answer NOT_CONTROLLER."""

    def __init__(self) -> None:
        self.clock = TestClock()
        self.known: NodeId | None = NodeId(2)
        self.active = 2
        self.nodes: list[int] = []
        self.channel = ControllerChannel(
            node_id=NodeId(1), peers=self, clock=self.clock, leader=lambda: self.known, local=self.answer_here
        )

    async def answer_here(self, api_key: int, request: Any) -> Any:
        self.nodes.append(1)
        if self.active != 1:
            raise NotController
        return UpdateFeaturesResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message="here")

    async def ask(self, node: NodeId, api_key: int, request: Any, *, timeout_s: float, purpose: str = "") -> Any:
        self.nodes.append(node)
        code = ErrorCode.none if node == self.active else ErrorCode.not_controller
        return UpdateFeaturesResponse(throttle_time=NO_THROTTLE, error_code=code, error_message=None)

    def version(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def ask_raw(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def probe(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def test_a_local_controller_is_called_directly() -> None:
    cluster = Cluster()
    cluster.known, cluster.active = NodeId(1), 1
    assert (await cluster.channel.ask(57, None, timeout_s=1)).error_message == "here"


async def test_not_controller_makes_the_channel_try_the_next_controller() -> None:
    cluster = Cluster()
    cluster.known = NodeId(1)
    response = asyncio.ensure_future(cluster.channel.ask(57, None, timeout_s=1))
    await settle()
    cluster.known = NodeId(3)
    cluster.clock.advance(0.05)
    await settle()
    cluster.known = NodeId(2)
    cluster.clock.advance(0.05)
    await response
    assert cluster.nodes == [1, 3, 2]


async def test_a_request_times_out_without_a_controller() -> None:
    cluster = Cluster()
    cluster.known = None
    response = asyncio.ensure_future(cluster.channel.ask(57, None, timeout_s=0.1))
    for _ in range(10):
        await settle()
        cluster.clock.advance(0.02)
    with pytest.raises(PeerUnavailable, match="no controller is known"):
        await response


def test_not_controller_is_found_in_a_part_of_a_response() -> None:
    def answer(code: ErrorCode) -> DeleteTopicsResponse:
        result = DeletableTopicResult(name=None, topic_id=None, error_code=code, error_message=None)
        return DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=(result,))

    assert says_not_controller(answer(ErrorCode.not_controller))
    assert not says_not_controller(answer(ErrorCode.none))
