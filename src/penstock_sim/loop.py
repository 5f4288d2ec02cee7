"""The event loop of the simulator: virtual time, seeded turns, and an owner for everything that runs.

Each owner stands for one process. What an owner asks for with `call_soon` runs in its order, as
asyncio promises; whose turn comes next is drawn. Time moves only when nobody has anything to do.
An owner that dies is simply never run again: its tasks stay where they were, as after kill -9.
Real I/O is refused: the methods of `AbstractEventLoop` that are not here raise NotImplementedError.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from heapq import heappop, heappush
from random import Random
from typing import Any


class Stuck(Exception):
    """The simulation went on for more steps than any seed needs."""


class Owner:
    """One simulated process: what it has to run, when it may run again, and whether it is alive."""

    __slots__ = ("alive", "name", "not_before", "queued", "ready", "step_cost", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.ready: deque[SimHandle] = deque()
        self.queued = False
        # A paused or slow process has things to do and does not do them yet.
        self.not_before = 0.0
        self.step_cost = 0.0
        self.tasks: list[asyncio.Task[Any]] = []

    def die(self) -> None:
        self.alive = False
        self.ready.clear()


class SimHandle:
    """A call that waits for its turn or its time."""

    __slots__ = ("arguments", "callback", "cancelled_", "context", "owner", "when_")

    def __init__(
        self, owner: Owner, callback: Callable[..., Any], arguments: tuple[Any, ...], context: Context | None
    ) -> None:
        self.owner = owner
        self.callback = callback
        self.arguments = arguments
        self.context = context
        self.cancelled_ = False
        self.when_ = 0.0

    def cancel(self) -> None:
        self.cancelled_ = True

    def cancelled(self) -> bool:
        return self.cancelled_

    def when(self) -> float:
        return self.when_


class _Counted:
    """Hashes by a number of its own, so that a set of tasks has the same order in every run."""

    number = 0

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimFuture(_Counted, asyncio.Future[Any]):
    pass


class SimTask(_Counted, asyncio.Task[Any]):
    pass


class SimLoop(asyncio.AbstractEventLoop):
    def __init__(self, random: Random, *, steps_max: int = 5_000_000) -> None:
        self.now = 0.0
        self.steps = 0
        self.world = Owner("world")
        self.current = self.world
        self.errors: list[tuple[str, str, BaseException | None]] = []
        self._steps_max = steps_max
        self._random = random
        self._turns: list[Owner] = []
        self._heap: list[tuple[float, int, SimHandle]] = []
        self._count = 0
        self._owners: list[Owner] = [self.world]
        self._running = False
        self._nothing = SimHandle(self.world, lambda: None, (), None)
        self._nothing.cancel()

    # -- owners ----------------------------------------------------------------------------

    def owner(self, name: str) -> Owner:
        made = Owner(name)
        self._owners.append(made)
        return made

    def pause(self, owner: Owner, seconds: float) -> None:
        """Let an owner stand still while its clock runs on."""
        owner.not_before = max(owner.not_before, self.now + seconds)

    def as_owner(self, owner: Owner, callback: Callable[..., Any], *arguments: Any) -> SimHandle:
        """Let another owner run something in its turn."""
        handle = SimHandle(owner, callback, arguments, None)
        self._enqueue(handle)
        return handle

    def as_owner_at(self, owner: Owner, when: float, callback: Callable[..., Any], *arguments: Any) -> SimHandle:
        handle = SimHandle(owner, callback, arguments, None)
        self._at(when, handle)
        return handle

    def spawn(self, owner: Owner, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine as another owner."""
        before, self.current = self.current, owner
        try:
            return self.create_task(work)
        finally:
            self.current = before

    # -- what asyncio asks for -------------------------------------------------------------

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> SimHandle:
        handle = SimHandle(self.current, callback, args, context)
        self._enqueue(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> SimHandle:
        return self.call_at(self.now + max(delay, 0.0), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> SimHandle:
        handle = SimHandle(self.current, callback, args, context)
        self._at(when, handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        future = SimFuture(loop=self)
        self._count += 1
        future.number = self._count
        return future

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: object = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        self._count += 1
        task = SimTask.__new__(SimTask)
        task.number = self._count
        SimTask.__init__(task, coro, loop=self, context=context)
        self.current.tasks.append(task)
        if len(self.current.tasks) > 256:
            self.current.tasks = [each for each in self.current.tasks if not each.done()]
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append((self.current.name, str(context.get("message")), error))

    def settle(self, future: asyncio.Future[Any], result: Any) -> None:
        """Give a future its result, unless it has one."""
        if not future.done():
            future.set_result(result)

    # -- running ---------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Run as the world until the coroutine is done."""
        self._running = True
        asyncio._set_running_loop(self)
        try:
            task = self.spawn(self.world, main)
            self._run_until(task)
            return task.result()
        finally:
            self._close_tasks()
            asyncio._set_running_loop(None)
            self._running = False

    def _at(self, when: float, handle: SimHandle) -> None:
        handle.when_ = when
        self._count += 1
        heappush(self._heap, (when, self._count, handle))

    def _enqueue(self, handle: SimHandle) -> None:
        owner = handle.owner
        if not owner.alive:
            return
        owner.ready.append(handle)
        if not owner.queued:
            owner.queued = True
            self._turns.append(owner)

    def _run_until(self, task: asyncio.Task[Any]) -> None:
        """Let whoever has something to do take a turn, again and again. Every event of a seed passes here."""
        heap, turns, world = self._heap, self._turns, self.world
        draw, enqueue, steps_max = self._random.random, self._enqueue, self._steps_max
        while not task.done():
            now = self.now
            while heap and heap[0][0] <= now:
                handle = heappop(heap)[2]
                if not handle.cancelled_:
                    enqueue(handle)
            if not turns:
                self._move_time()
                continue
            owner = turns[int(draw() * len(turns))] if len(turns) > 1 else turns[0]
            if owner.not_before > now:
                able = [each for each in turns if each.not_before <= now]
                if not able:
                    self._move_time()
                    continue
                owner = able[int(draw() * len(able))]
            ready = owner.ready
            handle = ready.popleft() if ready else self._nothing
            if not ready:
                owner.queued = False
                turns.remove(owner)
            if handle.cancelled_:
                continue
            self.steps += 1
            if self.steps > steps_max:
                raise Stuck(f"{self.steps} steps at {now:.1f} s")
            if owner.step_cost:
                owner.not_before = now + owner.step_cost
            self.current = owner
            try:
                if handle.context is None:
                    handle.callback(*handle.arguments)
                else:
                    handle.context.run(handle.callback, *handle.arguments)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                if owner is world:
                    raise
                self.errors.append((owner.name, "a callback raised", error))
            finally:
                self.current = world

    def _move_time(self) -> None:
        """Nobody can run now: go on to when somebody can."""
        if self._heap and not self._turns:
            self.now = max(self.now, self._heap[0][0])
            return
        times = [each.not_before for each in self._turns]
        if self._heap:
            times.append(self._heap[0][0])
        if not times:
            raise Stuck(f"nobody has anything to do at {self.now:.1f} s")
        self.now = max(self.now, min(times))

    def _close_tasks(self) -> None:
        """End what was left hanging, without a word: its owners' ports no longer answer."""
        for owner in self._owners:
            owner.alive = False
            for task in owner.tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    coroutine = task.get_coro()
                    with suppress(BaseException):
                        if coroutine is not None:
                            coroutine.close()
                elif not task.cancelled():
                    task.exception()
            owner.tasks.clear()
