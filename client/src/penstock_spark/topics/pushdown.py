"""Limits on offsets, partitions, topics and timestamps in filters. Pure.

Filters are used only to narrow ranges. Spark applies every filter again, so a filter that is not recognized costs
time but never rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)


@dataclass(slots=True)
class Bounds:
    """Offsets from `low` (inclusive) to `high` (exclusive); partitions and topics if limited; the minimum timestamp."""

    low: int = 0
    high: int | None = None
    partitions: set[int] | None = None
    topics: set[str] | None = None
    timestamp_least: int | None = None
    unused: list[Filter] = field(default_factory=list)

    def allows(self, topic: str, partition: int) -> bool:
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def narrow(self, start: int, end: int) -> tuple[int, int]:
        low = max(start, self.low)
        high = end if self.high is None else min(end, self.high)
        return low, max(low, high)


def bounds_of(filters: Iterable[Filter]) -> Bounds:
    bounds = Bounds()
    for one in filters:
        if not _take(bounds, one):
            bounds.unused.append(one)
    return bounds


def _take(bounds: Bounds, one: Filter) -> bool:
    name = ".".join(getattr(one, "attribute", ()))
    if name == "offset":
        return _take_offset(bounds, one)
    if name == "timestamp":
        return _take_timestamp(bounds, one)
    if name in ("partition", "topic"):
        values: set[Any]
        if isinstance(one, EqualTo):
            values = {one.value}
        elif isinstance(one, In):
            values = set(one.value)
        else:
            return False
        known = getattr(bounds, f"{name}s")
        setattr(bounds, f"{name}s", values if known is None else known & values)
        return True
    return False


def _take_offset(bounds: Bounds, one: Filter) -> bool:
    match one:
        case EqualTo(value=value):
            low, high = value, value + 1
        case GreaterThan(value=value):
            low, high = value + 1, None
        case GreaterThanOrEqual(value=value):
            low, high = value, None
        case LessThan(value=value):
            low, high = 0, value
        case LessThanOrEqual(value=value):
            low, high = 0, value + 1
        case _:
            return False
    bounds.low = max(bounds.low, low)
    if high is not None:
        bounds.high = high if bounds.high is None else min(bounds.high, high)
    return True


def _take_timestamp(bounds: Bounds, one: Filter) -> bool:
    """Apply lower bounds only: an old record may follow a new one, but none precedes the first that is new enough."""
    if not isinstance(one, GreaterThan | GreaterThanOrEqual | EqualTo) or not isinstance(one.value, datetime):
        return False
    stamp = one.value if one.value.tzinfo else one.value.replace(tzinfo=UTC)
    least = int(stamp.timestamp() * 1000)
    bounds.timestamp_least = max(bounds.timestamp_least or 0, least)
    return True
