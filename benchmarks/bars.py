"""The targets for the figures, and whether each was met."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import measures
from benchmarks.measures import Figures

Results = dict[tuple[str, str], Figures]
"""Figures by (measure, target)."""

FSYNC, OS, KAFKA, CEILING = "Penstock (fsync)", "Penstock (os)", "Apache Kafka (os)", "ceiling"
START, RESTART, IDLE, CONNECTED = (
    "start to first answer",
    "restart after kill -9, 1 GB log",
    "memory, idle",
    "memory, 1,000 connections",
)
ECHO = "TCP echo"
COMMIT_ROWS = (measures.COMMITS_ONE, measures.COMMITS, measures.COMMITS_MANY)


@dataclass(frozen=True, slots=True)
class Bar:
    """One target and the figure; `passed` is None if it could not be judged."""

    text: str
    found: str
    passed: bool | None


def judge(results: Results) -> list[Bar]:
    """Compare the results with every target."""
    bars = [
        _at_most(results, "start to first answer <= 1 s", START, FSYNC, "s", 1.0),
        _at_most(results, "restart after kill -9 with the log <= 1 s", RESTART, FSYNC, "s", 1.0),
        _at_most(results, "memory idle <= 100 MB", IDLE, FSYNC, "MB", 100),
        _at_most(results, "memory at 1,000 connections <= 100 MB", CONNECTED, FSYNC, "MB", 100),
        _at_least(results, "produce 100 B >= 1,000,000 records/s", measures.PRODUCE_100, FSYNC, "records/s", 1e6),
        _at_most(results, "SQL over 1 M JSON records <= 5 s", measures.SQL, FSYNC, "s", 5.0),
        _at_most(results, "end to end p99 < 10 ms", measures.END_TO_END, FSYNC, "p99 ms", 10.0),
    ]
    rows = [measures.PRODUCE_100, measures.PRODUCE_1K, f"{measures.PRODUCE_100}, lz4", f"{measures.PRODUCE_1K}, lz4"]
    for row in [*rows, measures.CONSUME_1K]:
        bars.append(_ratio(results, f"{row}: flush.mode=os >= Kafka", row, OS, KAFKA, "records/s", 1.0))
        bars.append(_ratio(results, f"{row}: fsync >= 0.7 of Kafka unflushed", row, FSYNC, KAFKA, "records/s", 0.7))
    bars.append(_ratio(results, "small requests >= 2x Kafka", measures.SMALL, FSYNC, KAFKA, "requests/s", 2.0))
    bars += [
        _ratio(results, f"{row}: flush.mode=os >= 2x Kafka", row, OS, KAFKA, "commits/s", 2.0) for row in COMMIT_ROWS
    ]
    bars += [
        _ratio(results, f"{row}: fsync >= 0.5 of Kafka unflushed", row, FSYNC, KAFKA, "commits/s", 0.5)
        for row in COMMIT_ROWS
    ]
    row = measures.TRANSACTIONS
    bars.append(_ratio(results, f"{row}: flush.mode=os >= Kafka", row, OS, KAFKA, "transactions/s", 1.0))
    bars.append(_overhead(results))
    bars += [
        _at_most(results, f"{row}: <= 25 % of a core", row, FSYNC, "% of a core", 25.0)
        for row in (measures.CLASSIC_BEATS, measures.CONSUMER_BEATS)
    ]
    bars += [
        _at_most(results, f"{measures.REBALANCE} <= 1 s", measures.REBALANCE, FSYNC, "s", 1.0),
        _at_most(
            results,
            f"{measures.REBALANCE}, from empty, <= 1 s beyond the delay",
            measures.REBALANCE,
            FSYNC,
            "s beyond the delay",
            1.0,
        ),
        _at_least(
            results, "compaction >= 100 MB/s of one core, 4 KB values", measures.COMPACTION, FSYNC, "MB/s of CPU", 100
        ),
        _at_most(
            results, "produce p99 beside a compaction <= 2x without", measures.COMPACTION_BESIDE, FSYNC, "ratio", 2.0
        ),
        _at_most(results, "small requests <= 12 us CPU", measures.SMALL, OS, "CPU us/request", 12),
        _at_least(results, "small requests >= 70,000/s", measures.SMALL, OS, "requests/s", 70_000),
        _at_most(results, "16 KB batches <= 2.0 s CPU per GB", measures.RAW_16K, OS, "CPU s/GB", 2.0),
        _at_most(results, "256 KB batches <= 1.0 s CPU per GB", measures.RAW_256K, OS, "CPU s/GB", 1.0),
        _at_most(results, "fetch 1 MB <= 0.35 s CPU per GB", measures.FETCH_1M, OS, "CPU s/GB", 0.35),
        _ratio(results, "produce 100 B >= 0.7 of the mock", measures.PRODUCE_100, OS, CEILING, "records/s", 0.7),
        _ratio(results, "produce 1 KB >= 0.7 of the mock", measures.PRODUCE_1K, OS, CEILING, "records/s", 0.7),
        _ratio(
            results, "produce 1 KB lz4 >= 0.9 of the mock", f"{measures.PRODUCE_1K}, lz4", OS, CEILING, "records/s", 0.9
        ),
    ]
    bars.append(_echo(results))
    return bars


def _overhead(results: Results) -> Bar:
    plain = _get(results, measures.STREAM, FSYNC, "records/s")
    inside = _get(results, measures.STREAM_IN_TRANSACTIONS, FSYNC, "records/s")
    text = "transactions of 100 ms cost a stream of 1 KB records <= 15 %"
    if plain is None or inside is None:
        return Bar(text, "not measured", None)
    return Bar(text, f"{inside:,.0f} / {plain:,.0f} = {inside / plain:.2f}", inside >= 0.85 * plain)


def _echo(results: Results) -> Bar:
    found, floor = _get(results, measures.DEPTH_1, OS, "p50_us"), _get(results, ECHO, ECHO, "p50_us")
    text = "one request at a time, p50 <= 3x a TCP echo"
    if found is None or floor is None:
        return Bar(text, "not measured", None)
    return Bar(text, f"{found:.0f} us / {floor:.0f} us = {found / floor:.1f}x", found <= 3 * floor)


def _get(results: Results, measure: str, target: str, figure: str) -> float | None:
    return results.get((measure, target), {}).get(figure)


def _at_most(results: Results, text: str, measure: str, target: str, figure: str, most: float) -> Bar:
    found = _get(results, measure, target, figure)
    return Bar(
        text, "not measured" if found is None else f"{found:,.2f} {figure}", None if found is None else found <= most
    )


def _at_least(results: Results, text: str, measure: str, target: str, figure: str, least: float) -> Bar:
    found = _get(results, measure, target, figure)
    return Bar(
        text, "not measured" if found is None else f"{found:,.0f} {figure}", None if found is None else found >= least
    )


def _ratio(results: Results, text: str, measure: str, ours: str, theirs: str, figure: str, least: float) -> Bar:
    one, other = _get(results, measure, ours, figure), _get(results, measure, theirs, figure)
    if one is None or other is None:
        return Bar(text, "not measured", None)
    return Bar(text, f"{one:,.0f} / {other:,.0f} = {one / other:.2f}", one >= least * other)
