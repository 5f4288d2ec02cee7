"""The share partitions that this node leads, as JSON for the monitoring endpoint: who holds which record.

Read-only. Each share partition is one piece of the response, so that the event loop is not blocked. Goes to
shares/leading.py.
"""

import json
from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.handlers.support.context import Context
    from penstock.shares.flight import Flight
from penstock.shares.flight_ranges import FlightRange


def render_share_partitions(context: "Context | None") -> Iterator[str]:
    """Yield a JSON array with one object for each share partition, its records in flight included."""
    separator = "["
    for led in () if context is None else context.shares.leader:
        if led.flight is None:
            continue
        assert context is not None
        yield separator + json.dumps(
            {
                "group": led.key.group,
                "topic": led.partition.topic,
                "partition": led.key.partition,
                "leader_epoch": led.leader_epoch,
                **_flight(led.flight, context.clock.monotonic() * 1000),
            }
        )
        separator = ",\n"
    yield "[]\n" if separator == "[" else "]\n"


def _flight(flight: "Flight", now_ms: float) -> dict[str, Any]:
    return {
        "start_offset": flight.start,
        "end_offset": flight.end,
        "finished": flight.finished,
        "records": [_range(each, now_ms) for each in flight.ranges],
    }


def _range(each: "FlightRange", now_ms: float) -> dict[str, Any]:
    return {
        "first_offset": each.first,
        "last_offset": each.last,
        "state": each.state.name.lower(),
        "delivery_count": each.count,
        "member": each.member,
        "lock_left_ms": _left(each.deadline, now_ms),
        "delay_left_ms": _left(each.available_at, now_ms),
    }


def _left(at: float, now_ms: float) -> int | None:
    return max(0, round(at - now_ms)) if isfinite(at) else None
