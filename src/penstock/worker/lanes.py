"""Scheduling of records in lanes: one record per lane at a time, with delays between attempts.

A lane contains the records that must stay in order (see Order). No threads, locks or clock; `engine.py` has those. A
record that waits for its next attempt blocks only its own lane.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from penstock.worker.options import Order
from penstock.worker.progress import OffsetTracker
from penstock.worker.record import Record

PartitionId = tuple[str, int]


@dataclass(slots=True, eq=False)
class Task:
    """A record in progress, with its number of attempts and the incarnation of its partition."""

    record: Record
    progress: OffsetTracker
    attempts: int = 0
    first_failure_ms: int = 0
    dropped: bool = False

    @property
    def partition(self) -> PartitionId:
        return self.record.topic, self.record.partition


@dataclass(slots=True)
class Lanes:
    """Tasks that were added and not yet released."""

    order: Order = Order.PARTITION
    running: set[Task] = field(default_factory=set)
    _lanes: dict[Hashable, deque[Task]] = field(default_factory=dict)
    _ready: deque[Hashable] = field(default_factory=deque)
    _later: list[tuple[float, int, Task]] = field(default_factory=list)
    _count: int = 0
    _sequence: int = 0

    def __len__(self) -> int:
        return self._count

    def tasks(self) -> Iterator[Task]:
        """Yield every task, running or not."""
        return itertools.chain.from_iterable(self._lanes.values())

    def put(self, task: Task) -> None:
        """Add a task at the end of its lane."""
        lane = self._lane(task)
        self._count += 1
        queue = self._lanes.get(lane)
        if queue is None:
            self._lanes[lane] = deque([task])
            self._ready.append(lane)
        else:
            queue.append(task)

    def take(self, now: float) -> Task | None:
        """Return a task that may run now; it runs until `release` or `later`."""
        while self._later and (self._later[0][0] <= now or self._later[0][2].dropped):
            _, _, task = heapq.heappop(self._later)
            if not task.dropped:
                self._ready.append(self._lane(task))
        if not self._ready:
            return None
        task = self._lanes[self._ready.popleft()][0]
        self.running.add(task)
        return task

    def due(self) -> float | None:
        """Return when the next waiting task may run, or None if none waits."""
        return self._later[0][0] if self._later else None

    def later(self, task: Task, *, due: float) -> None:
        """Delay a running task and its lane. A dropped task is not queued again."""
        if task.dropped:
            self.release(task)
            return
        self.running.remove(task)
        self._sequence += 1
        heapq.heappush(self._later, (due, self._sequence, task))

    def release(self, task: Task) -> None:
        """Remove a task that has run; the next one of its lane may run."""
        self.running.remove(task)
        self._count -= 1
        lane = self._lane(task)
        queue = self._lanes[lane]
        queue.popleft()
        if queue:
            self._ready.append(lane)
        else:
            del self._lanes[lane]

    def drop(self, belongs: Callable[[Task], bool]) -> list[Task]:
        """Remove matching tasks that do not run; those that run are marked and not queued again."""
        gone: list[Task] = []
        for lane, queue in list(self._lanes.items()):
            kept: deque[Task] = deque()
            for task in queue:
                if not belongs(task):
                    kept.append(task)
                    continue
                task.dropped = True
                if task in self.running:
                    kept.append(task)
                else:
                    gone.append(task)
            if len(kept) == len(queue):
                continue
            head_moved = not kept or kept[0] is not queue[0]
            if kept:
                self._lanes[lane] = kept
            else:
                del self._lanes[lane]
            if head_moved:
                self._follow(lane, alive=bool(kept))
        self._count -= len(gone)
        return gone

    def _follow(self, lane: Hashable, *, alive: bool) -> None:
        """Make the successor ready after the head of a lane was dropped."""
        if lane in self._ready:
            if not alive:
                self._ready.remove(lane)
        elif alive:
            self._ready.append(lane)

    def _lane(self, task: Task) -> Hashable:
        record = task.record
        if self.order is Order.PARTITION:
            return record.topic, record.partition
        if self.order is Order.KEY and record.key is not None:
            return record.topic, record.partition, record.key
        return record.topic, record.partition, record.offset, id(task)
