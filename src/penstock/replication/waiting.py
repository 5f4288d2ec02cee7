"""Requests that wait for their records to become durable, or for records to arrive.

A parked request is in the `Waiters` of each partition that it waits on; partition.py wakes it when the high watermark
moves. Deadlines of fetches share one heap and one timer; those of produce requests are found by a sweep, because
almost none of them expires.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

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


class WaitingFetch(Protocol):
    """A parked fetch of a consumer."""

    def more_bytes(self, size: int) -> None:
        """Count bytes that became visible in one of its partitions; the size is approximate."""
        ...

    def changed(self) -> None:
        """Answer now: one of its partitions has another leader or is gone."""
        ...

    def expired(self) -> None: ...


class Waiters:
    """Everything that waits on one partition: produce requests with acks=all, fetches, and sessions of followers."""

    __slots__ = ("_fetches", "_produces", "follower_entries")

    def __init__(self) -> None:
        self._produces: deque[WaitingProduce] = deque()
        # An ordered set with cheap removal.
        self._fetches: dict[WaitingFetch, None] = {}
        self.follower_entries: list[SessionEntry] = []
        """The entries of this partition in the sessions of followers."""

    # -- events ------------------------------------------------------------------------------

    def wrote(self, size: int) -> None:
        """Notify followers of an append."""
        for entry in self.follower_entries:
            entry.wrote(size)

    def mark_moved(self, mark: int, size: int) -> None:
        """Answer produce requests up to the new high watermark, and notify fetches of about `size` visible bytes."""
        waiting = self._produces
        while waiting and waiting[0].offset <= mark:
            waiting.popleft().done(NO_ERROR)
        if self._fetches:
            for fetch in list(self._fetches):
                fetch.more_bytes(size)
        for entry in self.follower_entries:
            entry.mark_moved()

    def changed(self) -> None:
        """Notify all fetches that the partition has another leader or is gone."""
        for fetch in list(self._fetches):
            fetch.changed()
        self.followers_changed()

    def followers_changed(self) -> None:
        """Notify followers of a change other than an append."""
        for entry in self.follower_entries:
            entry.changed()

    def fail_produces(self, code: int, *, before: float | None = None) -> None:
        """Answer produce requests with an error: all of them, or those whose deadline has passed."""
        parked, self._produces = self._produces, deque()
        for waiting in parked:
            if before is None or waiting.deadline <= before:
                waiting.done(code)
            else:
                self._produces.append(waiting)

    def expire_produces(self, now: float) -> None:
        if self._produces and self._produces[0].deadline <= now:
            self.fail_produces(RequestTimedOut.code, before=now)

    # -- waiters -----------------------------------------------------------------------------

    def add_produce(self, waiting: WaitingProduce) -> None:
        """Park a produce request until the high watermark reaches its offset. Offsets rise, roughly."""
        self._produces.append(waiting)

    def add_fetch(self, fetch: WaitingFetch) -> None:
        self._fetches[fetch] = None

    def remove_fetch(self, fetch: WaitingFetch) -> None:
        self._fetches.pop(fetch, None)

    def add_follower(self, entry: SessionEntry) -> None:
        self.follower_entries.append(entry)

    def remove_follower(self, entry: SessionEntry) -> None:
        self.follower_entries.remove(entry)


class Deadlines:
    """The deadlines of parked fetches: one heap, one timer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, WaitingFetch]] = []
        self._count = 0
        self._timer: Timer | None = None
        self._timer_at = 0.0

    def add(self, deadline: float, waiting: WaitingFetch) -> None:
        """Call `waiting.expired()` at the deadline; a fetch that has been answered by then ignores the call."""
        self._count += 1
        heappush(self._heap, (deadline, self._count, waiting))
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap.clear()

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
