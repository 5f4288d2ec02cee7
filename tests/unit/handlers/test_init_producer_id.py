"""InitProducerId through its handler."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

from penstock.coordinator.errors import NotCoordinator
from penstock.handlers import (
    init_producer_id,
)
from penstock.transactions import commands
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SOON


async def init_transactional(node: FakeNode, *, version: int = 5, **fields: Any) -> tuple[int, int, int]:
    values: dict[str, Any] = {"transactional_id": "tx", "transaction_timeout": timedelta(seconds=30)}
    body = InitProducerIdRequest(**values | fields)
    reply = await node.ask(init_producer_id.handle, ApiKey.INIT_PRODUCER_ID, body, version=version)
    return reply.error_code, reply.producer_id, reply.producer_epoch


async def test_a_transactional_producer_gets_its_id_from_the_coordinator() -> None:
    node = FakeNode()
    node.transactions.replies[commands.InitProducerId] = commands.InitProducerIdReply(producer_id=7, epoch=3)
    assert await init_transactional(node) == (0, 7, 3)
    assert node.transactions.commands == [commands.InitProducerId(transactional_id="tx", timeout_ms=30_000)]
    assert await init_transactional(node, producer_id=7, producer_epoch=3) == (0, 7, 3)
    assert (node.transactions.commands[1].producer_id, node.transactions.commands[1].epoch) == (7, 3)


@pytest.mark.parametrize(("version", "code"), [(0, 47), (3, 47), (4, 90), (5, 90)])
async def test_a_fenced_producer_gets_the_error_of_its_version(version: int, code: int) -> None:
    node = FakeNode()
    node.transactions.replies[commands.InitProducerId] = commands.InitProducerIdReply(error=90)
    assert await init_transactional(node, version=version) == (code, -1, -1)


async def test_a_transactional_id_of_another_coordinator_gets_an_error() -> None:
    node = FakeNode()
    node.transactions.replies[commands.InitProducerId] = NotCoordinator()
    assert await init_transactional(node) == (16, -1, -1)


async def init(node: FakeNode, *, version: int = 5, **fields: Any) -> tuple[int, int, int]:
    values: dict[str, Any] = {"transactional_id": None, "transaction_timeout": SOON}
    body = InitProducerIdRequest(**values | fields)
    reply = await node.ask(init_producer_id.handle, ApiKey.INIT_PRODUCER_ID, body, version=version)
    return reply.error_code, reply.producer_id, reply.producer_epoch


async def test_every_producer_gets_a_new_id() -> None:
    node = FakeNode()
    assert [await init(node, version=version) for version in range(6)] == [(0, number, 0) for number in range(6)]
    assert node.image.next_producer_id == 1000


async def test_a_producer_that_had_an_id_gets_another() -> None:
    node = FakeNode()
    await init(node)
    assert await init(node, producer_id=0, producer_epoch=4) == (0, 1, 0)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 5}, 42),
        ({"producer_epoch": 3}, 42),
        ({"transactional_id": ""}, 42),
    ],
)
async def test_an_invalid_request_gets_no_id(fields: dict[str, Any], code: int) -> None:
    node = FakeNode()
    assert await init(node, **fields) == (code, -1, -1)
    assert node.image.next_producer_id == 0
