"""Visits to all partitions that this node leads, a few in each turn of the event loop.

A check of ten thousand partitions takes tens of milliseconds. Called by replicas.py for the ISR: members that lag
(`maybe_shrink_isr`), and followers that may join since a broker has changed (`maybe_expand_isr`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from penstock.ports.clock import Clock, Timer

if TYPE_CHECKING:
    from penstock.replication.partition import Partition

VISITS_PER_SLICE: Final = 250
"""Each takes 4 to 10 microseconds."""

Visit = Callable[["Partition"], None]


class LeaderRounds:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: dict[Visit, deque[Partition]] = {}
        self._timer: Timer | None = None

    def begin(self, visit: Visit, partitions: Iterable[Partition]) -> None:
        """Call `visit` for each partition that this node leads; a round of the same visit that is left is replaced."""
        self._left[visit] = deque(partition for partition in partitions if partition.leadership is not None)
        if self._timer is None:
            self._run_slice()

    def stop(self) -> None:
        self._left.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run_slice(self) -> None:
        self._timer = None
        visits = VISITS_PER_SLICE
        for visit, partitions in list(self._left.items()):
            while partitions and visits:
                visit(partitions.popleft())
                visits -= 1
            if not partitions and self._left.get(visit) is partitions:
                del self._left[visit]
        if self._left:
            self._timer = self._clock.call_later(0, self._run_slice)
