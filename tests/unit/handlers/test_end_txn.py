"""EndTxn through its handler."""

from typing import Any

import pytest
from kio.schema.end_txn.v5.request import EndTxnRequest

from penstock.coordinator.errors import NotCoordinator
from penstock.handlers import (
    end_txn,
)
from penstock.transactions import commands
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode


@pytest.mark.parametrize("version", range(6))
async def test_the_response_has_the_producer_id_and_epoch_to_continue_with(version: int) -> None:
    node = FakeNode()
    node.transactions.replies[commands.EndTxn] = commands.EndTxnReply(producer_id=7, epoch=4)
    body: Any = EndTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, committed=True)  # type: ignore[arg-type]
    reply = await node.ask(end_txn.handle, ApiKey.END_TXN, body, version=version)
    assert reply.error_code == 0
    assert (reply.producer_id, reply.producer_epoch) == ((7, 4) if version >= 5 else (-1, -1))
    (command,) = node.transactions.commands
    assert (command.is_commit, command.client_version) == (True, 2 if version >= 5 else 0)


@pytest.mark.parametrize(("version", "code"), [(1, 47), (2, 90), (5, 90)])
async def test_the_end_of_a_fenced_producer_is_refused(version: int, code: int) -> None:
    node = FakeNode()
    node.transactions.replies[commands.EndTxn] = commands.EndTxnReply(error=90)
    body: Any = EndTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, committed=False)  # type: ignore[arg-type]
    assert (await node.ask(end_txn.handle, ApiKey.END_TXN, body, version=version)).error_code == code


async def test_a_coordinator_on_another_node_is_an_error() -> None:
    node = FakeNode()
    node.transactions.replies[commands.EndTxn] = NotCoordinator()
    body: Any = EndTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, committed=True)  # type: ignore[arg-type]
    reply = await node.ask(end_txn.handle, ApiKey.END_TXN, body)
    assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (16, -1, -1)
