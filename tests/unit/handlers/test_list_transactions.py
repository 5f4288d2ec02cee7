"""ListTransactions through its handler."""

from typing import Any

import pytest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest

from penstock.coordinator.errors import CoordinatorLoadInProgress
from penstock.handlers import (
    list_transactions,
)
from penstock.scheduling.scheduler import UNPACED
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
    assert (command.producer_ids, command.duration_ms) == (frozenset({7}), 5)
    node.transactions.replies[commands.ListTransactions] = CoordinatorLoadInProgress()
    assert (await node.ask(list_transactions.handle, ApiKey.LIST_TRANSACTIONS, body, version=0)).error_code == 14


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("a.*", ["a", "ab"]), ("a", ["a"]), ("", ["a", "ab", "b"]), (None, ["a", "ab", "b"]), ("[bc]", ["b"])],
)
async def test_a_pattern_matches_whole_ids(pattern: str | None, found: list[str]) -> None:
    reply = await listed(pattern, "a", "ab", "b")
    assert [each.transactional_id for each in reply.transaction_states] == found


@pytest.mark.parametrize("pattern", ["(", "x" * 32_767])
async def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    reply = await listed(pattern, "a")
    assert (reply.error_code, reply.transaction_states) == (128, ())


async def test_a_match_that_may_take_long_runs_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    finish = type(UNPACED).finish

    async def counting(pace: Any, start: Any, **more: Any) -> Any:
        started.append(start)
        return await finish(pace, start, **more)

    monkeypatch.setattr(type(UNPACED), "finish", counting)
    reply = await listed(".{1,300}x*", "a" * 20_000, "a", "x" * 20_000)
    assert [each.transactional_id for each in reply.transaction_states] == ["a", "x" * 20_000]
    assert len(started) == 2


async def listed(pattern: str | None, *names: str) -> Any:
    node = FakeNode()
    node.transactions.replies[commands.ListTransactions] = [
        commands.ListedTransaction(transactional_id=name, producer_id=7, state="Ongoing") for name in names
    ]
    body: Any = ListTransactionsRequest(
        state_filters=(),
        producer_id_filters=(),
        transactional_id_pattern=pattern,
    )
    return await node.ask(list_transactions.handle, ApiKey.LIST_TRANSACTIONS, body)
