"""Counts and latencies of a load test. No I/O.

A worker owns its Meter and is the only one that changes it. Other threads read it, and may see a record counted whose
latency is not.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

_PRECISION_BITS: Final = 7
"""Latencies are kept with at least this many significant bits: the error is below 1 %."""


class LatencyHistogram:
    """Latencies in microseconds, in buckets whose width grows with the latency, so memory does not grow with time."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.max_us = 0

    def add(self, latency_us: int) -> None:
        """Count one latency. Clocks of different machines are not compared, so a negative one cannot occur."""
        shift = max(0, latency_us.bit_length() - _PRECISION_BITS)
        self._counts[latency_us >> shift << shift] += 1
        if latency_us > self.max_us:
            self.max_us = latency_us

    def merge(self, other: "LatencyHistogram") -> None:
        # A copy, because the owner of the other may be counting.
        self._counts.update(other._counts.copy())
        self.max_us = max(self.max_us, other.max_us)

    def percentile_us(self, share: float) -> int | None:
        """Return the latency that this share of all records does not exceed, or None without records."""
        total = sum(self._counts.values())
        if not total:
            return None
        rank = max(1, -int(-share * total // 1))
        seen = 0
        for latency, count in sorted(self._counts.items()):
            seen += count
            if seen >= rank:
                return min(latency, self.max_us)
        raise AssertionError("the ranks end with the last bucket")


class Meter:
    """What one worker has done."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.errors = 0
        self.error = ""
        self.last_at = 0.0
        """When the last record was done."""
        self.latencies = LatencyHistogram()

    def count(self, size: int, latency_us: int, now: float) -> None:
        self.records += 1
        self.bytes += size
        self.last_at = now
        self.latencies.add(latency_us)

    def fail(self, reason: str) -> None:
        self.errors += 1
        self.error = self.error or reason


class Totals(NamedTuple):
    """The sum over the workers of one kind."""

    records: int
    bytes: int
    errors: int
    seconds: float
    p50_us: int | None
    p99_us: int | None
    max_us: int | None

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds if self.seconds > 0 else 0.0

    @property
    def mb_per_s(self) -> float:
        return self.bytes / 1e6 / self.seconds if self.seconds > 0 else 0.0


def total(meters: Iterable[Meter], *, started_at: float) -> Totals:
    """Add up meters; the time ends with the last record."""
    each = list(meters)
    latencies = LatencyHistogram()
    for meter in each:
        latencies.merge(meter.latencies)
    return Totals(
        records=sum(meter.records for meter in each),
        bytes=sum(meter.bytes for meter in each),
        errors=sum(meter.errors for meter in each),
        seconds=max(0.0, max((meter.last_at for meter in each), default=0.0) - started_at),
        p50_us=latencies.percentile_us(0.5),
        p99_us=latencies.percentile_us(0.99),
        max_us=latencies.max_us or None,
    )
