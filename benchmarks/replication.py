"""`python -m benchmarks.replication`: three Penstock nodes compared with three Apache Kafka nodes, and one with two.

Rounds alternate; the best of each counts. Replication factor 3, acks=all, min.insync.replicas 2; Kafka with its
defaults, which acknowledge before a sync. The targets are in `BARS`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.frames import produce_frame
from benchmarks.load import Load
from benchmarks.measures import Figures, is_better
from benchmarks.proc import cpu_seconds
from tests.support.apache_kafka_cluster import ApacheKafkaCluster
from tests.support.java_tools import JavaMissing
from tests.support.penstock_cluster import PenstockCluster

OS, FSYNC, KAFKA = "Penstock (os)", "Penstock (fsync)", "Apache Kafka"
RECORDS, BATCHES, DEEP, DEPTH_1 = "1 KB records", "256 KB batches", "16 KB batches", "depth 1, 1 KB"
ONE_PROCESS, TWO_PROCESSES = "one process", "two processes"
_numbers = itertools.count(1)


class Cluster(Protocol):
    ids: tuple[int, ...]

    @property
    def bootstrap(self) -> str: ...
    @property
    def pids(self) -> dict[int, int]: ...
    def address(self, node_id: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Target:
    title: str
    cluster: Cluster
    config: tuple[tuple[str, str], ...] = ()

    @contextmanager
    def topic(self, *, partitions: int = 1, replicas: int = 3) -> Iterator[tuple[str, list[str]]]:
        """Create a topic; return its name and the addresses of the leaders of its partitions."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 3})
        name = f"bench-{next(_numbers)}"
        config = {"retention.ms": "-1", "file.delete.delay.ms": "100", "min.insync.replicas": "2", **dict(self.config)}
        admin.create_topics([NewTopic(name, partitions, replicas, config=config)])[name].result(timeout=30)
        time.sleep(0.7)
        found = admin.list_topics(name, timeout=15).topics[name].partitions
        yield name, [self.cluster.address(found[index].leader) for index in range(partitions)]
        admin.delete_topics([name])[name].result(timeout=30)

    def cpu(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.cluster.pids.values())


def records(load: Load, target: Target, scale: float) -> Figures:
    with target.topic(partitions=3) as (topic, _):
        before = target.cpu()
        numbers = load.produce(target.cluster.bootstrap, topic, count=int(600_000 * scale), size=1000)
        return _rates(numbers["bytes"], numbers["seconds"], target.cpu() - before)


def raw(size: int, *, connections: int, depth: int, count: int) -> Callable[[Load, Target, float], Figures]:
    def run(load: Load, target: Target, scale: float) -> Figures:
        with target.topic() as (topic, leaders):
            frame = produce_frame(topic, size=size, acks=-1)
            load.requests(leaders[0], frame, connections=connections, depth=depth, count=max(connections, count // 50))
            before = target.cpu()
            numbers = load.requests(
                leaders[0], frame, connections=connections, depth=depth, count=max(connections, int(count * scale))
            )
            figures = _rates(numbers["sent_bytes"], numbers["seconds"], target.cpu() - before)
            return {**figures, "p50_us": numbers["p50_us"], "p99_us": numbers["p99_us"]}

    return run


def _rates(size: float, seconds: float, used: float) -> Figures:
    return {"MB/s": size / 1e6 / seconds, "CPU s/GB": used / (size / 1e9)}


def processes(count: int) -> Callable[[Load, Target, float], Figures]:
    """Send small requests to topics with one replica, with as many connections for each process."""

    def run(load: Load, target: Target, scale: float) -> Figures:
        with target.topic(partitions=3, replicas=1) as (topic, leaders):
            frame = produce_frame(topic, size=100, acks=1)
            by_leader = {address: index for index, address in enumerate(leaders)}
            places = [(address, _to_partition(frame, index)) for address, index in list(by_leader.items())[:count]]
            many = int(200_000 * scale)
            with ThreadPoolExecutor(count) as pool:
                begun = time.monotonic()
                runs = [
                    pool.submit(_requests, load, address, each, place, many)
                    for place, (address, each) in enumerate(places)
                ]
                total = sum(each.result()["requests"] for each in runs)
            return {"requests/s": total / (time.monotonic() - begun)}

    return run


def _requests(load: Load, address: str, frame: bytes, place: int, count: int) -> Figures:
    return load.requests(address, frame, connections=2, depth=16, count=count, name=f"frame-{place}")


def _to_partition(frame: bytes, index: int) -> bytes:
    """Return the same Produce request (version 7, one partition) for another partition."""
    head = frame.index(b"bench-")
    at = head + frame[head - 1] + 4
    return frame[:at] + index.to_bytes(4, "big") + frame[at + 4 :]


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    run: Callable[[Load, Target, float], Figures]
    best_by: str
    higher_is_better: bool = True
    only: str = ""


MEASURES = (
    Measure(RECORDS, records, "MB/s"),
    Measure(BATCHES, raw(256_000, connections=2, depth=4, count=4000), "MB/s"),
    Measure(DEEP, raw(16_000, connections=4, depth=5, count=30_000), "MB/s"),
    Measure(DEPTH_1, raw(1_000, connections=1, depth=1, count=10_000), "p50_us", higher_is_better=False),
    Measure(ONE_PROCESS, processes(1), "requests/s", only=OS),
    Measure(TWO_PROCESSES, processes(2), "requests/s", only=OS),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio of two figures with a minimum or a maximum."""

    what: str
    figure: tuple[str, str, str]
    against: tuple[str, str, str]
    least: float | None = None
    most: float | None = None


BARS = (
    Bar("1 KB records, os / Kafka", (RECORDS, OS, "MB/s"), (RECORDS, KAFKA, "MB/s"), least=1.5),
    Bar("depth-1 p50, os / Kafka", (DEPTH_1, OS, "p50_us"), (DEPTH_1, KAFKA, "p50_us"), most=0.7),
    Bar("1 KB records, fsync / Kafka unflushed", (RECORDS, FSYNC, "MB/s"), (RECORDS, KAFKA, "MB/s"), least=0.8),
    Bar("two processes / one, produce", (TWO_PROCESSES, OS, "requests/s"), (ONE_PROCESS, OS, "requests/s"), least=1.4),
)


def main() -> int:
    options = _options()
    console = Console(width=150)
    load = Load()
    results: dict[tuple[str, str], Figures] = {}
    with ExitStack() as running:
        targets = _targets(running, console, with_kafka=not options.no_kafka)
        measures = [one for one in MEASURES if options.pattern in one.name]
        _warm(load, targets, console, seconds=options.warm)
        for round_number in range(1, options.rounds + 1):
            for measure in measures:
                for target in targets:
                    if measure.only and measure.only != target.title:
                        continue
                    console.print(f"[dim]round {round_number}/{options.rounds}: {measure.name}, {target.title}[/dim]")
                    _keep_best(results, measure, target.title, measure.run(load, target, options.scale))
    _print(console, results)
    if options.json:
        rows = [{"measure": name, "target": title, **figures} for (name, title), figures in results.items()]
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


def _targets(running: ExitStack, console: Console, *, with_kafka: bool) -> list[Target]:
    console.print("[dim]starting three Penstock nodes[/dim]")
    penstock = running.enter_context(PenstockCluster())
    targets = [Target(OS, penstock, (("flush.mode", "os"),)), Target(FSYNC, penstock, (("flush.mode", "fsync"),))]
    if with_kafka:
        console.print("[dim]starting three Apache Kafka nodes[/dim]")
        try:
            targets.append(Target(KAFKA, running.enter_context(ApacheKafkaCluster())))
        except JavaMissing as reason:
            console.print(f"without Apache Kafka: {reason}")
    return targets


def _warm(load: Load, targets: list[Target], console: Console, *, seconds: float) -> None:
    """Let the JVM compile the code that will be measured."""
    for target in (one for one in targets if one.title == KAFKA):
        console.print(f"[dim]warming {target.title} for {seconds:.0f} s[/dim]")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for measure in (one for one in MEASURES if not one.only):
                measure.run(load, target, 0.03)


def _keep_best(results: dict[tuple[str, str], Figures], measure: Measure, title: str, figures: Figures) -> None:
    known = results.get((measure.name, title))
    if is_better(figures, known, measure.best_by, higher_is_better=measure.higher_is_better):
        results[measure.name, title] = figures


def _print(console: Console, results: dict[tuple[str, str], Figures]) -> None:
    table = Table("measure", "target", "MB/s", "requests/s", "CPU s/GB", "p50 us", "p99 us")
    for (name, title), figures in results.items():
        cells = [figures.get(key) for key in ("MB/s", "requests/s", "CPU s/GB", "p50_us", "p99_us")]
        table.add_row(name, title, *("" if cell is None else f"{cell:,.1f}" for cell in cells))
    console.print(table)
    for bar in BARS:
        one, other = results.get(bar.figure[:2]), results.get(bar.against[:2])
        if one is None or other is None:
            continue
        ratio = one[bar.figure[2]] / other[bar.against[2]]
        met = ratio >= bar.least if bar.least is not None else ratio <= (bar.most or 0.0)
        wanted = f">= {bar.least}" if bar.least is not None else f"<= {bar.most}"
        console.print(f"{'met   ' if met else 'MISSED'} {bar.what}: {ratio:.2f} (target {wanted})")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replication",
        description="Compare three Penstock nodes with three Apache Kafka nodes, replication factor 3, acks=all.",
        epilog="Example: python -m benchmarks.replication --rounds 3 -k records",
    )
    parser.add_argument("--rounds", type=int, default=2, help="number of rounds per row")
    parser.add_argument("--scale", type=float, default=0.3, help="amount of load; 1.0 takes many seconds per row")
    parser.add_argument("--warm", type=float, default=60.0, help="seconds of warm-up load for Apache Kafka")
    parser.add_argument("--no-kafka", action="store_true", help="do not measure Apache Kafka")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("-k", dest="pattern", default="", help="only rows whose name contains this")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
