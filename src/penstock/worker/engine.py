"""Execution of handlers on threads: takes tasks from the lanes, retries, gives up, and tracks progress.

One lock protects lanes and progress. The polling thread calls `submit`, `positions`, `settle` and `close`; the
threads here call the handler outside the lock. Independent of Kafka: giving up is a function that returns when the
dead letter is stored, or raises, which stops the worker.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace

from penstock.worker.dead_letter import words_of
from penstock.worker.lanes import Lanes, PartitionId, Task
from penstock.worker.options import Order, Retry
from penstock.worker.progress import OffsetTracker
from penstock.worker.record import Record

log = logging.getLogger("penstock.worker")

Handler = Callable[[Record], None] | Callable[[Record], Awaitable[None]]
JOIN_S = 1.0


@dataclass(slots=True)
class Counts:
    """The counters of a worker since its start."""

    taken: int = 0
    succeeded: int = 0
    retried: int = 0
    dead_lettered: int = 0
    dropped: int = 0


GiveUp = Callable[[Task, Exception, int], None]


class Engine:
    """An executor of submitted records on `concurrency` threads."""

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
        self._progress: dict[PartitionId, OffsetTracker] = {}
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
        """Return the number of records that were submitted and are not finished."""
        return len(self._lanes)

    def submit(self, record: Record) -> None:
        """Accept a record."""
        partition = record.topic, record.partition
        with self._changed:
            progress = self._progress.get(partition)
            if progress is None or progress.is_past(record.offset):
                # The topic was recreated or its offsets were reset: earlier tasks belong to the old incarnation.
                progress = self._progress[partition] = OffsetTracker()
            progress.start(record.offset)
            self._lanes.put(Task(record, progress))
            self.counts.taken += 1
            self._changed.notify()

    def wait_for_room(self, in_flight: int, *, timeout_s: float) -> bool:
        """Wait until at most this many records are in flight; return False on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._lanes) <= in_flight or bool(self.failure), timeout_s)

    def positions(self, partitions: Collection[PartitionId] | None = None) -> dict[PartitionId, int]:
        """Return the offsets to commit since the last call, and mark them as committed."""
        found: dict[PartitionId, int] = {}
        with self._changed:
            for partition, progress in self._progress.items():
                if partitions is not None and partition not in partitions:
                    continue
                offset = progress.position_to_commit()
                if offset is not None:
                    progress.mark_sent(offset)
                    found[partition] = offset
        return found

    def not_committed(self, partitions: Iterable[PartitionId]) -> None:
        """Return the positions of these partitions again at the next commit."""
        with self._changed:
            for partition in partitions:
                if partition in self._progress:
                    self._progress[partition].not_committed()

    def settle(
        self,
        partitions: Collection[PartitionId] | None,
        *,
        timeout_s: float,
        finish_all: bool,
        hurry: Callable[[], bool],
    ) -> bool:
        """Finish the work on these partitions (None: all); return False on timeout.

        Records before one that has started are finished too: otherwise they would hold back the commit, and all later
        work would be repeated. The rest is dropped unless `finish_all`, including records that wait for a retry, which
        may be far away.
        """

        def belongs(task: Task) -> bool:
            return partitions is None or task.partition in partitions

        def is_droppable(task: Task) -> bool:
            # After a failure no waiting task will run.
            is_last = task.record.offset >= task.progress.begun and not finish_all
            return belongs(task) and task not in self._lanes.running and (is_last or self.failure is not None)

        deadline = self._clock() + timeout_s
        with self._changed:
            while True:
                self.counts.dropped += len(self._lanes.drop(is_droppable))
                rested = not any(belongs(task) for task in self._lanes.tasks())
                if rested or hurry() or self._clock() >= deadline:
                    break
                # Wait in short steps, so that a signal is handled meanwhile.
                self._changed.wait(min(0.1, max(0.0, deadline - self._clock())))
            self.counts.dropped += len(self._lanes.drop(belongs))
        return rested

    def forget(self, partitions: Iterable[PartitionId]) -> None:
        """Stop tracking these partitions: tasks that still run no longer affect their progress."""
        with self._changed:
            for partition in partitions:
                self._progress.pop(partition, None)

    def close(self) -> None:
        """Stop the threads. One that hangs in a handler is abandoned."""
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
                # Neither handled nor dead-lettered: the record stays uncommitted and the worker stops.
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
        # Revoked while it ran, and it failed: the next owner will retry it.
        with self._changed:
            self._lanes.release(task)
            self._changed.notify_all()

    def _run(self, record: Record) -> None:
        outcome = self._handler(record)
        if inspect.isawaitable(outcome):
            # Check the result, not the handler: a partial or a lambda hides an `async def`.
            with self._changed:
                self._loop = self._loop or _LoopThread()
            self._loop.run(outcome)

    def _try_later(self, task: Task, error: Exception) -> None:
        wait_s = self._retry.wait_s(attempts=task.attempts, chance=self._chance())
        log.warning(
            "%s: attempt %d of %d failed (%s: %s), retrying in %.1f s",
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


async def _exit_of(work: Awaitable[None]) -> BaseException | None:
    """Await a handler; return the exception if it would end the loop, which every other handler needs."""
    try:
        await work
    except (SystemExit, KeyboardInterrupt) as error:
        return error
    return None


class _LoopThread:
    """One event loop for all coroutine handlers, so that they can share sessions and pools."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock-worker-loop", daemon=True)
        self._thread.start()

    def run(self, work: Awaitable[None]) -> None:
        future: Future[BaseException | None] = asyncio.run_coroutine_threadsafe(_exit_of(work), self._loop)
        if (exit_error := future.result()) is not None:
            raise exit_error

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(JOIN_S)
        if not self._thread.is_alive():
            self._loop.close()
