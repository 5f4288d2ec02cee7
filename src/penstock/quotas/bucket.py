"""A token bucket that may go into debt.

Pure. What was asked for is taken even if there is not enough: a request that has come cannot be cut.
Whoever took it then waits until the debt is paid. Over a span T at a rate r, nobody gets more than the
capacity, r*T and the last request together; docs/internals/quotas.md says what follows from that.
"""

from typing import Final

DEBT_S_MAX: Final = 3600.0
"""Nobody is sent away for longer: the time has to fit the answer, and no client waits that long."""


class Bucket:
    __slots__ = ("__weakref__", "_at", "_tokens", "capacity", "rate")

    def __init__(self, rate: float, capacity: float, now: float) -> None:
        assert rate > 0 and capacity > 0, "a quota is positive"
        self.rate = rate
        self.capacity = capacity
        self._tokens = capacity
        self._at = now

    def take(self, amount: float, now: float) -> float:
        """Take the amount, and return for how many seconds the bucket is in debt."""
        tokens = self._tokens + (now - self._at) * self.rate
        if tokens > self.capacity:
            tokens = self.capacity
        self._at = now
        self._tokens = tokens = tokens - amount
        return min(-tokens / self.rate, DEBT_S_MAX) if tokens < 0 else 0.0

    def debt_s(self, now: float) -> float:
        """For how many seconds the bucket is in debt."""
        return self.take(0, now)

    def is_full(self, now: float) -> bool:
        """Whether nothing was taken lately: such a bucket is as good as a new one."""
        self.take(0, now)
        return self._tokens >= self.capacity
