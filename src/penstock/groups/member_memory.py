"""How much of what members send to take part in groups is held in memory, over all groups of this node. Pure.

Every member keeps the metadata of all its protocols for as long as its session lasts. Members with little of it are
always taken; the others as long as all of them together stay within a budget. Called by service.py.
Refuses: CoordinatorNotAvailable, so that clients try again later.
"""

from collections.abc import Callable
from typing import Final

from penstock.coordinator.errors import CoordinatorNotAvailable

SMALL_SIZE_MAX: Final = 4096
# Adding it all up takes some milliseconds where there are many groups.
MEASURED_EVERY_S: Final = 1.0


class MemberMemory:
    def __init__(self, measure: Callable[[], int]) -> None:
        self._measure = measure
        self._measured_at = float("-inf")
        self._held = 0

    def take(self, size: int, *, budget: int, now: float) -> None:
        """Let a member in that sends so many bytes."""
        if size <= SMALL_SIZE_MAX:
            return
        if now - self._measured_at >= MEASURED_EVERY_S:
            self._held = self._measure()
            self._measured_at = now
        if self._held + size > budget:
            raise CoordinatorNotAvailable
        self._held += size
