"""Jobs run in short turns, whatever their steps cost."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from penstock.model.job import Job
from penstock.scheduling.scheduler import (
    INLINE_STEPS_MAX,
    LARGE_ACTIVE_MAX,
    LARGE_MEMORY_MIN,
    STEPS_PER_TURN_MAX,
    TURN_S_MAX,
    ClientGone,
    Pace,
    Scheduler,
    TakesLonger,
)

STEP_S = TURN_S_MAX / 4


class WorkClock:
    """A clock that advances as work is done; `turn` runs the callbacks that were scheduled."""

    def __init__(self) -> None:
        self.now = 0.0
        self.scheduled: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Any:
        self.scheduled.append(callback)

    def turn(self) -> float:
        """Run the scheduled callbacks; return how long they blocked the loop."""
        began = self.now
        scheduled, self.scheduled = self.scheduled, []
        for callback in scheduled:
            callback()
        return self.now - began


class Offload:
    def __init__(self) -> None:
        self.calls: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []
        self.stopped = False

    def run(self, call: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.calls.append((call, done))

    def stop(self) -> None:
        self.stopped = True


class World:
    def __init__(self, offload: Offload | None = None) -> None:
        self.clock = WorkClock()
        self.scheduler = Scheduler(self.clock, offload)
        self.log: list[str] = []
        self.done: dict[str, Any] = {}

    def job(self, name: str, steps: int, *, cost: float = STEP_S) -> Job[str]:
        for _ in range(steps):
            self.clock.now += cost
            self.log.append(name)
            yield None
        return name

    def run(self, job: Job[Any], name: str, *, is_wanted: Callable[[], bool] = lambda: True, memory: int = 0) -> None:
        def done(value: Any, error: BaseException | None) -> None:
            self.done[name] = value if error is None else error

        self.scheduler.run(job, done, is_wanted=is_wanted, memory=memory)


def test_a_turn_ends_when_its_time_is_over_and_the_next_one_continues() -> None:
    world = World()
    world.run(world.job("a", 10), "a")
    held = []
    while "a" not in world.done:
        held.append(world.clock.turn())
    assert max(held) <= TURN_S_MAX + STEP_S
    assert len(held) > 2
    assert not world.clock.scheduled, "nothing is left to do"


def test_jobs_take_turns_so_that_a_short_one_does_not_wait_for_a_long_one() -> None:
    world = World()
    world.run(world.job("long", 1000), "long")
    world.run(world.job("short", 2), "short")
    turns = 0
    while "short" not in world.done:
        world.clock.turn()
        turns += 1
    assert turns <= 2
    assert world.log[:4] == ["long", "short", "long", "short"]


def test_steps_are_counted_while_the_clock_stands_still() -> None:
    world = World()
    world.run(world.job("a", STEPS_PER_TURN_MAX + 5, cost=0.0), "a")
    world.clock.turn()
    assert len(world.log) == STEPS_PER_TURN_MAX


def test_a_short_job_runs_immediately_and_a_long_one_does_not() -> None:
    world = World()
    assert world.scheduler.now(world.job("a", INLINE_STEPS_MAX - 1, cost=0.0)) == "a"
    with pytest.raises(TakesLonger):
        world.scheduler.now(world.job("b", INLINE_STEPS_MAX + 1, cost=0.0))


def test_many_short_jobs_in_a_row_no_longer_run_immediately() -> None:
    world = World()
    with pytest.raises(TakesLonger):
        for _ in range(20):
            world.scheduler.now(world.job("a", 1))
    assert world.clock.now <= TURN_S_MAX + STEP_S
    world.clock.now += 1.0
    assert world.scheduler.now(world.job("a", 1)) == "a"


def test_an_error_reaches_the_caller_that_waits_for_the_job() -> None:
    world = World()

    def failing() -> Job[None]:
        yield None
        raise ValueError("no")

    world.run(failing(), "a")
    world.clock.turn()
    assert isinstance(world.done["a"], ValueError)


def test_a_job_that_is_no_longer_wanted_is_abandoned() -> None:
    world = World()
    wanted = [True]
    world.run(world.job("a", 100), "a", is_wanted=lambda: wanted[0])
    world.clock.turn()
    wanted[0] = False
    world.clock.turn()
    assert isinstance(world.done["a"], ClientGone)
    assert world.scheduler.unfinished_count == 0


def test_calls_are_offloaded_and_their_results_come_back() -> None:
    offload = Offload()
    world = World(offload)

    def calling() -> Job[list[Any]]:
        first = yield lambda: 7
        try:
            yield lambda: 1 / 0
        except ZeroDivisionError:
            return [first, "refused"]
        return []

    world.run(calling(), "a")
    world.clock.turn()
    assert world.done == {}
    for _ in range(2):
        call, done = offload.calls.pop()
        try:
            done(call(), None)
        except ZeroDivisionError as error:
            done(None, error)
        world.clock.turn()
    assert world.done["a"] == [7, "refused"]


def test_few_large_jobs_run_at_a_time_and_small_ones_overtake_them() -> None:
    world = World()
    for number in range(LARGE_ACTIVE_MAX + 3):
        world.run(world.job(f"large{number}", 3, cost=0.0), f"large{number}", memory=LARGE_MEMORY_MIN)
    world.run(world.job("small", 1, cost=0.0), "small")
    world.clock.turn()
    assert "small" in world.done
    begun = world.log[: LARGE_ACTIVE_MAX + 1]
    assert begun == [*(f"large{number}" for number in range(LARGE_ACTIVE_MAX)), "small"]
    while world.clock.scheduled:
        world.clock.turn()
    assert len(world.done) == LARGE_ACTIVE_MAX + 4


async def test_resting_coroutines_resume_one_per_turn() -> None:
    world = World()
    seen: list[int] = []

    async def iterate() -> None:
        async for number in Pace(world.scheduler, lambda: True).each(range(1000)):
            seen.insert(0, number)

    tasks = [asyncio.ensure_future(iterate()) for _ in range(3)]
    await asyncio.sleep(0)
    before = len(seen)
    world.clock.turn()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0 < len(seen) - before <= 100
    while not all(task.done() for task in tasks):
        world.clock.turn()
        await asyncio.sleep(0)
    assert len(seen) == 3000


async def test_a_resting_coroutine_gets_an_error_when_its_client_is_gone() -> None:
    world = World()
    gone = [False]
    pace = Pace(world.scheduler, lambda: not gone[0])
    task = asyncio.ensure_future(pace.rest())
    await asyncio.sleep(0)
    gone[0] = True
    world.clock.turn()
    with pytest.raises(ClientGone):
        await task


async def test_a_long_job_of_a_request_is_restarted_in_slices() -> None:
    world = World()
    pace = Pace(world.scheduler, lambda: True)
    task = asyncio.ensure_future(pace.finish(lambda: world.job("a", 50)))
    await asyncio.sleep(0)
    assert not task.done()
    while not task.done():
        assert world.clock.turn() <= TURN_S_MAX + STEP_S
        await asyncio.sleep(0)
    assert task.result() == "a"


async def test_a_failed_job_is_freed_without_a_garbage_collection() -> None:
    class Held:
        pass

    world = World()
    freed: list[bool] = []

    def failing() -> Job[None]:
        held = Held()
        weakref.finalize(held, freed.append, True)
        for _ in range(2 * INLINE_STEPS_MAX):
            yield None
        raise ValueError(f"{held} is wrong")

    async def request() -> None:
        try:
            await Pace(world.scheduler, lambda: True).finish(failing)
        except ValueError:
            return

    gc.disable()
    try:
        task = asyncio.ensure_future(request())
        while not task.done():
            await asyncio.sleep(0)
            world.clock.turn()
        del task
        # One by the attempt to run it immediately, one by the job that ran in slices.
        assert freed == [True, True]
    finally:
        gc.enable()


@pytest.mark.parametrize("steps", [1, 5 * INLINE_STEPS_MAX])
def test_a_job_that_nobody_waits_for_runs_at_once_if_it_is_short(steps: int) -> None:
    clock = WorkClock()
    scheduler = Scheduler(clock)
    done: list[int] = []

    def job() -> Job[None]:
        for _ in range(steps):
            yield None
        done.append(steps)

    scheduler.soon(job)
    assert bool(done) is (steps == 1)
    while not done:
        clock.turn()
