"""Counters and histograms: plain integers, changed in place by the single thread of a node.

There are no locks and no lookups by label: the code that counts holds the object. The buckets of a histogram
are powers of two nanoseconds, so that finding one is a `bit_length`. exposition.py renders them.
"""

from typing import Final

BUCKET_FIRST: Final = 14
BUCKET_LAST: Final = 35
"""From 16 microseconds to 34 seconds; shorter times are in the first bucket, longer ones beyond the last."""
_BIT_LENGTHS: Final = 64


class Counter:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, count: int = 1) -> None:
        self.value += count


class Histogram:
    """A histogram of times, in nanoseconds."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * _BIT_LENGTHS
        self.total_ns = 0

    def observe(self, nanoseconds: int, weight: int = 1) -> None:
        """Record a time; `weight` is the number of requests that it stands for."""
        self.counts[nanoseconds.bit_length()] += weight
        self.total_ns += nanoseconds * weight


class RequestMeter:
    """The requests of one API. All are counted; for the most frequent APIs, only a sample is timed.

    Requests answered immediately and parked requests are kept apart, because parked ones end later.
    """

    __slots__ = (
        "count",
        "failed",
        "held_cpu_max_ns",
        "held_long",
        "held_max_ns",
        "local",
        "name",
        "parked_local",
        "parked_total",
        "queued_ns",
        "throttled_ms",
        "total",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = self.failed = 0
        self.held_max_ns = self.held_cpu_max_ns = self.held_long = 0
        self.local = Histogram()
        self.total = Histogram()
        self.parked_local = Histogram()
        self.parked_total = Histogram()
        self.queued_ns = 0
        self.throttled_ms = 0

    @property
    def waited_ns(self) -> int:
        return max(0, self.parked_total.total_ns - self.parked_local.total_ns)

    def local_time(self) -> Histogram:
        return _sum(self.local, self.parked_local)

    def total_time(self) -> Histogram:
        return _sum(self.total, self.parked_total)


def _sum(one: Histogram, other: Histogram) -> Histogram:
    result = Histogram()
    result.counts = [mine + yours for mine, yours in zip(one.counts, other.counts, strict=True)]
    result.total_ns = one.total_ns + other.total_ns
    return result
