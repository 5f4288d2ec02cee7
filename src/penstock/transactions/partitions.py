"""The partitions of the open transaction: adding and verifying them.

The first partition opens the transaction. A request is answered only when the record with the partition is committed:
a partition that could be lost would never get its marker. Answers: INVALID_REQUEST,
INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE.
"""

from dataclasses import replace

from penstock.model.errors import NO_ERROR, InvalidRequest, ProducerFenced
from penstock.transactions.commands import AddPartitions, VerifyPartitions
from penstock.transactions.ending import time_left_ms
from penstock.transactions.errors import ConcurrentTransactions, InvalidProducerIdMapping, TransactionAbortable
from penstock.transactions.records import TransactionValue
from penstock.transactions.states import ENDING, State
from penstock.transactions.turn import TIMEOUT, TimerKey, Turn, Volatile


def add(found: TransactionValue | None, volatile: Volatile, command: AddPartitions, turn: Turn) -> None:
    error = _refusal(found, command)
    if found is not None and error == NO_ERROR and not _has_all(found, command):
        _add(found, volatile, command, turn)
    turn.answer(error)


def _has_all(found: TransactionValue, command: AddPartitions) -> bool:
    return found.state is State.ONGOING and command.partitions <= found.partitions


def _refusal(found: TransactionValue | None, command: AddPartitions) -> int:
    if not command.transactional_id:
        return InvalidRequest.code
    if found is None:
        return InvalidProducerIdMapping.code
    if found.state in ENDING:
        # Checked first, because the producer may already use the producer id that the end assigns.
        return ConcurrentTransactions.code
    if found.producer_id != command.producer_id:
        return InvalidProducerIdMapping.code
    return NO_ERROR if found.epoch == command.epoch else ProducerFenced.code


def _add(found: TransactionValue, volatile: Volatile, command: AddPartitions, turn: Turn) -> None:
    after = replace(
        found,
        state=State.ONGOING,
        previous_producer_id=found.producer_id,
        partitions=found.partitions | command.partitions,
        start_ms=found.start_ms if found.state is State.ONGOING else turn.now,
        last_update_ms=turn.now,
        client_version=command.client_version,
    )
    after = turn.move(command.transactional_id, found.state, after, Volatile(volatile.last_epoch))
    if found.state is not State.ONGOING:
        turn.set_timer(TimerKey(TIMEOUT, command.transactional_id), time_left_ms(after, turn.now))


def verify(found: TransactionValue | None, command: VerifyPartitions, turn: Turn) -> None:
    error = NO_ERROR
    if not command.transactional_id:
        error = InvalidRequest.code
    elif found is None or found.producer_id != command.producer_id:
        error = InvalidProducerIdMapping.code
    elif found.epoch != command.epoch:
        error = ProducerFenced.code
    elif found.state in ENDING:
        error = ConcurrentTransactions.code
    else:
        turn.answer(
            tuple(
                NO_ERROR if partition in found.partitions else TransactionAbortable.code
                for partition in command.partitions
            )
        )
        return
    turn.answer((error,) * len(command.partitions))
