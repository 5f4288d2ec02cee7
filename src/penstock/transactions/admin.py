"""DescribeTransactions, ListTransactions, and the expiration of unused transactional ids.

Answers: INVALID_REQUEST and TRANSACTIONAL_ID_NOT_FOUND.
"""

from collections.abc import Mapping

from penstock.model.errors import InvalidRequest
from penstock.transactions.commands import (
    DescribedTransaction,
    DescribeTransaction,
    ListedTransaction,
    ListTransactions,
)
from penstock.transactions.errors import TransactionalIdNotFound
from penstock.transactions.records import TransactionRecord, TransactionValue
from penstock.transactions.states import STATES
from penstock.transactions.turn import EXPIRATION, TimerKey, Turn


def describe(found: TransactionValue | None, command: DescribeTransaction, turn: Turn) -> None:
    name = command.transactional_id
    if not name:
        turn.answer(DescribedTransaction(error=InvalidRequest.code, transactional_id=name))
    elif found is None:
        turn.answer(DescribedTransaction(error=TransactionalIdNotFound.code, transactional_id=name))
    else:
        turn.answer(
            DescribedTransaction(
                transactional_id=name,
                state=STATES[found.state].name,
                timeout_ms=found.timeout_ms,
                start_ms=found.start_ms,
                producer_id=found.producer_id,
                epoch=found.epoch,
                partitions=tuple(sorted(found.partitions)),
            )
        )


def list_transactions(transactions: Mapping[str, TransactionValue], command: ListTransactions, turn: Turn) -> None:
    turn.answer(
        tuple(
            ListedTransaction(transactional_id=name, producer_id=value.producer_id, state=STATES[value.state].name)
            for name, value in transactions.items()
            if _matches(value, command, turn.now)
        )
    )


def _matches(value: TransactionValue, command: ListTransactions, now: int) -> bool:
    if command.producer_ids and value.producer_id not in command.producer_ids:
        return False
    if command.states and STATES[value.state].name not in command.states:
        return False
    return command.duration_ms < 0 or now - value.start_ms > command.duration_ms


def sweep(transactions: Mapping[str, TransactionValue], turn: Turn) -> None:
    """Write tombstones for the ids that have expired."""
    oldest = turn.now - turn.settings.transactional_id_expiration_ms
    turn.decision.records += [
        TransactionRecord(name, None)
        for name, value in transactions.items()
        if STATES[value.state].may_expire and value.last_update_ms <= oldest
    ]
    turn.decision.is_atomic = False
    turn.set_timer(TimerKey(EXPIRATION), turn.settings.expiration_check_interval_ms)
