"""The response to each request in each state, as in Kafka 4.3.1."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.coordinator.decision import NO_TICKET, Expired, Ticket
from penstock.transactions.commands import (
    AbortNeedsProducerId,
    AbortTimedOut,
    DescribeTransaction,
    EndTxn,
    EndTxnReply,
    InitProducerId,
    InitProducerIdReply,
    ListTransactions,
    Markers,
    MarkersWritten,
    ProducerIdNeeded,
)
from penstock.transactions.records import TransactionValue
from penstock.transactions.states import ENDING, State
from penstock.transactions.turn import TIMEOUT, TimerKey
from tests.unit.transactions.harness import ID, P0, P1, P2, TIMEOUT_MS, Harness, partition

OK = 0
INVALID_REQUEST = 42
INVALID_TXN_STATE = 48
INVALID_PRODUCER_ID_MAPPING = 49
INVALID_TRANSACTION_TIMEOUT = 50
CONCURRENT = 51
FENCED = 90
NOT_FOUND = 105
ABORTABLE = 120
PID = 1_001
DAY_MS = 86_400_000


def unknown() -> Harness:
    return Harness()


def empty(version: int = 2) -> Harness:
    host = Harness()
    assert host.init() == InitProducerIdReply(producer_id=PID, epoch=0)
    return host


def ongoing(version: int = 2) -> Harness:
    host = empty()
    assert host.add(PID, 0, P0, P1, version=version) == OK
    return host


def prepared(commit: bool, version: int = 2) -> Harness:
    host = ongoing(version)
    assert host.end(PID, 0, commit=commit, version=version).error == OK
    return host


def complete(commit: bool, version: int = 2) -> Harness:
    host = prepared(commit, version)
    host.write_markers()
    return host


MAKE: dict[State, Callable[[int], Harness]] = {
    State.EMPTY: empty,
    State.ONGOING: ongoing,
    State.PREPARE_COMMIT: lambda version: prepared(True, version),
    State.PREPARE_ABORT: lambda version: prepared(False, version),
    State.COMPLETE_COMMIT: lambda version: complete(True, version),
    State.COMPLETE_ABORT: lambda version: complete(False, version),
}


def at(state: State, version: int = 2) -> tuple[Harness, int]:
    """Return a shard whose id is in the state, and its current epoch."""
    host = MAKE[state](version)
    assert host.state() is state
    return host, host.value().epoch


def near_the_end(epoch: int, state: State = State.EMPTY, **more: Any) -> Harness:
    host = Harness()
    is_open = state in (State.ONGOING, *ENDING)
    host.put(
        TransactionValue(
            producer_id=900,
            previous_producer_id=900,
            epoch=epoch,
            timeout_ms=TIMEOUT_MS,
            state=state,
            partitions=frozenset({P0}) if is_open else frozenset(),
            last_update_ms=host.now,
            start_ms=-1 if state is State.EMPTY else host.now,
            client_version=2,
            **more,
        )
    )
    return host


# -- InitProducerId --------------------------------------------------------------------------


def test_an_unknown_id_gets_a_new_producer_id_with_epoch_0() -> None:
    host = unknown()
    assert host.run(InitProducerId(transactional_id=ID, timeout_ms=1)) == ProducerIdNeeded()
    assert not host.log
    assert host.init(timeout_ms=7) == InitProducerIdReply(producer_id=PID, epoch=0)
    assert host.value() == TransactionValue(
        producer_id=PID,
        previous_producer_id=PID,
        epoch=0,
        timeout_ms=7,
        state=State.EMPTY,
        last_update_ms=host.now,
    )


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
@pytest.mark.parametrize("version", [0, 2])
def test_a_new_producer_raises_the_epoch(state: State, version: int) -> None:
    host, epoch = at(state, version)
    assert host.init(timeout_ms=5) == InitProducerIdReply(producer_id=PID, epoch=epoch + 1)
    assert (host.state(), host.value().timeout_ms, host.value().start_ms) == (State.EMPTY, 5, -1)
    assert host.add(PID, epoch) == FENCED
    assert host.end(PID, epoch, commit=False).error == FENCED


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_new_producer_aborts_the_open_transaction_first(level: int) -> None:
    host = Harness(version=level)
    host.init()
    host.add(PID, 0, P0, P1, version=0)
    assert host.init().error == CONCURRENT
    assert host.state() is State.PREPARE_ABORT
    assert host.init().error == CONCURRENT
    version = 2 if level == 2 else 0
    assert host.write_markers() == [Markers(ID, PID, 1, False, (P0, P1), version)]
    assert host.init() == InitProducerIdReply(producer_id=PID, epoch=2)


@pytest.mark.parametrize("state", sorted(ENDING))
def test_init_fails_while_the_last_transaction_is_ending(state: State) -> None:
    host, epoch = at(state)
    assert host.init().error == CONCURRENT
    assert host.init(producer_id=5, epoch=3).error == CONCURRENT
    host.write_markers()
    assert host.init() == InitProducerIdReply(producer_id=PID, epoch=epoch + 1)


@pytest.mark.parametrize(
    ("timeout_ms", "error"), [(0, 50), (-1, 50), (900_001, 50), (2**31 - 1, 50), (1, OK), (900_000, OK)]
)
def test_the_timeout_has_limits(timeout_ms: int, error: int) -> None:
    assert Harness().init(timeout_ms=timeout_ms).error == error


def test_malformed_requests_are_rejected() -> None:
    host = empty()
    assert host.init(name="").error == INVALID_REQUEST
    assert host.init(producer_id=PID).error == INVALID_REQUEST
    assert host.init(epoch=0).error == INVALID_REQUEST
    assert host.add(PID, 0, name="") == INVALID_REQUEST
    assert host.verify(PID, 0, P0, P1, name="") == (INVALID_REQUEST, INVALID_REQUEST)
    assert host.end(PID, 0, commit=True, name="").error == INVALID_REQUEST
    assert host.end(PID, 0, commit=True, name="", version=0).error == INVALID_REQUEST


def test_a_producer_continues_with_its_epoch_and_may_retry() -> None:
    host = empty()
    assert host.init(producer_id=PID, epoch=0) == InitProducerIdReply(producer_id=PID, epoch=1)
    assert host.init(producer_id=PID, epoch=0) == InitProducerIdReply(producer_id=PID, epoch=1)
    assert host.init(producer_id=PID, epoch=1) == InitProducerIdReply(producer_id=PID, epoch=2)
    assert host.init(producer_id=PID, epoch=0).error == FENCED


def test_a_new_producer_invalidates_the_previous_epoch() -> None:
    host = empty()
    host.init(producer_id=PID, epoch=0)
    host.init()
    assert host.value().epoch == 2
    for epoch in (0, 1):
        assert host.init(producer_id=PID, epoch=epoch).error == FENCED


def test_a_retry_across_a_restart_is_fenced() -> None:
    host = empty()
    host.init(producer_id=PID, epoch=0)
    host.restart()
    assert host.init(producer_id=PID, epoch=0).error == FENCED


def test_a_producer_with_another_id_is_fenced() -> None:
    host = empty()
    assert host.init(producer_id=PID + 1, epoch=0).error == FENCED
    assert ongoing().init(producer_id=PID + 1, epoch=0).error == FENCED


def test_a_producer_of_an_expired_id_gets_a_new_producer_id() -> None:
    assert unknown().init(producer_id=77, epoch=8) == InitProducerIdReply(producer_id=PID, epoch=0)


def test_a_version_2_producer_that_missed_the_end_continues_with_the_raised_epoch() -> None:
    host = complete(True)
    assert host.init(producer_id=PID, epoch=0) == InitProducerIdReply(producer_id=PID, epoch=1)


def test_exhausted_epochs_lead_to_a_new_producer_id() -> None:
    host = near_the_end(32_765)
    assert host.init() == InitProducerIdReply(producer_id=900, epoch=32_766)
    assert host.init() == InitProducerIdReply(producer_id=PID, epoch=0)
    assert host.value().previous_producer_id == 900
    assert host.add(900, 32_766) == INVALID_PRODUCER_ID_MAPPING


def test_a_retry_after_a_change_of_producer_id_gets_the_same_reply() -> None:
    host = near_the_end(32_766)
    assert host.init(producer_id=900, epoch=32_766) == InitProducerIdReply(producer_id=PID, epoch=0)
    assert host.init(producer_id=900, epoch=32_766) == InitProducerIdReply(producer_id=PID, epoch=0)
    assert host.init(producer_id=900, epoch=32_765).error == FENCED
    host.init()
    assert host.init(producer_id=900, epoch=32_766).error == FENCED


def test_a_retry_at_the_last_epoch_gets_the_same_reply_and_a_zombie_is_fenced() -> None:
    host = near_the_end(32_765)
    assert host.init(producer_id=900, epoch=32_765).epoch == 32_766
    assert host.init(producer_id=900, epoch=32_765) == InitProducerIdReply(producer_id=900, epoch=32_766)
    assert host.init(producer_id=900, epoch=7).error == FENCED


@pytest.mark.parametrize("level", [1, 2])
def test_fencing_the_last_epoch_still_works(level: int) -> None:
    host = Harness(version=level)
    host.init()
    host.put(replace(host.value(), epoch=32_766, state=State.ONGOING, partitions=frozenset({P0}), start_ms=host.now))
    assert host.init().error == CONCURRENT
    (markers,) = host.write_markers()
    assert (markers.producer_id, markers.epoch) == (PID, 32_767)
    reply = host.init()
    assert reply.error == OK and reply.producer_id > PID
    assert reply.epoch == (1 if level == 2 else 0)


# -- AddPartitions, verification ---------------------------------------------------------------

ADDED = {
    State.EMPTY: OK,
    State.ONGOING: OK,
    State.PREPARE_COMMIT: CONCURRENT,
    State.PREPARE_ABORT: CONCURRENT,
    State.COMPLETE_COMMIT: OK,
    State.COMPLETE_ABORT: OK,
}


@pytest.mark.parametrize("state", ADDED)
@pytest.mark.parametrize("version", [0, 2])
def test_adding_partitions(state: State, version: int) -> None:
    host, epoch = at(state, version)
    before = host.value()
    host.now += 1_000
    is_ending = state in ENDING
    assert host.add(PID + 1, epoch) == (CONCURRENT if is_ending else INVALID_PRODUCER_ID_MAPPING)
    assert host.add(PID, epoch + 1) == (CONCURRENT if is_ending else FENCED)
    assert host.add(PID, epoch - 1) == (CONCURRENT if is_ending else FENCED)
    assert host.value() == before
    assert host.add(PID, epoch, P2, version=version) == ADDED[state]
    if not is_ending:
        after = host.value()
        assert (after.state, after.epoch, after.client_version) == (State.ONGOING, epoch, version)
        assert after.start_ms == (before.start_ms if state is State.ONGOING else host.now)
        assert after.partitions == before.partitions | {P2}


def test_adding_to_an_unknown_id_fails() -> None:
    assert unknown().add(PID, 0) == INVALID_PRODUCER_ID_MAPPING


def test_partitions_already_in_the_transaction_are_not_written_again() -> None:
    host = ongoing()
    size = len(host.log)
    assert host.add(PID, 0, P1) == OK
    assert len(host.log) == size
    assert host.add(PID, 0, P1, P2) == OK
    assert len(host.log) == size + 1


VERIFIED = {
    State.EMPTY: (ABORTABLE, ABORTABLE),
    State.ONGOING: (OK, ABORTABLE),
    State.PREPARE_COMMIT: (CONCURRENT, CONCURRENT),
    State.PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    State.COMPLETE_COMMIT: (ABORTABLE, ABORTABLE),
    State.COMPLETE_ABORT: (ABORTABLE, ABORTABLE),
}


@pytest.mark.parametrize("state", VERIFIED)
def test_verifying_partitions(state: State) -> None:
    host, epoch = at(state, 0)
    size = len(host.log)
    assert host.verify(PID, epoch, P1, P2) == VERIFIED[state]
    assert host.verify(PID + 1, epoch, P1) == (INVALID_PRODUCER_ID_MAPPING,)
    assert host.verify(PID, epoch + 1, P1) == (FENCED,)
    assert host.verify(PID, epoch, P1, name="other") == (INVALID_PRODUCER_ID_MAPPING,)
    assert len(host.log) == size


# -- EndTxn, old protocol ----------------------------------------------------------------------

# fmt: off
ENDED_AS_BEFORE = {  # abort, commit
    State.EMPTY:           (INVALID_TXN_STATE, INVALID_TXN_STATE),
    State.ONGOING:         (OK, OK),
    State.PREPARE_COMMIT:  (CONCURRENT, CONCURRENT),
    State.PREPARE_ABORT:   (CONCURRENT, CONCURRENT),
    State.COMPLETE_COMMIT: (INVALID_TXN_STATE, OK),
    State.COMPLETE_ABORT:  (OK, INVALID_TXN_STATE),
}
# fmt: on


@pytest.mark.parametrize("state", ENDED_AS_BEFORE)
@pytest.mark.parametrize("commit", [False, True])
def test_ending_with_the_old_protocol(state: State, commit: bool) -> None:
    host, epoch = at(state, 0)
    assert epoch == 0
    size = len(host.log)
    assert host.end(PID + 1, epoch, commit=commit, version=0).error == INVALID_PRODUCER_ID_MAPPING
    assert host.end(PID, epoch + 1, commit=commit, version=0).error == FENCED
    assert host.end(PID, epoch - 1, commit=commit, version=0).error == FENCED
    assert host.end(PID, epoch, commit=commit, version=0) == EndTxnReply(error=ENDED_AS_BEFORE[state][commit])
    if state is State.ONGOING:
        assert host.state() is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
        assert host.write_markers() == [Markers(ID, PID, 0, commit, (P0, P1), 0)]
        assert host.value().epoch == 0 and not host.value().partitions
    else:
        assert len(host.log) == size


def test_ending_an_unknown_transaction_is_rejected() -> None:
    assert unknown().end(PID, 0, commit=True, version=0).error == INVALID_PRODUCER_ID_MAPPING
    assert unknown().end(PID, 0, commit=True, version=2).error == INVALID_PRODUCER_ID_MAPPING


# -- EndTxn, version 2 -------------------------------------------------------------------------

BUMP = -1
# fmt: off
ENDED = {  # (abort: retry, current), (commit: retry, current)
    State.EMPTY:           ((FENCED, BUMP), (FENCED, INVALID_TXN_STATE)),
    State.ONGOING:         ((FENCED, BUMP), (FENCED, BUMP)),
    State.PREPARE_COMMIT:  ((CONCURRENT, CONCURRENT), (CONCURRENT, CONCURRENT)),
    State.PREPARE_ABORT:   ((CONCURRENT, CONCURRENT), (CONCURRENT, CONCURRENT)),
    State.COMPLETE_COMMIT: ((INVALID_TXN_STATE, BUMP), (OK, INVALID_TXN_STATE)),
    State.COMPLETE_ABORT:  ((OK, BUMP), (INVALID_TXN_STATE, INVALID_TXN_STATE)),
}
# fmt: on


@pytest.mark.parametrize("state", ENDED)
@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("current", [False, True])
def test_ending_with_version_2(state: State, commit: bool, current: bool) -> None:
    host, epoch = at(state)
    is_ending = state in ENDING
    size = len(host.log)
    assert host.end(PID + 1, epoch, commit=commit).error == (CONCURRENT if is_ending else INVALID_PRODUCER_ID_MAPPING)
    assert host.end(PID, epoch + 1, commit=commit).error == (CONCURRENT if is_ending else FENCED)
    assert host.end(PID, epoch - 2, commit=commit).error == (CONCURRENT if is_ending else FENCED)
    expected = ENDED[state][commit][current]
    reply = host.end(PID, epoch if current else epoch - 1, commit=commit)
    if expected == BUMP:
        assert reply == EndTxnReply(producer_id=PID, epoch=epoch + 1)
        assert host.state() is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
        partitions = (P0, P1) if state is State.ONGOING else ()
        assert host.write_markers() == [Markers(ID, PID, epoch + 1, commit, partitions, 2)]
        assert host.value().start_ms != -1
    elif expected == OK:
        assert reply == EndTxnReply(producer_id=PID, epoch=epoch)
        assert len(host.log) == size
    else:
        assert reply == EndTxnReply(error=expected)
        assert len(host.log) == size


def test_a_retry_after_a_restart_is_answered_from_the_log() -> None:
    host = complete(True)
    host.restart()
    assert host.end(PID, 0, commit=True) == EndTxnReply(producer_id=PID, epoch=1)
    assert host.end(PID, 0, commit=False).error == INVALID_TXN_STATE


def test_the_last_epoch_ends_with_the_next_producer_id() -> None:
    host = near_the_end(32_766, State.ONGOING)
    command = EndTxn(transactional_id=ID, producer_id=900, epoch=32_766, is_commit=True, client_version=2)
    assert host.run(command) == ProducerIdNeeded()
    assert host.ask(command) == EndTxnReply(producer_id=PID, epoch=0)
    assert host.value().next_producer_id == PID and host.value().epoch == 32_767
    assert host.add(PID, 0) == CONCURRENT
    host.restart()
    assert host.write_markers() == [Markers(ID, 900, 32_767, True, (P0,), 2)]
    assert (host.value().producer_id, host.value().epoch, host.value().previous_producer_id) == (PID, 0, 900)
    assert host.ask(command) == EndTxnReply(producer_id=PID, epoch=0)
    assert host.end(900, 32_766, commit=False).error == INVALID_TXN_STATE
    assert host.end(900, 32_765, commit=True).error == INVALID_PRODUCER_ID_MAPPING
    assert host.add(PID, 0) == OK
    assert host.ask(command).error == INVALID_PRODUCER_ID_MAPPING


def test_a_late_commit_does_not_affect_the_next_transaction() -> None:
    host = complete(True)
    host.add(PID, 1, P2)
    for commit in (True, False):
        assert host.end(PID, 0, commit=commit).error == FENCED
    assert host.state() is State.ONGOING and host.value().partitions == {P2}


@pytest.mark.parametrize("commit", [False, True])
def test_a_version_2_zombie_does_not_get_the_epoch_of_an_old_client(commit: bool) -> None:
    host = empty()
    assert host.init() == InitProducerIdReply(producer_id=PID, epoch=1)
    host.add(PID, 1, version=0)
    host.end(PID, 1, commit=commit, version=0)
    host.write_markers()
    assert host.end(PID, 0, commit=commit).error == FENCED


# -- markers -----------------------------------------------------------------------------------


def test_markers_complete_the_transaction_once() -> None:
    host = prepared(True)
    (markers,) = host.write_markers()
    size = len(host.log)
    assert host.run(MarkersWritten(markers)) is False
    assert len(host.log) == size


def test_late_markers_of_one_transaction_do_not_complete_the_next() -> None:
    host = ongoing(0)
    host.end(PID, 0, commit=True, version=0)
    (first,) = host.write_markers()
    host.add(PID, 0, P0, P1, version=0)
    host.end(PID, 0, commit=True, version=0)
    (second,) = host.jobs
    assert first == second, "the old protocol gives both the same producer id and epoch"
    assert host.run(MarkersWritten(first)) is False
    assert host.state() is State.PREPARE_COMMIT


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("version", [0, 2])
def test_markers_of_a_decided_transaction_are_written_again_after_a_restart(commit: bool, version: int) -> None:
    host = prepared(commit, version)
    (before,) = host.jobs
    host.restart()
    assert host.jobs == [before]
    assert host.run(MarkersWritten(before)) is False, "only the new job may complete it"
    host.write_markers()
    assert host.state() is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


def test_markers_of_an_expired_id_are_ignored() -> None:
    assert unknown().run(MarkersWritten(Markers(ID, PID, 1, True, (P0,), 2))) is False


# -- time --------------------------------------------------------------------------------------


def test_a_transaction_is_aborted_when_it_times_out() -> None:
    host = ongoing()
    host.advance(TIMEOUT_MS)
    assert host.state() is State.ONGOING
    host.advance(1)
    assert host.state() is State.PREPARE_ABORT
    assert host.write_markers() == [Markers(ID, PID, 1, False, (P0, P1), 2)]
    assert host.end(PID, 0, commit=True).error == INVALID_TXN_STATE
    assert host.end(PID, 0, commit=False) == EndTxnReply(producer_id=PID, epoch=1)


def test_an_old_client_is_fenced_by_the_timeout() -> None:
    host = ongoing(0)
    host.advance(TIMEOUT_MS + 1)
    host.write_markers()
    assert host.verify(PID, 0, P0) == (FENCED,)
    assert host.end(PID, 0, commit=True, version=0).error == FENCED
    assert host.init(producer_id=PID, epoch=0) == InitProducerIdReply(producer_id=PID, epoch=1)


def test_adding_partitions_does_not_extend_the_timeout() -> None:
    host = ongoing()
    host.advance(TIMEOUT_MS - 10)
    host.add(PID, 0, P2)
    host.advance(11)
    assert host.state() is State.PREPARE_ABORT


def test_the_next_transaction_has_its_own_timeout() -> None:
    host = complete(True)
    host.advance(TIMEOUT_MS - 10)
    host.add(PID, 1)
    host.advance(TIMEOUT_MS)
    assert host.state() is State.ONGOING
    host.advance(1)
    assert host.state() is State.PREPARE_ABORT


def test_a_timer_that_is_early_or_outdated_does_nothing() -> None:
    host = ongoing()
    host.timers.clear()
    timer = Expired(TimerKey(TIMEOUT, ID))
    host.carry_out(host.decide(timer, NO_TICKET))
    assert host.timers[TimerKey(TIMEOUT, ID)] == host.now + TIMEOUT_MS + 1
    for other in (complete(True), prepared(True), empty(), unknown()):
        decision = other.decide(timer, NO_TICKET)
        assert not decision.records and not decision.timers and not decision.actions
    assert unknown().run(AbortTimedOut(ID)) is False


def test_a_restart_keeps_the_deadline() -> None:
    host = ongoing()
    host.now += TIMEOUT_MS - 5
    host.restart()
    host.advance(5)
    assert host.state() is State.ONGOING
    host.advance(1)
    assert host.state() is State.PREPARE_ABORT
    host = ongoing()
    host.now += 10 * TIMEOUT_MS
    host.restart()
    host.advance(0)
    assert host.state() is State.PREPARE_ABORT


def test_a_timeout_that_needs_a_producer_id_retries_until_it_has_one() -> None:
    host = near_the_end(32_766, State.ONGOING)
    host.has_producer_ids = False
    host.advance(TIMEOUT_MS + 1)
    assert host.state() is State.ONGOING
    decision = host.decide(Expired(TimerKey(TIMEOUT, ID)), NO_TICKET)
    assert decision.actions == [AbortNeedsProducerId(ID)]
    host.has_producer_ids = True
    host.advance(1_000)
    assert host.state() is State.PREPARE_ABORT
    assert host.write_markers() == [Markers(ID, 900, 32_767, False, (P0,), 2)]
    assert (host.value().producer_id, host.value().epoch) == (PID, 0)


def test_the_maximum_epoch_can_still_be_aborted() -> None:
    host = near_the_end(32_767, State.ONGOING)
    host.advance(TIMEOUT_MS + 1)
    assert [markers.epoch for markers in host.write_markers()] == [32_767]
    assert host.value().epoch == 0


@pytest.mark.parametrize("state", MAKE)
def test_only_ids_at_rest_expire(state: State) -> None:
    host = Harness(timeout_ms_max=2**31 - 1)
    host.init(timeout_ms=2**31 - 1)
    if state is not State.EMPTY:
        host.add(PID, 0)
    if state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT, State.PREPARE_ABORT, State.COMPLETE_ABORT):
        host.end(PID, 0, commit=state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT))
    if state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        host.write_markers()
    assert host.state() is state
    host.advance(7 * DAY_MS - 1)
    assert ID in host.shard.transactions
    host.advance(3_600_000)
    assert (ID in host.shard.transactions) is (state in (State.ONGOING, *ENDING))


def test_an_expired_id_starts_over() -> None:
    host = complete(True)
    host.advance(8 * DAY_MS)
    assert host.log[-1][1] is None
    assert not host.shard.volatile
    assert host.add(PID, 1) == INVALID_PRODUCER_ID_MAPPING
    assert host.init() == InitProducerIdReply(producer_id=PID + 1, epoch=0)


# -- describing and listing ----------------------------------------------------------------------


def test_describing() -> None:
    host = ongoing()
    found = host.ask(DescribeTransaction(ID))
    assert (found.error, found.state, found.timeout_ms, found.start_ms) == (OK, "Ongoing", TIMEOUT_MS, host.now)
    assert (found.producer_id, found.epoch, found.partitions) == (PID, 0, (P0, P1))
    assert host.ask(DescribeTransaction("other")).error == NOT_FOUND
    assert host.ask(DescribeTransaction("")).error == INVALID_REQUEST


def listed(host: Harness, **filters: Any) -> list[str]:
    return [each.transactional_id for each in host.ask(ListTransactions(**filters))]


def test_listing_by_state_producer_and_duration() -> None:
    host = Harness()
    for name in ("a", "ab", "b"):
        host.init(name=name)
    host.add(PID, 0, name="a")
    host.advance(1_000)
    host.add(PID + 1, 0, name="ab")
    assert listed(host) == ["a", "ab", "b"]
    assert listed(host, states=frozenset({"Ongoing"})) == ["a", "ab"]
    assert listed(host, states=frozenset({"Empty", "Nonsense"})) == ["b"]
    assert listed(host, states=frozenset({"Nonsense"})) == []
    assert listed(host, producer_ids=frozenset({PID, PID + 2})) == ["a", "b"]
    assert listed(host, duration_ms=999, states=frozenset({"Ongoing"})) == ["a"]
    assert listed(host, duration_ms=1_000, states=frozenset({"Ongoing"})) == []


def test_describing_and_listing_write_nothing() -> None:
    host = ongoing()
    size = len(host.log)
    for command in (DescribeTransaction(ID), ListTransactions()):
        decision = host.decide(command, Ticket(3))
        assert not decision.records and not decision.timers and len(decision.replies) == 1
    assert len(host.log) == size


# -- record versions ---------------------------------------------------------------------------


def test_the_plain_encoding_is_written_below_version_1() -> None:
    host = Harness(version=0)
    host.init()
    host.add(PID, 0, version=0)
    host.end(PID, 0, commit=True, version=0)
    host.write_markers()
    assert {written[:2] for _, written in host.log if written} == {b"\x00\x00"}
    assert host.state() is State.COMPLETE_COMMIT
    assert {written[:2] for _, written in complete(True).log if written} == {b"\x00\x01"}


def test_an_offsets_partition_is_added_like_others() -> None:
    host = empty()
    offsets = partition(12, "__consumer_offsets")
    assert host.add(PID, 0, offsets, version=0) == OK
    assert host.verify(PID, 0, offsets, partition(13, "__consumer_offsets")) == (OK, ABORTABLE)
    host.end(PID, 0, commit=True, version=0)
    assert host.write_markers()[0].partitions == (offsets,)
