"""The simulator's event loop: virtual time, random scheduling, and an owner for everything that runs.

Each owner stands for one process. Callbacks that an owner schedules with `call_soon` run in order, as in asyncio; which
owner runs next is random. Time advances only when no owner has anything to run. An owner that dies is never run again:
its tasks stay as they were, as after kill -9. Real I/O is not supported: the methods of `AbstractEventLoop` that are
not defined here raise NotImplementedError.
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
    """The simulation ran for more steps than any seed needs, or cannot continue."""


class Owner:
    """A simulated process: its callbacks, when it may run again, and whether it is alive."""

    __slots__ = ("alive", "busy_until", "name", "not_before", "queued", "ready", "step_cost", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.ready: deque[SimHandle] = deque()
        self.queued = False
        # A paused or slow process has callbacks that it does not run yet.
        self.not_before = 0.0
        self.busy_until = 0.0
        """When the blocking calls of its callbacks return. Its clock is ahead of the loop's until then."""
        self.step_cost = 0.0
        self.tasks: list[asyncio.Task[Any]] = []

    def block(self, now: float, seconds: float) -> None:
        """Let a call in the current callback take time: its clock moves on, and its next callback waits."""
        self.busy_until = max(self.busy_until, now) + seconds
        self.not_before = max(self.not_before, self.busy_until)

    def die(self) -> None:
        self.alive = False
        self.ready.clear()


class SimHandle:
    """A scheduled callback."""

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
    """Hashes by a sequence number, so that a set of tasks has the same order in every run."""

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
        """Suspend an owner while its clock continues."""
        owner.not_before = max(owner.not_before, self.now + seconds)

    def as_owner(self, owner: Owner, callback: Callable[..., Any], *arguments: Any) -> SimHandle:
        """Run a callback as another owner."""
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

    # -- the interface of asyncio ----------------------------------------------------------

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
        """Set the result of a future, unless it is done."""
        if not future.done():
            future.set_result(result)

    # -- running ---------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine as the world until it is done."""
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
        """Run one owner at a time until the task is done. Every event of a seed passes through here."""
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
        """Advance time to the next callback, because no owner can run now."""
        if self._heap and not self._turns:
            self.now = max(self.now, self._heap[0][0])
            return
        times = [each.not_before for each in self._turns]
        if self._heap:
            times.append(self._heap[0][0])
        if not times:
            raise Stuck(f"no owner has anything to run at {self.now:.1f} s")
        self.now = max(self.now, min(times))

    def _close_tasks(self) -> None:
        """Close pending tasks silently: the ports of their owners no longer respond."""
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
