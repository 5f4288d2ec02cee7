"""What the client and the machine allow: the same loads with servers that do no work.

A broker cannot exceed these figures, whatever it is written in. librdkafka is measured with the mock broker in its own
process, small requests with an echo server in C.
"""

from __future__ import annotations

from benchmarks.load import Load
from benchmarks.measures import Figures, Measure

ECHO_COUNT = 100_000
REQUEST = (100).to_bytes(4, "big") + bytes(100)


def mock_produce(load: Load, *, size: int, codec: str, count: int) -> Figures:
    """Return the rates of librdkafka with its mock broker, for one partition."""
    settings = ["test.mock.num.brokers=1", *(() if codec == "none" else (f"compression.type={codec}",))]
    numbers = load.produce("mock:1", "mock", count=count, size=size, settings=settings)
    return {
        "records/s": numbers["records"] / numbers["seconds"],
        "MB/s": numbers["bytes"] / 1e6 / numbers["seconds"],
    }


def echo(load: Load, measure: Measure, scale: float) -> Figures:
    """Return the figures of a row of small requests with an echo server."""
    with load.echo() as address:
        numbers = load.requests(
            address, REQUEST, connections=measure.connections, depth=measure.depth, count=int(ECHO_COUNT * scale)
        )
    figures = {name: float(numbers[name]) for name in ("p50_us", "p99_us")}
    if measure.best_by not in figures:
        figures[measure.best_by] = numbers["requests"] / numbers["seconds"]
    return figures
