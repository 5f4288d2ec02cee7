"""Memory that answers hold which nobody takes.

A connection whose peer does not take its answers is not read from, so what it holds does not grow; but there may be
many such connections. Together they may hold no more than the budget: beyond that, the one that has not been taken
from for the longest time is cut off. Pure; driven by real_network.py.
"""

from typing import Generic, TypeVar

C = TypeVar("C")


class UnsentBudget(Generic[C]):
    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held = 0
        self._stalled: dict[C, int] = {}

    def hold(self, connection: C, size: int) -> list[C]:
        """A connection begins to wait with so many bytes; returns those that have to go for it, the oldest first."""
        self.let_go(connection)
        self._stalled[connection] = size
        self.held += size
        victims: list[C] = []
        left = self.held
        for oldest, its_size in self._stalled.items():
            if left <= self.budget:
                break
            victims.append(oldest)
            left -= its_size
        return victims

    def let_go(self, connection: C) -> None:
        """All that the connection held is sent, or it is gone."""
        self.held -= self._stalled.pop(connection, 0)
