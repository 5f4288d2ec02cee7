"""Tests that each checker fails on a history that violates its invariant, and only then."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock_sim.checkers import CHECKERS, check
from penstock_sim.history import (
    FAIL,
    OK,
    Altered,
    Assigned,
    Batch,
    Commit,
    Delivered,
    FetchedOffset,
    History,
    Init,
    LeaderChange,
    Listed,
    PartitionId,
    Poll,
    Send,
    Settled,
    Trimmed,
    Txn,
    View,
)

PARTITION = PartitionId("orders", "ab", 0)


def send(
    value: bytes = b"a",
    offset: int = 0,
    *,
    outcome: str = OK,
    client: str = "producer",
    acks: int = -1,
    at: float = 1.0,
) -> Send:
    return Send(client, PARTITION, (value,), acks, at, outcome=outcome, offset=offset, ended=at + 1)


def delivered(count: int, *, began: float) -> Delivered:
    return Delivered("member", "queue", PARTITION, 5, count, began, began + 0.1)


def settled(*, ended: float, kind: int = 1, outcome: str = OK) -> Settled:
    return Settled("member", "queue", PARTITION, 4, 6, kind, ended - 0.1, ended=ended, outcome=outcome)


def poll(
    *records: tuple[int, bytes], position: int = 0, mark: int = 10, stable: int | None = None, committed: bool = False
) -> Poll:
    end = max([position, *(offset + 1 for offset, _ in records)])
    lso = mark if stable is None else stable
    return Poll("consumer", PARTITION, committed, position, end, records, mark, lso, 0, 3.0, 4.0)


def batch(base: int, *values: bytes, producer: int = -1, epoch: int = -1, sequence: int = -1) -> Batch:
    numbered = tuple((base + index, value) for index, value in enumerate(values))
    return Batch(base, base + len(values) - 1, 0, producer, epoch, sequence, producer >= 0, None, numbered)


def view(*batches: Batch, committed: dict[int, bytes] | None = None, stable: int | None = None) -> View:
    records = {offset: value for each in batches for offset, value in each.values}
    end = max([each.last_offset + 1 for each in batches], default=0)
    return View(
        PARTITION, 0, end, end if stable is None else stable, list(batches), records if committed is None else committed
    )


def marker(offset: int, *, commit: bool) -> Batch:
    return Batch(offset, offset, 0, 7, 1, -1, True, commit, ())


def txn(*values: bytes, outcome: str = OK, commit: bool = True, epoch: int = 0, at: float = 1.0) -> Txn:
    made = Txn("transactor", "id", 7, epoch, at, wants_commit=commit, outcome=outcome, end_began=at + 1, ended=at + 2)
    made.sends = [
        Send("transactor", PARTITION, (value,), -1, at, outcome=OK, offset=index, txn=made)
        for index, value in enumerate(values)
    ]
    return made


def with_offsets(made: Txn, offset: int) -> Txn:
    made.offsets, made.group = {PARTITION: offset}, "group"
    return made


def commit(offset: int, *, generation: int = 1, at: float, outcome: str = OK) -> Commit:
    return Commit("member", "group", generation, PARTITION, offset, at, at + 0.5, outcome)


def fetched(offset: int, at: float) -> FetchedOffset:
    return FetchedOffset("reader", "group", PARTITION, offset, at, at + 0.1)


def dealt(client: str, generation: int, at: float) -> Assigned:
    return Assigned(client, "group", generation, ("a", "b"), (PARTITION,), at, at)


def table(sends: list[Send], left: dict[int, bytes]) -> History:
    """Return the history of a compacted topic with these remaining records."""
    batches = [batch(offset, value) for offset, value in left.items()]
    return History(sends=sends, views=[view(*batches)], tables={"orders": 0.0})


BAD: dict[str, Callable[[], History]] = {
    "inv_01_acknowledged_records_stay": lambda: History(sends=[send(b"a", 1)], views=[view(batch(0, b"x"))]),
    "inv_02_one_offset_has_one_value": lambda: History(sends=[send(b"a", 0)], polls=[poll((0, b"b"))]),
    "inv_03_what_failed_is_never_shown": lambda: History(sends=[send(b"a", outcome=FAIL)], polls=[poll((0, b"a"))]),
    "inv_04_a_record_is_where_its_producer_was_told": lambda: History(sends=[send(b"a", 0)], polls=[poll((1, b"a"))]),
    "inv_05_idempotent_values_stand_once": lambda: History(
        views=[view(batch(0, b"a", producer=1, epoch=0, sequence=0), batch(1, b"a", producer=1, epoch=0, sequence=0))]
    ),
    "inv_06_a_producers_sends_keep_their_order": lambda: History(sends=[send(b"a", 5), send(b"b", 4)]),
    "inv_07_consumers_skip_nothing": lambda: History(
        polls=[poll((0, b"a"), (2, b"c"))], views=[view(batch(0, b"a", b"b", b"c"))]
    ),
    "inv_09_nothing_beyond_the_marks_is_shown": lambda: History(polls=[poll((3, b"a"), mark=3)]),
    "inv_10_marks_never_go_back": lambda: History(polls=[poll(mark=9), poll(mark=8)]),
    "inv_11_listed_offsets_are_up_to_date": lambda: History(
        sends=[send(b"a", 4)], listed=[Listed("reader", PARTITION, -1, False, 4, 3.0, 3.1)]
    ),
    "inv_32_committed_offsets_stay": lambda: History(
        commits=[commit(3, at=1.0), commit(5, at=2.0)], fetched_offsets=[fetched(3, 3.0)]
    ),
    "inv_33_a_stale_generation_commits_nothing": lambda: History(
        commits=[commit(3, generation=1, at=5.0)], assigned=[dealt("other", 2, 4.0)]
    ),
    "inv_71_an_answered_acknowledgement_is_final": lambda: History(
        delivered=[delivered(1, began=1.0), delivered(2, began=3.0)], settled=[settled(ended=2.0)]
    ),
    "inv_72_no_record_is_lost": lambda: History(
        delivered=[replace(delivered(1, began=1.0), offset=0)],
        settled=[settled(ended=2.0, kind=2)],
        views=[view(batch(0, b"a"))],
        shares_drained=True,
    ),
    "inv_72_altered_offsets_take_effect": lambda: History(
        altered=[Altered(PARTITION, 1.0, 2.0, "reader")], views=[view(batch(0, b"a"))]
    ),
    "inv_73_a_holder_keeps_its_lock": lambda: History(
        settled=[replace(settled(ended=2.0, outcome=FAIL), locked_at=1.5)]
    ),
    "inv_74_delivery_counts_begin_at_one_and_rise": lambda: History(delivered=[delivered(6, began=1.0)]),
    "inv_78_an_invalid_acknowledgement_is_rejected": lambda: History(
        settled=[replace(settled(ended=2.0), is_valid=False, locked_at=1.5)]
    ),
    "inv_34_a_partition_has_one_owner": lambda: History(assigned=[dealt("one", 1, 1.0), dealt("two", 1, 1.0)]),
    "inv_36_transactions_are_whole": lambda: History(
        txns=[txn(b"a", b"b")], views=[view(batch(0, b"a", b"b"), committed={0: b"a"})]
    ),
    "inv_38_each_input_is_processed_once": lambda: History(
        txns=[with_offsets(txn(b"out:a"), 1)], views=[view(batch(0, b"out:a", b"out:a"))]
    ),
    "inv_39_a_fenced_producer_writes_nothing": lambda: History(
        txns=[txn(b"a", at=1.0)], inits=[Init("other", "id", 7, 5, 1.1, 1.2)]
    ),
    "inv_41_no_transaction_hangs": lambda: History(views=[view(batch(0, b"a"), stable=0)]),
    "inv_42_a_transaction_is_decided_once": lambda: History(
        views=[view(marker(0, commit=True), marker(1, commit=False))]
    ),
    "inv_40_what_is_late_touches_no_later_transaction": lambda: History(
        views=[view(batch(0, b"a", producer=7, epoch=2), marker(1, commit=True))]
    ),
    "inv_51_compaction_keeps_the_last_of_every_key": lambda: table(
        [send(b"key|a", 0), send(b"key|b", 1)], {0: b"key|a"}
    ),
    "inv_51_tombstones_stay_for_a_while": lambda: History(
        sends=[send(b"key|", 1)], polls=[poll((0, b"key|a"), (2, b"oth|b"))], tables={"orders": 5.0}
    ),
}


@pytest.mark.parametrize("name", CHECKERS)
def test_a_checker_fails_on_a_bad_history(name: str) -> None:
    assert list(CHECKERS[name](BAD[name]())), f"{name} finds no violation"


def test_a_good_history_has_no_violations() -> None:
    good = History(
        sends=[send(b"a", 0), send(b"b", 1, at=2.0), send(b"lost", -1, outcome="info")],
        polls=[poll((0, b"a"), (1, b"b"), mark=2)],
        views=[view(batch(0, b"a", b"b"))],
        commits=[commit(1, at=1.0), commit(2, at=2.0, outcome="info")],
        fetched_offsets=[fetched(1, 3.0), fetched(2, 3.0)],
        listed=[Listed("reader", PARTITION, -1, False, 2, 5.0, 5.1)],
    )
    assert check(good) == []


@pytest.mark.parametrize(("start", "epoch", "is_bad"), [(11, 2, False), (11, 1, True), (10, 2, True)])
def test_a_new_leader_may_not_know_of_deleted_records_and_so_of_the_last_stable_offset_that_they_moved(
    start: int, epoch: int, is_bad: bool
) -> None:
    before = replace(poll(mark=13, stable=11), log_start=start, leader_epoch=1)
    after = replace(poll(mark=13, stable=10), log_start=2 if epoch == 2 else start - 1, leader_epoch=epoch)
    assert any("last_stable_offset" in problem for problem in check(History(polls=[before, after]))) == is_bad


def test_read_committed_consumers_must_not_see_aborted_values() -> None:
    aborted = txn(b"a", commit=False)
    history = History(txns=[aborted], sends=aborted.sends, polls=[poll((0, b"a"), committed=True)])
    assert any("aborted" in problem for problem in check(history))
    history.polls = [poll((0, b"a"))]
    assert check(history) == []


def test_a_transaction_ends_under_a_later_epoch_than_its_writes() -> None:
    def problems(epoch: int) -> list[str]:
        history = History(views=[view(batch(0, b"a", producer=7, epoch=epoch), marker(1, commit=True))])
        return [each for each in check(history) if each.startswith("inv_40")]

    assert problems(0) == []
    assert "ends what producer 7 wrote under the same epoch" in problems(1)[0]
    assert "was at epoch 2, and ends something under 1" in problems(2)[0]


def test_a_compacted_topic_has_the_last_acknowledged_value_of_each_key() -> None:
    sends = [send(b"k01|a", 0), send(b"k02|a", 1), send(b"k01|b", 2), send(b"k02|", 3), send(b"k03|a", 4)]
    assert check(table(sends, {2: b"k01|b", 4: b"k03|a"})) == [], "old values and an old tombstone are gone"
    assert check(table(sends, {1: b"k02|a", 2: b"k01|b", 3: b"k02|", 4: b"k03|a"})) == [], "nothing was compacted yet"
    assert check(table(sends, {1: b"k02|a", 2: b"k01|b", 4: b"k03|a"})), "a deleted key is back"
    assert check(table(sends, {2: b"k01|b"})), "the last value of a key is lost"
    assert check(table(sends, {2: b"k01|b", 3: b"k03|a"})), "an offset has moved"


def test_a_write_with_an_unknown_result_may_be_the_last_of_its_key_or_missing() -> None:
    sends = [send(b"k01|a", 0), send(b"k01|", -1, outcome="info"), send(b"k01|c", -1, outcome="info")]
    for left in ({0: b"k01|a"}, {}, {1: b"k01|"}, {2: b"k01|c"}):
        assert check(table(sends, left)) == []
    assert check(table(sends, {2: b"k01|d"}))


def test_a_late_consumer_may_miss_a_tombstone() -> None:
    history = BAD["inv_51_tombstones_stay_for_a_while"]()
    history.tables["orders"] = 2.0
    assert check(history) == []


@pytest.mark.parametrize(
    ("kind", "outcome", "is_final"), [(1, OK, True), (3, OK, True), (2, OK, False), (1, FAIL, False)]
)
def test_only_answered_accepts_and_rejects_are_final(kind: int, outcome: str, is_final: bool) -> None:
    history = History(
        delivered=[delivered(1, began=1.0), delivered(2, began=3.0)],
        settled=[settled(ended=2.0, kind=kind, outcome=outcome)],
    )
    assert bool(check(history)) == is_final
    history.shares_may_repeat = True
    assert check(history) == []


@pytest.mark.parametrize(("offset", "began", "is_final"), [(6, 1.5, False), (5, 1.5, True), (6, 2.5, True)])
def test_the_acknowledgement_of_a_record_that_is_being_deleted_is_not_final(
    offset: int, began: float, is_final: bool
) -> None:
    history = BAD["inv_71_an_answered_acknowledgement_is_final"]()
    history.trimmed.append(Trimmed("trimmer", PARTITION, offset, began))
    assert bool(check(history)) == is_final


@pytest.mark.parametrize(
    ("broker", "changed", "is_final"),
    [("node1", 1.5, False), ("node2", 1.5, True), ("node1", 3.5, True), ("node1", -20.0, True)],
    ids=["deposed", "leader", "deposed later", "deposed long before"],
)
def test_a_deposed_leader_may_deliver_a_finished_record_until_it_knows(
    broker: str, changed: float, is_final: bool
) -> None:
    history = BAD["inv_71_an_answered_acknowledgement_is_final"]()
    history.delivered = [replace(each, broker=broker) for each in history.delivered]
    history.leader_changes["orders-0"] = [LeaderChange(-30.0, "node1"), LeaderChange(changed, "node2")]
    assert bool(check(history)) == is_final


def test_a_lock_may_be_lost_with_its_leader_and_after_its_time() -> None:
    history = History(settled=[replace(settled(ended=2.0, outcome=FAIL), locked_at=1.5)])
    history.leader_changes["orders-0"] = [LeaderChange(1.7, "node2")]
    assert check(history) == []
    assert check(History(settled=[replace(settled(ended=2.0, outcome=FAIL), locked_at=0.1)])) == []


def test_a_release_is_counted() -> None:
    released = settled(ended=2.0, kind=2)
    assert check(History(delivered=[delivered(1, began=1.0), delivered(1, began=3.0)], settled=[released]))
    assert check(History(delivered=[delivered(1, began=1.0), delivered(2, began=3.0)], settled=[released])) == []
