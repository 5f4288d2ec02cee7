import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from penstock.client.interfaces import PeerUnavailable
from penstock.membership.producer_ids import ProducerIds
from penstock.model.errors import RequestTimedOut, UnknownProducerId
from penstock.model.ids import NodeId

BLOCK_SIZE = 100


class Controller:
    """A controller that allocates blocks in order, or returns an error."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.error = ErrorCode.none
        self.silent = False

    async def ask(self, api_key: int, request: Any, *, timeout_s: float) -> Any:
        await asyncio.sleep(0)
        if self.silent:
            raise PeerUnavailable("nobody")
        self.requests.append(request)
        first = (len(self.requests) - 1) * BLOCK_SIZE
        return SimpleNamespace(error_code=self.error, producer_id_start=first, producer_id_len=BLOCK_SIZE)


def of(controller: Controller) -> ProducerIds:
    return ProducerIds(controller, NodeId(1), lambda: 7)


async def test_each_id_is_allocated_once_across_blocks_and_callers() -> None:
    controller = Controller()
    ids = of(controller)
    taken = await asyncio.gather(*(ids.take() for _ in range(2 * BLOCK_SIZE + 1)))
    assert sorted(taken) == list(range(2 * BLOCK_SIZE + 1))
    assert [(request.broker_id, request.broker_epoch) for request in controller.requests] == [(1, 7)] * 3


async def test_a_restarted_node_begins_a_new_block() -> None:
    controller = Controller()
    assert await of(controller).take() == 0
    assert await of(controller).take() == BLOCK_SIZE


async def test_no_ids_are_allocated_without_a_controller() -> None:
    controller = Controller()
    controller.silent = True
    with pytest.raises(RequestTimedOut):
        await of(controller).take()
    controller.silent, controller.error = False, ErrorCode.stale_broker_epoch
    with pytest.raises(RequestTimedOut):
        await of(controller).take()
    controller.error = ErrorCode.unknown_producer_id
    with pytest.raises(UnknownProducerId):
        await of(controller).take()
