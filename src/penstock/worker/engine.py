"""Runs handlers on threads: takes tasks from the lanes, counts attempts, gives up, tells progress.

One lock guards lanes and progress. The thread that polls calls `submit`, `positions`, `settle`
and `close`; the threads here call the handler outside the lock. Knows nothing of Kafka: giving up
is a function that returns when the dead letter is safe, or raises, which ends the worker.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from penstock.worker.dead_letter import words_of
from penstock.worker.lanes import Lanes, Place, Task
from penstock.worker.options import Order, Retry
from penstock.worker.progress import OffsetTracker
from penstock.worker.record import Record

log = logging.getLogger("penstock.worker")

Handler = Callable[[Record], None] | Callable[[Record], Awaitable[None]]
JOIN_S = 1.0


@dataclass(slots=True)
class Counts:
    """What a worker has done since it began."""

    taken: int = 0
    succeeded: int = 0
    retried: int = 0
    dead_lettered: int = 0
    dropped: int = 0


GiveUp = Callable[[Task, Exception, int], None]


class Engine:
    """Handles submitted records on `concurrency` threads."""

    def __init__(
        self,
        handler: Handler,
        *,
        give_up: GiveUp,
        retry: Retry,
        order: Order = Order.PARTITION,
        concurrency: int = 1,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._handler = handler
        self._give_up = give_up
        self._retry = retry
        self._clock = clock
        self._wall_ms = wall_ms
        self._chance = chance
        self._lanes = Lanes(order)
        self._progress: dict[Place, OffsetTracker] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._concurrency = concurrency
        self._loop: _LoopThread | None = None
        self._threads: list[threading.Thread] = []
        self.failure: BaseException | None = None
        self.counts = Counts()

    def start(self) -> None:
        """Start the threads."""
        for index in range(self._concurrency):
            thread = threading.Thread(target=self._work, name=f"penstock-worker-{index}", daemon=True)
            thread.start()
            self._threads.append(thread)

    @property
    def in_flight(self) -> int:
        """How many records were taken over and are not finished."""
        return len(self._lanes)

    def submit(self, record: Record) -> None:
        """Take a record over."""
        place = record.topic, record.partition
        with self._changed:
            progress = self._progress.get(place)
            if progress is None or progress.is_past(record.offset):
                # The topic was made anew or its offsets were reset: what ran before counts for the old life.
                progress = self._progress[place] = OffsetTracker()
            progress.start(record.offset)
            self._lanes.put(Task(record, progress))
            self.counts.taken += 1
            self._changed.notify()

    def wait_for_room(self, in_flight: int, *, timeout_s: float) -> bool:
        """Wait until no more than so many are in flight; return whether that came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._lanes) <= in_flight or bool(self.failure), timeout_s)

    def positions(self, places: Collection[Place] | None = None) -> dict[Place, int]:
        """Return the offsets that are new to commit, and take them as told."""
        found: dict[Place, int] = {}
        with self._changed:
            for place, progress in self._progress.items():
                if places is not None and place not in places:
                    continue
                offset = progress.news()
                if offset is not None:
                    progress.told(offset)
                    found[place] = offset
        return found

    def not_committed(self, places: Iterable[Place]) -> None:
        """Say the positions of these partitions again at the next commit."""
        with self._changed:
            for place in places:
                if place in self._progress:
                    self._progress[place].not_committed()

    def settle(
        self, places: Collection[Place] | None, *, timeout_s: float, finish_all: bool, hurry: Callable[[], bool]
    ) -> bool:
        """Bring the work on these partitions (None: all) to rest; return whether it came to rest in time.

        What lies before a record that has begun is finished too: it would hold the commit back, and
        all that is done behind it would be repeated. The rest is let go, unless `finish_all`: also
        what waits for its next attempt, which may be far away.
        """

        def belongs(task: Task) -> bool:
            return places is None or task.place in places

        def is_needless(task: Task) -> bool:
            # After a failure nothing that waits will run any more.
            is_last = task.record.offset >= task.progress.begun and not finish_all
            return belongs(task) and task not in self._lanes.running and (is_last or self.failure is not None)

        deadline = self._clock() + timeout_s
        with self._changed:
            while True:
                self.counts.dropped += len(self._lanes.drop(is_needless))
                rested = not any(belongs(task) for task in self._lanes.tasks())
                if rested or hurry() or self._clock() >= deadline:
                    break
                # Short waits, so that a signal that arrives meanwhile is seen.
                self._changed.wait(min(0.1, max(0.0, deadline - self._clock())))
            self.counts.dropped += len(self._lanes.drop(belongs))
        return rested

    def forget(self, places: Iterable[Place]) -> None:
        """End the life of these partitions: what still runs there tells its progress to nobody."""
        with self._changed:
            for place in places:
                self._progress.pop(place, None)

    def close(self) -> None:
        """Let the threads go. One that hangs in a handler is left behind."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(JOIN_S)
        if self._loop is not None:
            self._loop.end()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            try:
                self._attempt(task)
            except BaseException as error:
                # Neither handled nor dead-lettered: the record stays uncommitted and the worker ends.
                with self._changed:
                    self.failure = self.failure or error
                    self._lanes.release(task)
                    self._changed.notify_all()

    def _next(self) -> Task | None:
        with self._changed:
            while not self._closed:
                now = self._clock()
                if self.failure is None and (task := self._lanes.take(now)) is not None:
                    task.progress.begun = max(task.progress.begun, task.record.offset)
                    return task
                due = self._lanes.due()
                self._changed.wait(None if due is None or self.failure else max(0.0, due - now))
            return None

    def _attempt(self, task: Task) -> None:
        task.attempts += 1
        try:
            self._run(replace(task.record, attempt=task.attempts))
        except Exception as error:
            now_ms = self._wall_ms()
            task.first_failure_ms = task.first_failure_ms or now_ms
            if self._retry.again(error, attempts=task.attempts):
                self._try_later(task, error)
                return
            if not task.dropped:
                self._give_up(task, error, now_ms)
                self._finish(task, "dead_lettered")
                return
        else:
            self._finish(task, "succeeded")
            return
        # Revoked while it ran, and it failed: the next owner has the say.
        with self._changed:
            self._lanes.release(task)
            self._changed.notify_all()

    def _run(self, record: Record) -> None:
        outcome = self._handler(record)
        if inspect.iscoroutine(outcome):
            # Asked of what came back and not of the handler: a partial or a lambda hides an `async def`.
            with self._changed:
                self._loop = self._loop or _LoopThread()
            self._loop.run(outcome)

    def _try_later(self, task: Task, error: Exception) -> None:
        wait_s = self._retry.wait_s(attempts=task.attempts, chance=self._chance())
        log.warning(
            "%s: attempt %d of %d failed (%s: %s), trying again in %.1f s",
            task.record.place, task.attempts, self._retry.attempts, type(error).__name__, words_of(error), wait_s,
        )  # fmt: skip
        with self._changed:
            self.counts.retried += not task.dropped
            self._lanes.later(task, due=self._clock() + wait_s)
            self._changed.notify_all()

    def _finish(self, task: Task, outcome: str) -> None:
        with self._changed:
            setattr(self.counts, outcome, getattr(self.counts, outcome) + 1)
            task.progress.finish(task.record.offset)
            self._lanes.release(task)
            self._changed.notify_all()


class _LoopThread:
    """One event loop for all handlers that are coroutines, so that they can share sessions and pools."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-worker-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        future: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.result()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(JOIN_S)
        if not self._thread.is_alive():
            self._loop.close()
