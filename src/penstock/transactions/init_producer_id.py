"""InitProducerId: assigns a producer id and epoch to the producer of a transactional id.

A new producer raises the epoch, which fences the previous one, whose open transaction is aborted first.
A producer that continues after an error (KIP-360) sends its producer id and epoch. Calls ending.py for the abort.
Answers: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
"""

from dataclasses import replace

from penstock.model.errors import InvalidRequest, InvalidTransactionTimeout, ProducerFenced
from penstock.transactions.commands import InitProducerId, InitProducerIdReply, ProducerIdNeeded
from penstock.transactions.ending import abort
from penstock.transactions.errors import ConcurrentTransactions
from penstock.transactions.records import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TransactionValue
from penstock.transactions.states import ENDING, State
from penstock.transactions.turn import Turn, Volatile, is_exhausted


def init(found: TransactionValue | None, volatile: Volatile, command: InitProducerId, turn: Turn) -> None:
    refusal = _mistaken(found, command, turn)
    if refusal:
        turn.answer(InitProducerIdReply(error=refusal))
    elif found is None:
        _begin(command, turn)
    elif found.state is State.ONGOING:
        # The epoch of the abort is not given to any producer: the client retries and gets the next one.
        if abort(command.transactional_id, found, turn, fresh_producer_id=command.fresh_producer_id):
            turn.answer(InitProducerIdReply(error=ConcurrentTransactions.code))
        else:
            turn.answer(ProducerIdNeeded())
    else:
        _raise_epoch(found, volatile, command, turn)


def _mistaken(found: TransactionValue | None, command: InitProducerId, turn: Turn) -> int:
    if not command.transactional_id or (command.producer_id == NO_PRODUCER_ID) != (command.epoch == NO_EPOCH):
        return InvalidRequest.code
    if not 0 < command.timeout_ms <= turn.settings.timeout_ms_max:
        return InvalidTransactionTimeout.code
    if found is None:
        return 0
    if found.state in ENDING:
        return ConcurrentTransactions.code
    if _is_continuing(command) and not _may_continue(found, command):
        return ProducerFenced.code
    return 0


def _is_continuing(command: InitProducerId) -> bool:
    return command.producer_id != NO_PRODUCER_ID


def _may_continue(found: TransactionValue, command: InitProducerId) -> bool:
    """Return whether the producer id is the current one, or the one whose epochs were exhausted before it."""
    return command.producer_id == found.producer_id or (
        command.producer_id == found.previous_producer_id and is_exhausted(command.epoch)
    )


def _begin(command: InitProducerId, turn: Turn) -> None:
    if command.fresh_producer_id == NO_PRODUCER_ID:
        turn.answer(ProducerIdNeeded())
        return
    after = TransactionValue(
        producer_id=command.fresh_producer_id,
        previous_producer_id=command.fresh_producer_id,
        epoch=0,
        timeout_ms=command.timeout_ms,
        state=State.EMPTY,
        last_update_ms=turn.now,
    )
    turn.move(command.transactional_id, None, after, Volatile())
    turn.answer(InitProducerIdReply(producer_id=after.producer_id, epoch=after.epoch))


def _raise_epoch(found: TransactionValue, volatile: Volatile, command: InitProducerId, turn: Turn) -> None:
    producer_id, last_epoch = found.producer_id, NO_EPOCH
    is_first_try = not _is_continuing(command) or command.epoch == found.epoch
    if not is_first_try:
        if command.epoch != volatile.last_epoch:
            turn.answer(InitProducerIdReply(error=ProducerFenced.code))
            return
        # A retry whose first reply was lost. If a new producer had raised the epoch, last_epoch would be unset.
        epoch, last_epoch = found.epoch, volatile.last_epoch
    elif is_exhausted(found.epoch):
        if command.fresh_producer_id == NO_PRODUCER_ID:
            turn.answer(ProducerIdNeeded())
            return
        producer_id, epoch = command.fresh_producer_id, 0
    else:
        epoch = found.epoch + 1
    if is_first_try and _is_continuing(command):
        last_epoch = found.epoch
    after = replace(
        found,
        state=State.EMPTY,
        producer_id=producer_id,
        previous_producer_id=found.producer_id,
        epoch=epoch,
        timeout_ms=command.timeout_ms,
        partitions=frozenset(),
        last_update_ms=turn.now,
        start_ms=NO_TIMESTAMP,
    )
    turn.move(command.transactional_id, found.state, after, Volatile(last_epoch))
    turn.answer(InitProducerIdReply(producer_id=after.producer_id, epoch=after.epoch))
