"""The memory budget for the metadata of group members, over all groups of this node. Pure.

A member's metadata, for all its protocols, is held as long as its session lasts. Members with little metadata are
always accepted; the others only while the total stays within the budget. Called by service.py.
Refuses: CoordinatorNotAvailable, which clients retry.
"""

from collections.abc import Callable
from typing import Final

from penstock.coordinator.errors import CoordinatorNotAvailable

SMALL_SIZE_MAX: Final = 4096
# Measuring takes some milliseconds with many groups.
MEASURED_EVERY_S: Final = 1.0


class MemberMemory:
    def __init__(self, measure: Callable[[], int]) -> None:
        self._measure = measure
        self._measured_at = float("-inf")
        self._held = 0

    def admit(self, size: int, *, budget: int, now: float) -> None:
        """Accept a member whose metadata has this size, or raise CoordinatorNotAvailable."""
        if size <= SMALL_SIZE_MAX:
            return
        if now - self._measured_at >= MEASURED_EVERY_S:
            self._held = self._measure()
            self._measured_at = now
        if self._held + size > budget:
            raise CoordinatorNotAvailable
        self._held += size
