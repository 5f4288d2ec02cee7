"""The end of transactions: EndTxn of both protocols, aborts by the coordinator, and completion.

The Prepare* record is the decision; the markers are an action that starts when it is
committed, and MarkersWritten moves it to Complete*. Uses turn.py. Answers: INVALID_REQUEST,
INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
"""

from dataclasses import replace

from penstock.model.errors import InvalidRequest, InvalidTxnState, ProducerFenced
from penstock.transactions.commands import (
    AbortNeedsProducerId,
    EndTxn,
    EndTxnReply,
    Markers,
    MarkersWritten,
    ProducerIdNeeded,
)
from penstock.transactions.errors import ConcurrentTransactions, InvalidProducerIdMapping
from penstock.transactions.records import NO_EPOCH, NO_PRODUCER_ID, TransactionValue
from penstock.transactions.settings import VERSION_EPOCH_BUMP
from penstock.transactions.states import ENDING, State
from penstock.transactions.turn import EPOCH_MAX, TIMEOUT, TimerKey, Turn, Volatile, is_exhausted

RETRY_MS = 1_000
"""The delay before an abort that waits for a producer id is retried."""


# -- EndTxn --------------------------------------------------------------------------------


def end(found: TransactionValue | None, volatile: Volatile, command: EndTxn, turn: Turn) -> None:
    if not command.transactional_id:
        turn.answer(EndTxnReply(error=InvalidRequest.code))
    elif found is None:
        turn.answer(EndTxnReply(error=InvalidProducerIdMapping.code))
    elif command.client_version < VERSION_EPOCH_BUMP:
        _end_without_bump(found, volatile, command, turn)
    else:
        _end_with_bump(found, volatile, command, turn)


def _end_without_bump(found: TransactionValue, volatile: Volatile, command: EndTxn, turn: Turn) -> None:
    """End the open transaction of this epoch. A retry looks like the end of the next transaction."""
    error = 0
    completed = State.COMPLETE_COMMIT if command.is_commit else State.COMPLETE_ABORT
    if found.producer_id != command.producer_id:
        error = InvalidProducerIdMapping.code
    elif found.epoch != command.epoch:
        error = ProducerFenced.code
    elif found.state in ENDING:
        error = ConcurrentTransactions.code
    elif found.state is State.ONGOING:
        after = prepare(found, is_commit=command.is_commit, version=0, next_producer_id=NO_PRODUCER_ID, now=turn.now)
        _decided(command.transactional_id, found, after, volatile.last_epoch, turn)
    elif found.state is not completed:
        error = InvalidTxnState.code
    turn.answer(EndTxnReply(error=error))


def _end_with_bump(found: TransactionValue, volatile: Volatile, command: EndTxn, turn: Turn) -> None:
    """End a transaction; the epoch tells the current one from the previous one (KIP-890)."""
    refusal = _mistaken(found, command)
    if refusal:
        turn.answer(EndTxnReply(error=refusal))
        return
    is_retry = _is_retry(found, command)
    if found.state is not State.ONGOING:
        completed = State.COMPLETE_COMMIT if command.is_commit else State.COMPLETE_ABORT
        if is_retry and found.state is completed:
            turn.answer(EndTxnReply(producer_id=found.producer_id, epoch=found.epoch))
            return
        if is_retry or command.is_commit:
            turn.answer(EndTxnReply(error=InvalidTxnState.code))
            return
        # An abort without a transaction: the producer does not know whether its writes have begun one.
    if is_exhausted(found.epoch) and command.fresh_producer_id == NO_PRODUCER_ID:
        turn.answer(ProducerIdNeeded())
        return
    after = prepare(
        found,
        is_commit=command.is_commit,
        version=command.client_version,
        next_producer_id=command.fresh_producer_id if is_exhausted(found.epoch) else NO_PRODUCER_ID,
        now=turn.now,
    )
    after = _decided(command.transactional_id, found, after, found.epoch, turn)
    done = complete(after, turn.now)
    turn.answer(EndTxnReply(producer_id=done.producer_id, epoch=done.epoch))


def _mistaken(found: TransactionValue, command: EndTxn) -> int:
    if found.state in ENDING:
        # Checked first, because the producer may already use the producer id that the end assigns.
        return ConcurrentTransactions.code
    if found.producer_id != command.producer_id and not _is_retry_after_overflow(found, command):
        return InvalidProducerIdMapping.code
    may_be_retry = found.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
    if found.epoch != command.epoch and not (may_be_retry and _is_retry(found, command)):
        return ProducerFenced.code
    return 0


def _is_retry(found: TransactionValue, command: EndTxn) -> bool:
    if found.client_version < VERSION_EPOCH_BUMP:
        # The last end did not raise the epoch: InitProducerId did, for another producer, which fenced this one.
        return False
    return found.epoch == command.epoch + 1 or _is_retry_after_overflow(found, command)


def _is_retry_after_overflow(found: TransactionValue, command: EndTxn) -> bool:
    return found.previous_producer_id == command.producer_id and command.epoch == EPOCH_MAX - 1 and found.epoch == 0


# -- aborts by the coordinator -------------------------------------------------------------


def abort(transactional_id: str, found: TransactionValue, turn: Turn, *, fresh_producer_id: int) -> bool:
    """Abort with a raised epoch, which fences the producer; return False if a new producer id is needed."""
    version = turn.settings.version
    next_producer_id = NO_PRODUCER_ID
    if version >= VERSION_EPOCH_BUMP and is_exhausted(found.epoch):
        if fresh_producer_id == NO_PRODUCER_ID:
            return False
        next_producer_id = fresh_producer_id
    if version >= VERSION_EPOCH_BUMP:
        after = prepare(found, is_commit=False, version=version, next_producer_id=next_producer_id, now=turn.now)
        last_epoch = found.epoch
    else:
        # This abort raises the epoch itself, as version 0 does not; the markers carry the new epoch.
        after = prepare(found, is_commit=False, version=0, next_producer_id=NO_PRODUCER_ID, now=turn.now)
        after = replace(after, epoch=min(found.epoch + 1, EPOCH_MAX))
        last_epoch = NO_EPOCH
    _decided(transactional_id, found, after, last_epoch, turn)
    return True


def abort_timed_out(
    transactional_id: str, found: TransactionValue | None, turn: Turn, *, fresh_producer_id: int
) -> bool:
    """Abort if the transaction has timed out, or set the timer for its deadline."""
    if found is None or found.state is not State.ONGOING:
        return False
    left_ms = time_left_ms(found, turn.now)
    if left_ms > 0:
        turn.set_timer(TimerKey(TIMEOUT, transactional_id), left_ms)
        return False
    if abort(transactional_id, found, turn, fresh_producer_id=fresh_producer_id):
        return True
    turn.act(AbortNeedsProducerId(transactional_id))
    # Retried until it succeeds: nothing else would end the transaction.
    turn.set_timer(TimerKey(TIMEOUT, transactional_id), RETRY_MS)
    return False


def time_left_ms(value: TransactionValue, now: int) -> int:
    """Return the time until the transaction times out; 0 or less if it has."""
    return value.start_ms + value.timeout_ms + 1 - now


# -- the two steps -------------------------------------------------------------------------


def prepare(
    found: TransactionValue, *, is_commit: bool, version: int, next_producer_id: int, now: int
) -> TransactionValue:
    """Return the Prepare* state. From version 2 on the epoch is raised, and the markers carry the new one."""
    return replace(
        found,
        state=State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT,
        previous_producer_id=found.producer_id,
        next_producer_id=next_producer_id,
        epoch=min(found.epoch + 1, EPOCH_MAX) if version >= VERSION_EPOCH_BUMP else found.epoch,
        # A transaction that never began has no start time, but a completed one must have one.
        start_ms=found.start_ms if found.state is State.ONGOING else now,
        last_update_ms=now,
        client_version=version,
    )


def complete(found: TransactionValue, now: int) -> TransactionValue:
    has_next = found.next_producer_id != NO_PRODUCER_ID and found.client_version >= VERSION_EPOCH_BUMP
    return replace(
        found,
        state=State.COMPLETE_COMMIT if found.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
        producer_id=found.next_producer_id if has_next else found.producer_id,
        previous_producer_id=found.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        epoch=0 if has_next else found.epoch,
        partitions=frozenset(),
        last_update_ms=now,
    )


def _decided(
    transactional_id: str, before: TransactionValue, after: TransactionValue, last_epoch: int, turn: Turn
) -> TransactionValue:
    markers = markers_of(transactional_id, after)
    turn.act(markers)
    return turn.move(transactional_id, before.state, after, Volatile(last_epoch, markers))


def markers_of(transactional_id: str, value: TransactionValue) -> Markers:
    return Markers(
        transactional_id,
        value.producer_id,
        value.epoch,
        value.state is State.PREPARE_COMMIT,
        tuple(sorted(value.partitions)),
        value.client_version,
    )


def markers_written(found: TransactionValue | None, volatile: Volatile, command: MarkersWritten, turn: Turn) -> None:
    """Complete the transaction if these are its markers; others may have the same producer id and epoch."""
    is_present = volatile.markers is command.markers
    if is_present and found is not None and found.state in ENDING:
        turn.move(
            command.markers.transactional_id, found.state, complete(found, turn.now), Volatile(volatile.last_epoch)
        )
        turn.answer(True)
    else:
        turn.answer(False)
