"""ListTransactions through its handler."""

from typing import Any

from kio.schema.list_transactions.v2.request import ListTransactionsRequest

from penstock.coordinator.errors import CoordinatorLoadInProgress
from penstock.handlers import (
    list_transactions,
)
from penstock.transactions import commands
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode


async def test_transactions_are_listed_and_unknown_states_named() -> None:
    node = FakeNode()
    node.transactions.replies[commands.ListTransactions] = [
        commands.ListedTransaction(transactional_id="tx", producer_id=7, state="Ongoing")
    ]
    body: Any = ListTransactionsRequest(
        state_filters=("Ongoing", "Sleeping", "Sleeping"),
        producer_id_filters=(7,),  # type: ignore[arg-type]
        duration_filter=5,  # type: ignore[arg-type]
        transactional_id_pattern="t.*",
    )
    reply = await node.ask(list_transactions.handle, ApiKey.LIST_TRANSACTIONS, body)
    assert reply.unknown_state_filters == ("Sleeping",)
    assert [(each.transactional_id, each.producer_id, each.transaction_state) for each in reply.transaction_states] == [
        ("tx", 7, "Ongoing")
    ]
    (command,) = node.transactions.commands
    assert (command.producer_ids, command.duration_ms, command.pattern) == (frozenset({7}), 5, "t.*")
    node.transactions.replies[commands.ListTransactions] = CoordinatorLoadInProgress()
    assert (await node.ask(list_transactions.handle, ApiKey.LIST_TRANSACTIONS, body, version=0)).error_code == 14
