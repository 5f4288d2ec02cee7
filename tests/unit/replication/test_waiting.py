from collections.abc import Callable
from functools import partial
from unittest.mock import MagicMock

from penstock.model.errors import RequestTimedOut, StorageError
from penstock.replication.waiting import DEADLINES_KEPT, Deadlines, ProduceDeadlines, Waiters, WaitingProduce


class ManualClock:
    """A clock that moves only when a test advances it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> "ManualTimer":
        entry = (self.now + delay_s, callback)
        self.timers.append(entry)
        return ManualTimer(self, entry)

    def move_to(self, now: float) -> None:
        self.now = now
        for entry in [timer for timer in self.timers if timer[0] <= now]:
            self.timers.remove(entry)
            entry[1]()


class ManualTimer:
    def __init__(self, clock: ManualClock, entry: tuple[float, Callable[[], None]]) -> None:
        self._clock = clock
        self._entry = entry

    def cancel(self) -> None:
        if self._entry in self._clock.timers:
            self._clock.timers.remove(self._entry)


class Waiter:
    def __init__(self, name: str, seen: list[str]) -> None:
        self._name = name
        self._seen = seen
        self.is_over = False

    def more_bytes(self, size: int) -> None:
        self._seen.append(f"{self._name} +{size}")

    def changed(self) -> None:
        self._seen.append(f"{self._name} changed")

    def expired(self) -> None:
        self._seen.append(self._name)


def test_waiters_expire_in_the_order_of_their_deadlines() -> None:
    clock, seen = ManualClock(), []  # type: ManualClock, list[str]
    deadlines = Deadlines(clock)
    deadlines.add(3.0, Waiter("late", seen))
    deadlines.add(1.0, Waiter("early", seen))
    deadlines.add(2.0, Waiter("middle", seen))
    clock.move_to(2.5)
    assert seen == ["early", "middle"]
    clock.move_to(3.0)
    assert seen == ["early", "middle", "late"]


def test_one_timer_serves_all_deadlines() -> None:
    clock, seen = ManualClock(), []  # type: ManualClock, list[str]
    deadlines = Deadlines(clock)
    for delay in (5.0, 4.0, 3.0, 6.0):
        deadlines.add(delay, Waiter("x", seen))
    assert len(clock.timers) == 1
    deadlines.stop()
    assert clock.timers == []


def test_the_deadlines_of_fetches_that_are_over_are_not_kept() -> None:
    clock, seen = ManualClock(), []  # type: ManualClock, list[str]
    deadlines = Deadlines(clock)
    first = Waiter("first", seen)
    deadlines.add(2.0, first)
    for _ in range(5 * DEADLINES_KEPT):
        waiter = Waiter("over", seen)
        deadlines.add(1_000_000.0, waiter)
        waiter.is_over = True
    deadlines.add(1.0, Waiter("last", seen))
    assert len(deadlines.waiting()) <= DEADLINES_KEPT
    clock.move_to(2.0)
    assert seen == ["last", "first"]


class ParkedFetch:
    def __init__(self) -> None:
        self.seen: list[object] = []

    def more_bytes(self, size: int) -> None:
        self.seen.append(size)

    def changed(self) -> None:
        self.seen.append("changed")

    def expired(self) -> None:
        self.seen.append("expired")


def note(codes: list[tuple[int, int]], offset: int, code: int) -> None:
    codes.append((offset, code))


def test_a_new_high_watermark_answers_produce_requests_below_it_and_notifies_fetches() -> None:
    waiters, fetch = Waiters(), ParkedFetch()
    codes: list[tuple[int, int]] = []
    for offset in (3, 5, 9):
        waiters.add_produce(WaitingProduce(offset, 10.0, partial(note, codes, offset)))
    waiters.add_watcher(fetch)
    waiters.mark_moved(5, 70)
    assert (codes, fetch.seen) == ([(3, 0), (5, 0)], [70])
    waiters.remove_watcher(fetch)
    waiters.mark_moved(9, 30)
    assert (codes[2:], fetch.seen) == ([(9, 0)], [70])


def test_only_produce_requests_past_their_deadline_time_out() -> None:
    waiters = Waiters()
    codes: list[tuple[int, int]] = []
    for offset, deadline in ((3, 1.0), (5, 9.0), (7, 2.0)):
        waiters.add_produce(WaitingProduce(offset, deadline, partial(note, codes, offset)))
    waiters.expire_produces(0.5)
    assert codes == []
    waiters.expire_produces(2.0)
    assert codes == [(3, RequestTimedOut.code), (7, RequestTimedOut.code)]
    waiters.fail_produces(StorageError.code)
    assert codes[2:] == [(5, StorageError.code)]


def test_a_sweep_answers_expired_requests_and_forgets_partitions_where_none_waits() -> None:
    deadlines = ProduceDeadlines()
    idle, waiting = Waiters(deadlines), Waiters(deadlines)
    codes: list[tuple[int, int]] = []
    idle.add_produce(WaitingProduce(1, 1.0, partial(note, codes, 1)))
    idle.mark_moved(1, 10)
    waiting.add_produce(WaitingProduce(2, 1.0, partial(note, codes, 2)))
    waiting.add_produce(WaitingProduce(3, 9.0, partial(note, codes, 3)))
    deadlines.expire(2.0)
    assert codes == [(1, 0), (2, RequestTimedOut.code)]
    assert idle.produces is Waiters().produces, "an idle partition has no deque of its own"
    idle.add_produce(WaitingProduce(4, 9.0, partial(note, codes, 4)))
    deadlines.expire(9.0)
    assert codes[2:] == [(3, RequestTimedOut.code), (4, RequestTimedOut.code)]


def test_fetches_are_notified_when_the_leader_changes() -> None:
    waiters, fetch, entry = Waiters(), ParkedFetch(), MagicMock()
    waiters.add_watcher(fetch)
    waiters.add_follower(entry)
    waiters.wrote(10)
    waiters.changed()
    waiters.remove_follower(entry)
    waiters.followers_changed()
    assert fetch.seen == ["changed"]
    assert [each[0] for each in entry.method_calls] == ["wrote", "changed"]
