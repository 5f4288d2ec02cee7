"""Memory of replies that peers do not read.

A connection whose peer does not read its replies is not read, so that its memory hardly grows; but there may be
many such connections. Together they may hold no more than the budget: beyond that, those that hold the most for the
longest time without progress are closed. Pure; driven by network.py.
"""

from typing import Generic, Protocol, TypeVar


class Unsent(Protocol):
    def unsent_in_memory(self) -> int: ...

    def stalled_s(self, now: float) -> float: ...


C = TypeVar("C", bound=Unsent)
# What counts as stalled for a connection that has just begun to wait: sizes then decide.
JUST_BEGUN_S = 0.001


class UnsentBudget(Generic[C]):
    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held = 0
        self._waiting: dict[C, int] = {}

    def hold(self, connection: C, now: float) -> list[C]:
        """Note that a connection begins to wait; return those to close for it."""
        self.let_go(connection)
        self._waiting[connection] = size = connection.unsent_in_memory()
        self.held += size
        if self.held <= self.budget:
            return []
        # Peers have read some of it meanwhile.
        for each in self._waiting:
            self._waiting[each] = each.unsent_in_memory()
        left = self.held = sum(self._waiting.values())
        victims: list[C] = []
        costs = {each: size * max(each.stalled_s(now), JUST_BEGUN_S) for each, size in self._waiting.items()}
        for worst in sorted(costs, key=costs.__getitem__, reverse=True):
            if left <= self.budget:
                break
            victims.append(worst)
            left -= self._waiting[worst]
        return victims

    def let_go(self, connection: C) -> None:
        """Remove a connection that has sent everything, or is closed."""
        self.held -= self._waiting.pop(connection, 0)
