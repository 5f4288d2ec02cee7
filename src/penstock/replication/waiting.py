"""Requests that wait for their records to become durable, or for records to arrive.

A parked request is in the `Waiters` of each partition that it waits on; partition.py wakes it when the high watermark
moves. Deadlines of fetches share one heap and one timer. Those of produce requests are found by a sweep over the
partitions where some wait (`ProduceDeadlines`), because almost none of them expires.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Protocol

from penstock.model.errors import NO_ERROR, RequestTimedOut
from penstock.ports.clock import Clock, Timer

if TYPE_CHECKING:
    from penstock.replication.follower_sessions import SessionEntry


class WaitingProduce:
    """The part of an acks=all request that waits on one partition, up to `offset`."""

    __slots__ = ("deadline", "done", "offset")

    def __init__(self, offset: int, deadline: float, done: Callable[[int], None]) -> None:
        self.offset = offset
        self.deadline = deadline
        self.done = done
        """Called once, with 0 or the error code that ended the wait."""


class PartitionWatcher(Protocol):
    """What consumers wait with on a partition: a parked fetch, or a partition of a fetch session."""

    def more_bytes(self, size: int) -> None:
        """Count bytes that became visible in the partition; the size is approximate."""
        ...

    def changed(self) -> None:
        """Answer now: the partition has another leader or another first offset, or is gone."""
        ...


class WithDeadline(Protocol):
    """A parked fetch that is answered when its time is over."""

    @property
    def is_over(self) -> bool:
        """Return whether it is answered or abandoned."""
        ...

    def expired(self) -> None: ...


class WaitingFetch(PartitionWatcher, WithDeadline, Protocol):
    """A parked fetch of a consumer."""


_NONE: Final[deque[WaitingProduce]] = deque(maxlen=0)
"""Stands for the empty deque of each partition that nothing waits on: one of its own would take 760 bytes."""
_NO_WATCHERS: Final[dict[PartitionWatcher, None]] = {}
"""Stands for the empty dict of each partition that was never watched. Never changed."""


class Waiters:
    """Everything that waits on one partition: produce requests with acks=all, fetches, and sessions of followers."""

    __slots__ = ("_deadlines", "_watchers", "follower_entries", "produces")

    def __init__(self, deadlines: ProduceDeadlines | None = None) -> None:
        self._deadlines = deadlines
        self.produces = _NONE
        """Produce requests, oldest first. Changed only here."""
        # An ordered set with cheap removal.
        self._watchers = _NO_WATCHERS
        self.follower_entries: tuple[SessionEntry, ...] = ()
        """The entries of this partition in the sessions of followers."""

    # -- events ------------------------------------------------------------------------------

    def wrote(self, size: int) -> None:
        """Notify followers of an append."""
        for entry in self.follower_entries:
            entry.wrote(size)

    def mark_moved(self, mark: int, size: int) -> None:
        """Answer produce requests up to the new high watermark, and notify fetches of about `size` visible bytes."""
        waiting = self.produces
        while waiting and waiting[0].offset <= mark:
            waiting.popleft().done(NO_ERROR)
        if self._watchers:
            for watcher in list(self._watchers):
                watcher.more_bytes(size)
        for entry in self.follower_entries:
            entry.mark_moved()

    def changed(self) -> None:
        """Notify all fetches that the partition has another leader or is gone."""
        for watcher in list(self._watchers):
            watcher.changed()
        self.followers_changed()

    def followers_changed(self) -> None:
        """Notify followers of a change other than an append."""
        for entry in self.follower_entries:
            entry.changed()

    def fail_produces(self, code: int, *, before: float | None = None) -> None:
        """Answer produce requests with an error: all of them, or those whose deadline has passed."""
        parked, self.produces = self.produces, _NONE
        for waiting in parked:
            if before is None or waiting.deadline <= before:
                waiting.done(code)
            else:
                self.add_produce(waiting)

    def expire_produces(self, now: float) -> bool:
        """Answer produce requests whose deadline has passed; return whether others wait."""
        if self.produces and self.produces[0].deadline <= now:
            self.fail_produces(RequestTimedOut.code, before=now)
        if not self.produces:
            self.produces = _NONE
        return bool(self.produces)

    # -- waiters -----------------------------------------------------------------------------

    def add_produce(self, waiting: WaitingProduce) -> None:
        """Park a produce request until the high watermark reaches its offset. Offsets rise, roughly."""
        if self.produces is _NONE:
            self.produces = deque()
            if self._deadlines is not None:
                self._deadlines.add(self)
        self.produces.append(waiting)

    def add_watcher(self, watcher: PartitionWatcher) -> None:
        if self._watchers is _NO_WATCHERS:
            self._watchers = {}
        self._watchers[watcher] = None

    def remove_watcher(self, watcher: PartitionWatcher) -> None:
        self._watchers.pop(watcher, None)

    def add_follower(self, entry: SessionEntry) -> None:
        self.follower_entries += (entry,)

    def remove_follower(self, entry: SessionEntry) -> None:
        self.follower_entries = tuple(each for each in self.follower_entries if each is not entry)


class ProduceDeadlines:
    """The partitions of a node where produce requests have waited since the last sweep."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        # An ordered set.
        self._waiters: dict[Waiters, None] = {}

    def add(self, waiters: Waiters) -> None:
        self._waiters[waiters] = None

    def expire(self, now: float) -> None:
        """Answer all requests whose deadline has passed, and forget the partitions where none waits."""
        for waiters in list(self._waiters):
            if not waiters.expire_produces(now):
                del self._waiters[waiters]


DEADLINES_KEPT: Final = 1_000
"""With more deadlines, those of fetches that are over are dropped: clients may ask to wait for weeks."""


class Deadlines:
    """The deadlines of parked fetches: one heap, one timer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count_max = DEADLINES_KEPT
        """With how many deadlines those of fetches that are over are dropped: twice as many as were left last time."""
        self._heap: list[tuple[float, int, WithDeadline]] = []
        self._count = 0
        self._timer: Timer | None = None
        self._timer_at = 0.0

    def add(self, deadline: float, waiting: WithDeadline) -> None:
        """Call `waiting.expired()` at the deadline; a fetch that has been answered by then ignores the call."""
        self._count += 1
        heappush(self._heap, (deadline, self._count, waiting))
        if len(self._heap) > self._count_max:
            self._drop_over()
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)

    def waiting(self) -> list[WithDeadline]:
        """Return the parked fetches, and some that have been answered."""
        return [waiting for _, _, waiting in self._heap]

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap.clear()

    def _drop_over(self) -> None:
        self._heap = [entry for entry in self._heap if not entry[2].is_over]
        heapify(self._heap)
        self._count_max = max(DEADLINES_KEPT, 2 * len(self._heap))

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            heappop(self._heap)[2].expired()
        if self._heap and self._timer is None:
            self._set_timer(self._heap[0][0])
