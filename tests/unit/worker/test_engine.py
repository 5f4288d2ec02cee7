"""Tests of the engine with real threads and a controlled clock. Threads are synchronized by events, never sleeps."""

import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial

import pytest

from penstock.worker import Order, Record, Reject, Retry
from penstock.worker.engine import Engine, Handler
from penstock.worker.lanes import Task

WAIT_S = 10.0
AT_ONCE = Retry(attempts=3, delay_s=0, jitter=0)


class Letters:
    """A store of given-up records."""

    def __init__(self, error: Exception | None = None) -> None:
        self.taken: list[tuple[int, str, int]] = []
        self._error = error

    def __call__(self, task: Task, error: Exception, now_ms: int) -> None:
        if self._error is not None:
            raise self._error
        self.taken.append((task.record.offset, str(error), task.attempts))


Make = Callable[..., Engine]


@pytest.fixture
def make() -> Iterator[Make]:
    engines: list[Engine] = []

    def build(
        handler: Handler,
        *,
        letters: Letters | None = None,
        retry: Retry = AT_ONCE,
        concurrency: int = 1,
        order: Order = Order.PARTITION,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> Engine:
        engine = Engine(
            handler, give_up=letters or Letters(), retry=retry, concurrency=concurrency, order=order, clock=clock,
            wall_ms=lambda: 1000, chance=lambda: 0.5,
        )  # fmt: skip
        engine.start()
        engines.append(engine)
        return engine

    yield build
    for engine in engines:
        engine.close()


def record(offset: int, *, partition: int = 0) -> Record:
    return Record(topic="t", partition=partition, offset=offset, key=b"k", value=str(offset).encode())


def drained(engine: Engine) -> None:
    assert engine.wait_for_room(0, timeout_s=WAIT_S)


def test_finished_offsets_are_returned_for_commit(make: Make) -> None:
    seen: list[int] = []
    engine = make(lambda record: seen.append(record.offset))
    for offset in range(5):
        engine.submit(record(offset))
    drained(engine)
    assert seen == [0, 1, 2, 3, 4]
    assert engine.positions() == {("t", 0): 5}
    assert engine.positions() == {}


def test_a_handler_may_be_a_coroutine_function(make: Make) -> None:
    seen: list[int] = []

    async def handle(record: Record) -> None:
        seen.append(record.offset)

    class Handler:
        async def __call__(self, record: Record) -> None:
            await handle(record)

    for handler in (handle, Handler(), partial(handle), lambda record: handle(record)):
        engine = make(handler)
        engine.submit(record(3))
        drained(engine)
        assert engine.counts.succeeded == 1
    assert seen == [3] * 4


def test_a_coroutine_that_fails_is_retried(make: Make) -> None:
    async def handle(record: Record) -> None:
        if record.attempt == 1:
            raise OSError

    engine = make(handle)
    engine.submit(record(0))
    drained(engine)
    assert (engine.counts.retried, engine.counts.succeeded) == (1, 1)


def test_a_failing_record_is_retried_and_then_given_up(make: Make) -> None:
    attempts: list[int] = []

    def handle(record: Record) -> None:
        attempts.append(record.attempt)
        raise OSError("down")

    letters = Letters()
    engine = make(handle, letters=letters)
    engine.submit(record(7))
    drained(engine)
    assert attempts == [1, 2, 3]
    assert letters.taken == [(7, "down", 3)]
    assert engine.positions() == {("t", 0): 8}
    assert (engine.counts.retried, engine.counts.dead_lettered) == (2, 1)


def test_a_rejected_record_is_given_up_without_retries(make: Make) -> None:
    def handle(record: Record) -> None:
        raise Reject("not an order")

    letters = Letters()
    engine = make(handle, letters=letters)
    engine.submit(record(0))
    drained(engine)
    assert letters.taken == [(0, "not an order", 1)]


def test_a_letter_that_cannot_be_written_stops_the_engine_without_a_commit(make: Make) -> None:
    def handle(record: Record) -> None:
        if record.offset == 1:
            raise ValueError

    failure = RuntimeError("no such topic")
    engine = make(handle, letters=Letters(failure))
    for offset in range(3):
        engine.submit(record(offset))
    engine.wait_for_room(0, timeout_s=WAIT_S)
    assert engine.failure is failure
    assert engine.settle(None, timeout_s=WAIT_S, finish_all=False, hurry=lambda: False)
    assert engine.positions() == {("t", 0): 1}


def test_the_lowest_unfinished_offset_is_returned_when_records_finish_out_of_order(make: Make) -> None:
    hold, second_done = threading.Event(), threading.Event()

    def handle(record: Record) -> None:
        if record.offset == 0:
            assert hold.wait(WAIT_S)
        else:
            second_done.set()

    engine = make(handle, concurrency=2, order=Order.NONE)
    engine.submit(record(0))
    engine.submit(record(1))
    assert second_done.wait(WAIT_S)
    assert engine.positions() == {}
    hold.set()
    drained(engine)
    assert engine.positions() == {("t", 0): 2}


def test_settling_waits_for_running_tasks_and_drops_the_rest(make: Make) -> None:
    running, hold = threading.Event(), threading.Event()

    def handle(record: Record) -> None:
        running.set()
        assert hold.wait(WAIT_S)

    def let_go() -> bool:
        hold.set()
        return False

    engine = make(handle)
    engine.submit(record(0))
    engine.submit(record(1))
    assert running.wait(WAIT_S)
    assert engine.settle({("t", 0)}, timeout_s=WAIT_S, finish_all=False, hurry=let_go)
    assert engine.positions() == {("t", 0): 1}
    assert engine.counts.dropped == 1


def test_settling_does_not_wait_for_the_next_attempt_of_a_record_with_no_finished_successor(make: Make) -> None:
    waits = threading.Event()

    def tried(offset: int) -> None:
        waits.set()
        raise ValueError(offset)

    engine = make(lambda record: tried(record.offset), retry=Retry(attempts=2, delay_s=60, delay_max_s=60))
    engine.submit(record(0))
    engine.submit(record(1))
    assert waits.wait(WAIT_S)
    assert engine.settle(None, timeout_s=WAIT_S, finish_all=False, hurry=lambda: False)
    assert engine.positions() == {}
    assert engine.counts.dropped == 2


def test_settling_without_dropping_runs_all_submitted_records(make: Make) -> None:
    seen: list[int] = []
    engine = make(lambda record: seen.append(record.offset))
    for offset in range(10):
        engine.submit(record(offset))
    assert engine.settle(None, timeout_s=WAIT_S, finish_all=True, hurry=lambda: False)
    assert seen == list(range(10))


def test_a_handler_that_finishes_after_revocation_does_not_change_progress(make: Make) -> None:
    running, hold = threading.Event(), threading.Event()

    def handle(record: Record) -> None:
        running.set()
        assert hold.wait(WAIT_S)

    engine = make(handle)
    engine.submit(record(0))
    assert running.wait(WAIT_S)
    assert not engine.settle({("t", 0)}, timeout_s=0, finish_all=False, hurry=lambda: False)
    engine.forget({("t", 0)})
    hold.set()
    drained(engine)
    assert engine.positions() == {}


def test_a_handler_that_fails_after_revocation_writes_no_dead_letter(make: Make) -> None:
    running, hold = threading.Event(), threading.Event()

    def handle(record: Record) -> None:
        running.set()
        assert hold.wait(WAIT_S)
        raise ValueError

    letters = Letters()
    engine = make(handle, letters=letters, retry=Retry(attempts=1))
    engine.submit(record(0))
    assert running.wait(WAIT_S)
    engine.settle({("t", 0)}, timeout_s=0, finish_all=False, hurry=lambda: False)
    hold.set()
    drained(engine)
    assert letters.taken == []


def test_a_failed_commit_is_repeated(make: Make) -> None:
    engine = make(lambda record: None)
    engine.submit(record(0))
    drained(engine)
    assert engine.positions() == {("t", 0): 1}
    engine.not_committed([("t", 0), ("gone", 1)])
    assert engine.positions() == {("t", 0): 1}


def test_offsets_that_restart_begin_a_new_incarnation(make: Make) -> None:
    engine = make(lambda record: None)
    engine.submit(record(100))
    drained(engine)
    engine.submit(record(0))
    drained(engine)
    assert engine.positions() == {("t", 0): 1}


def test_records_before_a_finished_one_are_finished_at_a_stop(make: Make) -> None:
    first_runs, last_done, hold = threading.Event(), threading.Event(), threading.Event()

    def handle(record: Record) -> None:
        if record.offset == 0:
            first_runs.set()
            assert hold.wait(WAIT_S)
        if record.offset == 2:
            last_done.set()

    def let_go() -> bool:
        hold.set()
        return False

    engine = make(handle, concurrency=2, order=Order.KEY)
    engine.submit(record(0))
    engine.submit(record(1))
    engine.submit(replace(record(2), key=b"other"))
    assert first_runs.wait(WAIT_S)
    assert last_done.wait(WAIT_S)
    engine.submit(record(3))
    assert engine.settle(None, timeout_s=WAIT_S, finish_all=False, hurry=let_go)
    assert engine.positions() == {("t", 0): 3}
    assert engine.counts.dropped == 1


def test_a_coroutine_that_exits_stops_the_worker_as_a_function_does(make: Make) -> None:
    async def handle(record: Record) -> None:
        raise SystemExit(3)

    engine = make(handle)
    engine.submit(record(0))
    assert engine.wait_for_room(0, timeout_s=WAIT_S)
    assert isinstance(engine.failure, SystemExit)
    assert engine.positions() == {}


def test_an_awaitable_that_is_no_coroutine_is_awaited(make: Make) -> None:
    awaited = threading.Event()

    class Work:
        def __await__(self) -> Generator[None, None, None]:
            awaited.set()
            yield

    engine = make(lambda record: Work())
    engine.submit(record(0))
    assert engine.wait_for_room(0, timeout_s=WAIT_S)
    assert awaited.is_set()
