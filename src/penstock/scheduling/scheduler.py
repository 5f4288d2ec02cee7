"""Scheduler that runs jobs in slices on the event loop, in turn, so that no request holds up the others.

Each turn of the loop spends at most `TURN_S_MAX` on jobs, one step of each after the other, and serves the network
before the next. `now` runs a short job immediately: most are short. Few jobs that need much memory run at the same
time; the others wait. Time comes from the clock port, and steps are counted too, so that a simulation is deterministic.
See docs/internals/loop.md.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from penstock.model.job import Job, finish
from penstock.ports.clock import Clock
from penstock.ports.offload import Offload

T = TypeVar("T")

TURN_S_MAX: Final = 0.002
STEPS_PER_TURN_MAX: Final = 64
INLINE_S_MAX: Final = 0.002
INLINE_WINDOW_S: Final = 0.004
"""In each window of this length, jobs that run immediately may take `INLINE_S_MAX`."""
INLINE_STEPS_MAX: Final = 8
"""A job of more steps than this does not run immediately."""
LONG_STEP_S: Final = 0.001
SLICE_COST: Final = 100
"""How many ordinary items, such as partitions of a request, make up a slice."""
LARGE_MEMORY_MIN: Final = 4 * 1024 * 1024
SMALL_ACTIVE_MAX: Final = 64
LARGE_ACTIVE_MAX: Final = 4
"""How many jobs that hold at least `LARGE_MEMORY_MIN` run at a time; `SMALL_ACTIVE_MAX` is for the others."""


class TakesLonger(Exception):
    """The job is too long to run immediately."""


class ClientGone(Exception):
    """The client that the work was for has disconnected."""


Done = Callable[[Any, BaseException | None], None]


class _Running(NamedTuple):
    job: "Job[Any]"
    done: Done
    is_wanted: Callable[[], bool]
    is_large: bool


class Scheduler:
    def __init__(self, clock: Clock, offload: Offload | None = None) -> None:
        self._clock = clock
        self._offload = offload
        self._active: deque[tuple[_Running, Any, BaseException | None]] = deque()
        self._waiting: dict[bool, deque[_Running]] = {False: deque(), True: deque()}
        self._active_count = {False: 0, True: 0}
        self._resting: deque[tuple[asyncio.Future[None], Callable[[], bool]]] = deque()
        self._is_turn_scheduled = False
        self._inline_window_ends = 0.0
        self._inline_s_left = 0.0
        self.on_long_step: Callable[[str, float], None] | None = None
        """Called with the name of a job and the seconds of a step that took longer than `LONG_STEP_S`."""
        self.before_turn: Callable[[], None] | None = None
        """Called before the steps of a turn, so that the time of other work does not count as theirs."""

    @property
    def offloads(self) -> bool:
        """Return whether functions that jobs yield run off the event loop."""
        return self._offload is not None

    @property
    def unfinished_count(self) -> int:
        return sum(self._active_count.values()) + sum(map(len, self._waiting.values()))

    def now(self, job: "Job[T]") -> T:
        """Run a short job immediately; raise TakesLonger if it is long, or if such jobs took too much time recently.

        The job is then closed: start a new one with `run`.
        """
        began = self._clock.monotonic()
        if began >= self._inline_window_ends:
            self._inline_window_ends = began + INLINE_WINDOW_S
            self._inline_s_left = INLINE_S_MAX
        ends = began + self._inline_s_left
        try:
            for _ in range(INLINE_STEPS_MAX):
                if next(job) is not None or self._clock.monotonic() >= ends:
                    break
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            self._inline_s_left -= self._clock.monotonic() - began
        job.close()
        raise TakesLonger

    def soon(self, start: "Callable[[], Job[None]]") -> None:
        """Run a job that nobody waits for: immediately if it is short, otherwise in slices. It may be started twice."""
        try:
            self.now(start())
        except TakesLonger:
            self.later(start())

    def later(self, job: "Job[None]") -> None:
        """Run a job that nobody waits for, in slices."""
        self.run(job, lambda result, error: None, is_wanted=lambda: True)

    def run(self, job: "Job[Any]", done: Done, *, is_wanted: Callable[[], bool], memory: int = 0) -> None:
        """Run a job in slices; `done` gets its result or its error.

        The job is abandoned, and `done` gets ClientGone, when it is no longer wanted. `memory` is the largest number
        of bytes that it holds while it runs.
        """
        is_large = memory >= LARGE_MEMORY_MIN
        self._waiting[is_large].append(_Running(job, done, is_wanted, is_large))
        self._admit(is_large)

    def _admit(self, is_large: bool) -> None:
        waiting = self._waiting[is_large]
        most = LARGE_ACTIVE_MAX if is_large else SMALL_ACTIVE_MAX
        while waiting and self._active_count[is_large] < most:
            self._active_count[is_large] += 1
            self._active.append((waiting.popleft(), None, None))
        self._schedule_turn()

    def _schedule_turn(self) -> None:
        if not self._is_turn_scheduled and (self._active or self._resting):
            self._is_turn_scheduled = True
            self._clock.call_later(0.0, self._turn)

    def _turn(self) -> None:
        self._is_turn_scheduled = False
        if self.before_turn is not None:
            self.before_turn()
        began = self._clock.monotonic()
        ends = began + TURN_S_MAX
        for _ in range(STEPS_PER_TURN_MAX):
            if not self._active:
                break
            running, result, error = self._active.popleft()
            self._advance(running, result, error)
            now = self._clock.monotonic()
            if now - began > LONG_STEP_S and self.on_long_step is not None:
                self.on_long_step(getattr(running.job, "__qualname__", "?"), now - began)
            began = now
            del running, result, error  # as in `_advance`
            if now >= ends:
                break
        # A coroutine that resumes does up to a slice of work, which counts as the rest of this turn.
        while self._resting:
            future, is_wanted = self._resting.popleft()
            if not future.done():
                if is_wanted():
                    future.set_result(None)
                    break
                future.set_exception(ClientGone())
        self._schedule_turn()

    def _advance(self, running: _Running, result: Any, error: BaseException | None) -> None:
        job = running.job
        try:
            if not running.is_wanted():
                job.close()
                raise ClientGone
            step = job.send(result) if error is None else job.throw(error)
        except StopIteration as end:
            self._end(running, end.value, None)
        except BaseException as problem:
            # Without this frame, which refers to the future that will refer to the error: what the job holds, maybe
            # megabytes of a request, would live until a garbage collection. Python 3.12 and 3.13 keep this frame with
            # that of the job, so it must not refer to the future either.
            traceback = problem.__traceback__
            self._end(running, None, problem.with_traceback(traceback and traceback.tb_next))
            del traceback, running, job
        else:
            if step is None:
                self._active.append((running, None, None))
            elif self._offload is None:
                self._active.append((running, *_call(step)))
            else:
                self._offload.run(step, lambda result, error: self._called(running, result, error))

    def _called(self, running: _Running, result: Any, error: BaseException | None) -> None:
        self._active.append((running, result, error))
        self._schedule_turn()

    def _end(self, running: _Running, value: Any, error: BaseException | None) -> None:
        self._active_count[running.is_large] -= 1
        self._admit(running.is_large)
        running.done(value, error)

    async def rest(self, is_wanted: Callable[[], bool]) -> None:
        """Let other work run: continue in a later turn, one coroutine per turn."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append((future, is_wanted))
        self._schedule_turn()
        await future

    def stop(self) -> None:
        """Abandon all jobs, and run no new ones."""
        for running, _, _ in self._active:
            running.job.close()
        for waiting in self._waiting.values():
            for running in waiting:
                running.job.close()
            waiting.clear()
        self._active.clear()
        self._resting.clear()
        if self._offload is not None:
            self._offload.stop()


def _call(step: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return step(), None
    except Exception as error:
        return None, error


def _settle(future: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


class Pace:
    """Policy for the long work of one request: in slices, while its client is connected."""

    __slots__ = ("_is_wanted", "_left", "_scheduler")

    def __init__(self, scheduler: Scheduler, is_wanted: Callable[[], bool]) -> None:
        self._scheduler = scheduler
        self._is_wanted = is_wanted
        self._left = SLICE_COST

    async def finish(self, start: "Callable[[], Job[T]]", *, memory: int = 0) -> T:
        """Run a job immediately if it is short, otherwise in slices. `start` creates it, twice if it is long."""
        try:
            return self._scheduler.now(start())
        except TakesLonger:
            pass
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._scheduler.run(start(), partial(_settle, future), is_wanted=self._is_wanted, memory=memory)
        try:
            return await future
        finally:
            # An error refers to this frame: if the frame referred to the error, both would live until a collection.
            del future

    async def rest(self) -> None:
        """Let other work run."""
        await self._scheduler.rest(self._is_wanted)

    async def each(self, items: Iterable[T], *, cost: int = 1) -> AsyncIterator[T]:
        """Iterate over items and rest after each slice; an item costs `cost` of the `SLICE_COST` that make a slice.

        State may change during a rest.
        """
        for item in items:
            if self._left <= 0:
                await self.rest()
                self._left = SLICE_COST
            self._left -= cost
            yield item


class Unpaced(Pace):
    """Policy without slices: for requests that this node sends to itself, and for tests."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    async def finish(self, start: "Callable[[], Job[T]]", *, memory: int = 0) -> T:
        return finish(start())

    async def rest(self) -> None:
        await asyncio.sleep(0)

    async def each(self, items: Iterable[T], *, cost: int = 1) -> AsyncIterator[T]:
        for item in items:
            yield item


UNPACED: Final = Unpaced()
