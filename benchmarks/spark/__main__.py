"""`python -m benchmarks.spark`: Penstock's Spark source and sink and the JVM connector, in alternating rounds.

python -m benchmarks.spark              about five minutes on two cores
python -m benchmarks.spark --rows 300000 --rounds 1
Ratios use the best round of each. Targets that need the JVM connector are skipped if Maven cannot fetch it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from benchmarks.spark.work import TUNED, Bench, Cost, decode_ratio
from penstock.testing import BrokerProcess
from penstock_spark.session import builder
from tests.spark.connector import ConnectorMissing, connector_jars
from tests.spark.log import Log

PARTITIONS = 4
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio and its target; without a target it is informational."""

    name: str
    ratio: float
    target: float | None
    at_least: bool = True

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        met = self.ratio >= self.target if self.at_least else self.ratio <= self.target
        return "met" if met else "[red]missed[/red]"


@dataclass(slots=True)
class Rounds:
    """Costs by name, over the rounds."""

    costs: dict[str, list[Cost]] = field(default_factory=dict)

    def add(self, name: str, cost: Cost) -> None:
        self.costs.setdefault(name, []).append(cost)

    def seconds(self, name: str) -> float:
        return min(cost.seconds for cost in self.costs[name])

    def cpu(self, name: str) -> float:
        return min(cost.cpu for cost in self.costs[name])

    def ratio(self, ours: str, theirs: str) -> float:
        """Return the ratio of the two rates."""
        return self.seconds(theirs) / self.seconds(ours)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="number of 100 B rows")
    # The best of three still varied too much for things of similar speed.
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    console = Console(width=120)
    try:
        jars = connector_jars()
    except ConnectorMissing as reason:
        console.print(f"[yellow]without the JVM connector: {reason}[/yellow]")
        jars = []
    session = (
        builder("bench", master="local[2]").config("spark.driver.memory", "2g").config("spark.ui.enabled", "false")
    )
    if jars:
        session = session.config("spark.jars", ",".join(jars))
    spark = session.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with BrokerProcess() as broker, Log(broker.bootstrap) as log:
        bench = Bench(spark, broker.bootstrap, broker.data)
        bars = list(_bars(bench, log, options.rows, options.rounds, bool(jars), console))
    spark.stop()
    _report(console, bars)
    return 0


def _bars(bench: Bench, log: Log, rows: int, rounds: int, with_jvm: bool, console: Console) -> list[Bar]:
    bars = [
        Bar("vectorised / per-record decode, 100 B", decode_ratio(100, 2000), 4.0),
        Bar("vectorised / per-record decode, 1 KB", decode_ratio(1000, 900), 2.0),
    ]

    def new_topic() -> str:
        name = f"bench-{next(_numbers)}"
        log.create(name, PARTITIONS, {"retention.ms": "-1"})
        return name

    for size, count, target in ((100, rows, 0.6), (1000, rows // 5, 1.0)):
        frame = bench.rows(count, size)
        topic, long_topic = new_topic(), new_topic()
        bench.write(frame, "penstock", topic, guarantee="at-least-once")
        found = _reads(bench, topic, rounds, with_jvm, console, f"{size} B")
        bars.append(Bar(f"segment backfill / Parquet scan, {size} B", found.ratio("segments", "parquet"), target))
        if size == 100:
            for _ in range(3):
                bench.write(frame, "penstock", long_topic, guarantee="at-least-once")
            long = _reads(bench, long_topic, rounds, with_jvm, console, "100 B, three times as many", parquet=False)
            if with_jvm:
                bars += _read_bars(found, long)
            bars += _write_bars(bench, frame, new_topic, rounds, with_jvm, console)
        elif with_jvm:
            bars.append(Bar("read rate / tuned JVM connector, 1 KB", found.ratio("ours", "tuned"), 1.0))
        frame.unpersist()
    bars.append(_alike_bar(bench, rows // 5, new_topic(), rounds, console))
    if with_jvm:
        bars.append(_trigger_bar(bench, log, new_topic, console))
    return bars


def _alike_bar(bench: Bench, count: int, topic: str, rounds: int, console: Console) -> Bar:
    """Measure rows that Parquet compresses to a fifth, so that it reads much less."""
    frame = bench.rows(count, 1000, alike=True)
    bench.write(frame, "penstock", topic, guarantee="at-least-once")
    frame.unpersist()
    found = _reads(bench, topic, rounds, False, console, "1 KB, rows alike")
    return Bar("segment backfill / Parquet scan, 1 KB, rows alike", found.ratio("segments", "parquet"), None)


def _reads(
    bench: Bench, topic: str, rounds: int, with_jvm: bool, console: Console, what: str, *, parquet: bool = True
) -> Rounds:
    found = Rounds()
    files = bench.parquet(topic) if parquet else None
    for number in range(rounds + 1):
        if number == 0:
            console.print(f"[dim]warming up: read {what}[/dim]")
        kept = found if number else Rounds()
        kept.add("ours", bench.read("penstock", topic, {}))
        kept.add("segments", bench.read("penstock", topic, {"mode": "segments", "dataFolder": str(bench.data)}))
        if files is not None:
            kept.add("parquet", bench.read_parquet(files))
        if with_jvm:
            kept.add("default", bench.read("kafka", topic, {}))
            kept.add("tuned", bench.read("kafka", topic, TUNED))
    for name in found.costs:
        console.print(f"read {what}, {name}: {found.seconds(name):.2f} s, {found.cpu(name):.2f} CPU seconds")
    return found


def _read_bars(short: Rounds, long: Rounds) -> list[Bar]:
    slope = {name: long.seconds(name) - short.seconds(name) for name in ("ours", "tuned")}
    return [
        Bar("read rate / tuned JVM connector, 100 B", long.ratio("ours", "tuned"), 1.0),
        Bar("read rate / default JVM connector, 100 B", long.ratio("ours", "default"), 1.5),
        Bar("read rate without the query's start / tuned", slope["tuned"] / slope["ours"], 1.0),
        Bar("read CPU per row / tuned JVM connector", long.cpu("ours") / long.cpu("tuned"), 1.0, at_least=False),
    ]


def _write_bars(
    bench: Bench, frame: object, new_topic: Callable[[], str], rounds: int, with_jvm: bool, console: Console
) -> list[Bar]:
    from pyspark.sql import DataFrame

    assert isinstance(frame, DataFrame)
    found = Rounds()
    for number in range(rounds + 1):
        kept = found if number else Rounds()
        kept.add("plain", bench.write(frame, "penstock", new_topic(), guarantee="at-least-once"))
        kept.add("once", bench.write(frame, "penstock", new_topic()))
        if with_jvm:
            kept.add("jvm", bench.write(frame, "kafka", new_topic()))
    for name in found.costs:
        console.print(f"write, {name}: {found.seconds(name):.2f} s, {found.cpu(name):.2f} CPU seconds")
    bars = [Bar("exactly-once / plain sink", found.ratio("once", "plain"), 0.6)]
    if with_jvm:
        bars.append(Bar("write rate / JVM Kafka sink", found.ratio("plain", "jvm"), 0.9))
    return bars


def _trigger_bar(bench: Bench, log: Log, new_topic: Callable[[], str], console: Console) -> Bar:
    source = new_topic()
    log.fill(source, [str(number) for number in range(150)])
    times = {form: min(bench.trigger(form, source, new_topic()) for _ in range(2)) for form in ("penstock", "kafka")}
    console.print(f"trigger of ten rows: ours {times['penstock']:.0f} ms, JVM {times['kafka']:.0f} ms")
    return Bar("small-batch trigger / JVM connector", times["penstock"] / times["kafka"], 2.5, at_least=False)


def _report(console: Console, bars: list[Bar]) -> None:
    table = Table(title="Spark on Penstock: ratios in one run")
    for title in ("bar", "ratio", "target", ""):
        table.add_column(title)
    for bar in bars:
        sign = ">=" if bar.at_least else "<="
        target = "" if bar.target is None else f"{sign} {bar.target}"
        table.add_row(bar.name, f"{bar.ratio:.2f}", target, bar.verdict)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
