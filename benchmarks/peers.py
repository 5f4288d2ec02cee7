"""`python -m benchmarks.peers`: Penstock beside Apache Kafka in every kind of work; writes docs/performance.md.

The brokers are measured in turn, round by round, with the same load generator; the best round of each counts. A round
takes about ten minutes. The figures are also written to a file, from which `--render` writes the page again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import groups, lifecycle, limits, measures, replication
from benchmarks.bars import CEILING, FSYNC, KAFKA, OS
from benchmarks.load import BUILD, Load, LoadFailed
from benchmarks.measures import Figures, Measure, is_better, raw_produce, topic_of, with_cpu
from benchmarks.peers_page import Page, Row, Section
from benchmarks.targets import Target
from tests.support.apache_kafka import ApacheKafka
from tests.support.apache_kafka_cluster import ApacheKafkaCluster
from tests.support.java_tools import KAFKA_VERSION
from tests.support.penstock_cluster import PenstockCluster
from tests.support.penstock_process import PenstockProcess

ROOT = Path(__file__).parents[1]
SIZES = {100: 3_000_000, 1000: 500_000, 16_000: 30_000}
"""Records of a run, by their size."""
PARTITIONS = (1, 16, 256)
CONNECTIONS = (1000, 5000)
LATENCY_SHARES = (0.1, 0.7)
LATENCY_S = 10.0
COLD_BYTES = 2_000_000_000
LOADED = "produce, 1 KB, 1 partition"
"""The row whose lowest figure of all brokers is the maximum load in the rows of latency."""

Run = Callable[[Load, Target, float], Mapping[str, Figures]]
"""A function that measures a broker and returns the figures of one or more rows."""


def main() -> int:
    options = _options()
    results = Results(options.json)
    if not options.render:
        _raise_file_limit()
        _measure(options, results)
    Page(SECTIONS, results.figures, results.facts).write(ROOT / "docs" / "performance.md")
    return 0


class Results:
    """The best figures of each row and broker, kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        known = json.loads(path.read_text()) if path.exists() else {"facts": {}, "rows": []}
        self.facts: dict[str, str] = known["facts"]
        self.figures: dict[tuple[str, str], Figures] = {
            (row["row"], row["target"]): row["figures"] for row in known["rows"]
        }

    def clear(self, facts: dict[str, str]) -> None:
        self.facts, self.figures = facts, {}

    def keep_best(self, title: str, found: Mapping[str, Figures]) -> None:
        for name, figures in found.items():
            row, known = ROWS[name], self.figures.get((name, title))
            if is_better(figures, known, row.figure, higher_is_better=row.higher_is_better):
                self.figures[name, title] = dict(figures)
        rows = [{"row": row, "target": target, "figures": each} for (row, target), each in self.figures.items()]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({"facts": self.facts, "rows": rows}, indent=1))


def _measure(options: argparse.Namespace, results: Results) -> None:
    load = Load()
    if not load.is_native:
        raise SystemExit(f"Cannot compare brokers: {load.note}.")
    results.clear(_facts(options))
    started = time.monotonic()

    def measure(run: Run, target: Target, what: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {what}, {target.title}", flush=True)
        try:
            results.keep_best(target.title, run(load, target, options.scale))
        except (LoadFailed, OSError) as error:
            print(f"          failed: {error}", flush=True)

    with ExitStack() as running:
        targets = _targets(running)
        for target in targets[1:]:
            measure(_start, target, "start")
        for number in range(1, options.rounds + 1):
            for name, run in (each for each in _single_node() if options.pattern in each[0]):
                for target in targets:
                    measure(run, target, f"round {number}/{options.rounds}: {name}")
            _measure_limits(load, results, options)
        reached = [results.figures.get((LOADED, target.title), {}).get("records/s") for target in targets]
        for target in targets if all(reached) else ():
            for share in LATENCY_SHARES:
                rate = int(share * min(each for each in reached if each))
                measure(partial(_latency, share, rate), target, f"latency at {share:.0%}")
        for target in targets:
            measure(_cold_read, target, "cold read")
        # Last, because they leave memory behind or restart the broker. The two Penstock targets are one process.
        for target in targets[1:]:
            measure(_connections, target, "connections")
            measure(partial(_recovery, options.gigabytes), target, f"recovery of {options.gigabytes:g} GB")
    if not options.pattern:
        _measure_clusters(options, load, results)


def _measure_limits(load: Load, results: Results, options: argparse.Namespace) -> None:
    """Measure the client and the machine without a broker."""
    for size, codec, partitions in _shapes():
        name = _name("produce", size, codec, partitions)
        if partitions == 1 and options.pattern in name:
            count = int(SIZES[size] * options.scale)
            results.keep_best(CEILING, {name: limits.mock_produce(load, size=size, codec=codec, count=count)})
    for each in SMALL:
        if each.connections and options.pattern in each.name:
            results.keep_best(CEILING, {each.name: limits.echo(load, each, options.scale)})


def _measure_clusters(options: argparse.Namespace, load: Load, results: Results) -> None:
    with ExitStack() as running:
        penstock = running.enter_context(PenstockCluster())
        kafka = running.enter_context(ApacheKafkaCluster())
        targets = [
            replication.Target(FSYNC, penstock, (("flush.mode", "fsync"),)),
            replication.Target(OS, penstock, (("flush.mode", "os"),)),
            replication.Target(KAFKA, kafka),
        ]
        for number in range(1, options.rounds + 1):
            for measure in (each for each in replication.MEASURES if f"RF 3: {each.name}" in ROWS):
                for target in targets:
                    print(f"round {number}/{options.rounds}: RF 3: {measure.name}, {target.title}", flush=True)
                    found = measure.run(load, target, options.scale)
                    results.keep_best(target.title, {f"RF 3: {measure.name}": found})


def _targets(running: ExitStack) -> list[Target]:
    delay = {"group.initial.rebalance.delay.ms": str(groups.INITIAL_DELAY_MS)}
    penstock = running.enter_context(PenstockProcess(properties={"max.connections.per.ip": "20000", **delay}))
    kafka = running.enter_context(ApacheKafka(quick=False, properties=delay))
    return [
        Target("Penstock", "fsync", penstock, (("flush.mode", "fsync"),)),
        Target("Penstock", "os", penstock, (("flush.mode", "os"),)),
        Target("Apache Kafka", "os", kafka),
    ]


# -- what is measured ----------------------------------------------------------------------


def _name(work: str, size: int, codec: str, partitions: int) -> str:
    shown = f"{size} B" if size < 1000 else f"{size // 1000} KB"
    spread = "1 partition" if partitions == 1 else f"{partitions} partitions"
    return f"{work}, {shown}, " + ("" if codec == "none" else f"{codec}, ") + spread


def _shapes() -> Iterator[tuple[int, str, int]]:
    return ((size, codec, count) for size in SIZES for codec in ("none", "lz4") for count in PARTITIONS)


def _throughput(size: int, codec: str, partitions: int) -> Run:
    """Write records to a new topic, then read them."""

    def run(load: Load, target: Target, scale: float) -> Mapping[str, Figures]:
        many = int(SIZES[size] * scale)
        at = target.server.bootstrap
        settings = () if codec == "none" else (f"compression.type={codec}",)
        with topic_of(target, partitions) as topic:
            write = partial(load.produce, at, topic, count=many, size=size, settings=settings)
            written = with_cpu(target, write, amount="bytes")
            read = with_cpu(target, partial(load.consume, at, topic, count=many), amount="bytes")
        return {
            _name("produce", size, codec, partitions): written,
            _name("consume", size, codec, partitions): read,
        }

    return run


_MEASURES = {each.name: each for each in measures.MEASURES}
SMALL = (
    Measure(
        "100 B requests, 1 connection x 5 deep, acks=1",
        raw_produce(100, connections=1, depth=5, count=60_000),
        "requests/s",
        connections=1,
        depth=5,
    ),
    _MEASURES[measures.SMALL],
    _MEASURES[measures.DEPTH_1],
    Measure(
        measures.DEPTH_1.replace("acks=1", "acks=all"),
        raw_produce(100, connections=1, depth=1, count=20_000, acks=-1),
        "p50_us",
        higher_is_better=False,
        connections=1,
        depth=1,
    ),
    _MEASURES[measures.COMMITS_ONE],
    _MEASURES[measures.COMMITS],
    _MEASURES[measures.TRANSACTIONS],
)


def _single_node() -> Iterator[tuple[str, Run]]:
    for size, codec, partitions in _shapes():
        yield _name("produce and consume", size, codec, partitions), _throughput(size, codec, partitions)
    for measure in SMALL:
        yield measure.name, partial(_one_row, measure)


def _one_row(measure: Measure, load: Load, target: Target, scale: float) -> Mapping[str, Figures]:
    return {measure.name: measure.run(load, target, scale)}


def _latency(share: float, rate: int, load: Load, target: Target, scale: float) -> Mapping[str, Figures]:
    figures = measures.end_to_end(1000, rate=rate, seconds=LATENCY_S)(load, target, scale)
    return {_latency_name(share): {**figures, "records/s": float(rate)}}


def _latency_name(share: float) -> str:
    return f"end to end, 1 KB, {share:.0%} of the load that every broker reaches"


def _cold_read(load: Load, target: Target, scale: float) -> Mapping[str, Figures]:
    """Read records that are not in the page cache."""
    many = int(COLD_BYTES / 1000 * scale)
    with topic_of(target) as topic:
        load.produce(target.server.bootstrap, topic, count=many, size=1000)
        os.sync()
        for file in (each for each in target.server.data.rglob("*.log") if each.parent.name.startswith(topic)):
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        read = partial(load.consume, target.server.bootstrap, topic, count=many)
        return {"cold read, 1 KB": with_cpu(target, read, amount="bytes")}


def _start(load: Load, target: Target, scale: float) -> Mapping[str, Figures]:
    target.server.stop()
    seconds = target.server.start()
    return {"start to first answer": {"s": seconds}, "memory after the start": lifecycle.idle_memory(target)}


def _connections(load: Load, target: Target, scale: float) -> Mapping[str, Figures]:
    return {f"memory, {count:,} connections": lifecycle.memory_with_connections(target, count) for count in CONNECTIONS}


def _recovery(gigabytes: float, load: Load, target: Target, scale: float) -> Mapping[str, Figures]:
    return {"first answer after kill -9": lifecycle.restart_after_kill(load, target, gigabytes=gigabytes)}


# -- the page ------------------------------------------------------------------------------

SECTIONS = (
    Section(
        "Throughput",
        "librdkafka writes with acks=all and a linger of 5 ms, and reads without a group. One figure of a cell is how "
        "busy the busiest thread of the client was: near 100 % of a core, no broker could be faster. The limit is what "
        "librdkafka reaches with the mock broker in its own process.",
        tuple(
            Row(_name(work, *shape), "records/s", cost="CPU s/GB", more=(measures.CLIENT_BUSY,))
            for work in ("produce", "consume")
            for shape in _shapes()
        ),
    ),
    Section(
        "Small requests",
        "Produce requests with one record of 100 B, from a client in C; CPU time of the broker per request. The limit "
        "is what the client reaches with an echo server in C, which does nothing else.",
        tuple(
            Row(each.name, each.best_by, higher_is_better=each.higher_is_better, cost="CPU us/request")
            for each in SMALL
        ),
    ),
    Section(
        "Latency",
        "From the call to produce until the record is consumed, acks=all, at a tenth and at seven tenths of the "
        "records per second that the slowest broker reached above with records of 1 KB in one partition.",
        tuple(
            Row(_latency_name(share), "p99 ms", higher_is_better=False, more=("p50 ms", "p99.9 ms", "records/s"))
            for share in LATENCY_SHARES
        ),
    ),
    Section(
        "Replication",
        "Three nodes on the same two cores, three replicas, acks=all, min.insync.replicas=2.",
        (
            Row(f"RF 3: {replication.RECORDS}", "MB/s", cost="CPU s/GB"),
            Row(f"RF 3: {replication.BATCHES}", "MB/s", cost="CPU s/GB"),
            Row(f"RF 3: {replication.DEEP}", "MB/s", cost="CPU s/GB"),
            Row(f"RF 3: {replication.DEPTH_1}", "p50_us", higher_is_better=False, more=("p99_us",)),
        ),
    ),
    Section(
        "Start, recovery, memory and cold reads",
        "Penstock's two modes share a process, so most rows have one figure for both.",
        (
            Row("start to first answer", "s", higher_is_better=False),
            Row("first answer after kill -9", "s", higher_is_better=False),
            Row("memory after the start", "MB", higher_is_better=False),
            *(Row(f"memory, {count:,} connections", "MB", higher_is_better=False) for count in CONNECTIONS),
            Row("cold read, 1 KB", "MB/s", cost="CPU s/GB"),
        ),
    ),
)
ROWS = {row.name: row for section in SECTIONS for row in section.rows}


def _facts(options: argparse.Namespace) -> dict[str, str]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores shared with the load generator, Linux "
        f"{platform.release().split('-')[0]}, Python {platform.python_version()}",
        "peer": f"Apache Kafka {KAFKA_VERSION} with a heap of 1 GB",
        "rounds": "one round" if options.rounds == 1 else f"{options.rounds} rounds",
        "recovered": f"{options.gigabytes:g} GB",
    }


def _raise_file_limit() -> None:
    """Allow as many connections as the system permits, for the load and for the brokers."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="Compare Penstock with Apache Kafka in every kind of work, and write docs/performance.md.",
        epilog="Example: python -m benchmarks.peers --rounds 2 --scale 0.5",
    )
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds per row (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="amount of load (default: 1.0, seconds per row)")
    parser.add_argument("--gigabytes", type=float, default=10.0, help="size of the log to recover (default: 10)")
    parser.add_argument("-k", dest="pattern", default="", help="only rows of one node whose name contains this")
    parser.add_argument("--json", type=Path, default=BUILD / "peers.json", help="file of the figures")
    parser.add_argument("--render", action="store_true", help="only write the page, from the file of the figures")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
