"""The most frequent keys, in bounded memory.

The space-saving sketch (Metwally, Agrawal and El Abbadi, 2005): when the table is full, a new key replaces the key
with the lowest count and inherits that count as a possible overcount. Every key with more than 1/capacity of the
weight is in the table. A count is never too low, and too high by at most its `overcount`.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Heavy(Generic[K]):
    key: K
    count: int
    overcount: int

    @property
    def guaranteed(self) -> int:
        """The lower bound of the count."""
        return self.count - self.overcount


class SpaceSaving(Generic[K]):
    def __init__(self, capacity: int) -> None:
        assert capacity > 0
        self._capacity = capacity
        self._counts: dict[K, int] = {}
        self._overcounts: dict[K, int] = {}
        # Counts in the heap may be stale and too low; _pop_least corrects them.
        self._heap: list[tuple[int, int, K]] = []
        self._arrivals = 0
        self.total = 0

    def add(self, key: K, weight: int = 1) -> None:
        self.total += weight
        counts = self._counts
        if key in counts:
            counts[key] += weight
            return
        inherited = 0
        if len(counts) >= self._capacity:
            least = self._pop_least()
            inherited = counts.pop(least)
            self._overcounts.pop(least, None)
        counts[key] = inherited + weight
        if inherited:
            self._overcounts[key] = inherited
        self._push(key)

    def heaviest(self, count: int) -> list[Heavy[K]]:
        """Return the keys with the highest counts; among equals, the lowest overcount first."""
        found = [Heavy(key, seen, self._overcounts.get(key, 0)) for key, seen in self._counts.items()]
        return sorted(found, key=lambda heavy: (-heavy.count, heavy.overcount))[:count]

    def _push(self, key: K) -> None:
        self._arrivals += 1
        heappush(self._heap, (self._counts[key], self._arrivals, key))
        if len(self._heap) > 2 * self._capacity:
            self._heap = [entry for entry in self._heap if entry[2] in self._counts]
            heapify(self._heap)

    def _pop_least(self) -> K:
        while True:
            seen, _, key = heappop(self._heap)
            present = self._counts.get(key)
            if present == seen:
                return key
            if present is not None:
                self._push(key)
