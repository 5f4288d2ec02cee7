"""Requests that wait: for their records to become durable, or for records to arrive.

A parked request hangs in the lists of the partitions it waits on; partition.py wakes it
when the high watermark moves. Time-outs of fetches share one heap and one timer; those of
produces are found by a sweep, because almost none of them ever expires.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from penstock.ports.clock import Clock, Timer


class WaitingProduce:
    """The part of an acks=all request that waits on one partition, up to `offset`."""

    __slots__ = ("deadline", "done", "offset")

    def __init__(self, offset: int, deadline: float, done: Callable[[int], None]) -> None:
        self.offset = offset
        self.deadline = deadline
        self.done = done
        """Called once, with 0 or the error code that ended the wait."""


class WaitingFetch(Protocol):
    """A fetch that found too few bytes."""

    def more_bytes(self, size: int) -> None:
        """About so many bytes became visible in one of its partitions."""
        ...

    def changed(self) -> None:
        """A partition of it changed hands or went away: look again at once."""
        ...

    def expired(self) -> None: ...


class Deadlines:
    """When parked fetches run out of patience: one heap, one timer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, WaitingFetch]] = []
        self._count = 0
        self._timer: Timer | None = None
        self._timer_at = 0.0

    def add(self, deadline: float, waiting: WaitingFetch) -> None:
        """Call `waiting.expired()` at the deadline. One that is done by then ignores it."""
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
