"""A token bucket that may go into debt.

Pure. A request takes its full amount even if the bucket holds less, because a request that has arrived cannot
be split; its client then waits until the debt is paid. Over a span T at a rate r, clients receive at most the
capacity plus r*T plus one last request. docs/internals/quotas.md explains the consequences.
"""

from typing import Final

DEBT_S_MAX: Final = 3600.0
"""The longest throttle time: it must fit the response field, and no client waits longer than this."""


class Bucket:
    __slots__ = ("__weakref__", "_at", "_tokens", "capacity", "rate")

    def __init__(self, rate: float, capacity: float, now: float) -> None:
        assert rate > 0 and capacity > 0, "a quota is positive"
        self.rate = rate
        self.capacity = capacity
        self._tokens = capacity
        self._at = now

    def take(self, amount: float, now: float) -> float:
        """Take the amount, and return how many seconds the bucket needs to repay its debt."""
        tokens = self._tokens + (now - self._at) * self.rate
        if tokens > self.capacity:
            tokens = self.capacity
        self._at = now
        self._tokens = tokens = tokens - amount
        return min(-tokens / self.rate, DEBT_S_MAX) if tokens < 0 else 0.0

    def debt_s(self, now: float) -> float:
        """Return how many seconds the bucket needs to repay its debt."""
        return self.take(0, now)

    def is_full(self, now: float) -> bool:
        """Return whether the bucket is full: it can then be replaced by a new one."""
        self.take(0, now)
        return self._tokens >= self.capacity
