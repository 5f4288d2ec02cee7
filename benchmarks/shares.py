"""`python -m benchmarks.shares`: share groups of Penstock and Apache Kafka, in the same run.

Three loads on one partition with records of 100 bytes. `waiting`: `kafka-share-consumer-perf-test` reads records that
wait, with 1, 10 and 100 consumers. `stream`: one Java producer and one Java share consumer, 1,000 records/s, time from
send() to poll(). `queue`: 100 members with raw connections, one record per ShareFetch, acknowledged 5 ms later; the
load generator is in C, because a JVM with 100 consumers needs more CPU than the broker. `queue-java` is the same with
those consumers. Rounds alternate between the brokers, and the best round of each figure counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack

from rich.console import Console
from rich.table import Table

from benchmarks import share_loads
from benchmarks.load import Load
from benchmarks.measures import Figures
from benchmarks.share_bars import (
    QUEUE,
    QUEUE_JAVA,
    STREAM,
    Results,
    better_figures,
    compare,
    required_of,
    waiting_load,
)
from benchmarks.targets import Target
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import JavaMissing
from tests.support.penstock_process import PenstockProcess

CONSUMERS = (1, 10, 100)
LOADS = ("waiting", "stream", "queue", "queue-java")
PROPERTIES = {"group.share.max.size": "200"}
PEER = "Apache Kafka"

Run = Callable[[Target], Figures]


def main() -> int:
    options = _options()
    console = Console(width=150)
    load = Load()
    if "queue" in options.loads and not load.is_native:
        console.print("the load `queue` needs a C compiler and is left out")
        options.loads.remove("queue")
    results: Results = {}
    with ExitStack() as running:
        try:
            targets = _targets(running)
        except JavaMissing as reason:
            console.print(f"not run: {reason}")
            return 0
        for number in range(options.rounds):
            for name, run in _runs(options, load):
                for target in targets:
                    found = run(target)
                    console.print(f"[dim]round {number + 1}, {name}, {target.title}: {_text(found)}[/dim]")
                    known = results.get((name, target.title))
                    results[name, target.title] = better_figures(known, found, required_of(name))
    peer = next(target.title for target in targets if target.name == PEER)
    console.print(_table(results, peer))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.shares",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("loads", nargs="*", default=[], help=f"some of {', '.join(LOADS)} (default: the first three)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each load (default: 2)")
    parser.add_argument("--records", type=int, default=200_000, help="records that wait (default: 200,000)")
    parser.add_argument(
        "--consumers", type=int, nargs="*", default=list(CONSUMERS), help="consumers of waiting records (1 10 100)"
    )
    parser.add_argument("--stream-s", type=float, default=12, help="seconds of the stream (default: 12)")
    parser.add_argument(
        "--queue-s", type=float, default=8, help="seconds of the queue, for a broker that is fast enough (default: 8)"
    )
    parser.add_argument(
        "--queue-batch",
        type=int,
        default=share_loads.WORK_BATCH,
        help="records in each batch of the queue; every poll gets a whole batch (default: %(default)s)",
    )
    options = parser.parse_args()
    unknown = set(options.loads) - set(LOADS)
    if unknown:
        parser.error(f"unknown load {', '.join(sorted(unknown))}: choose from {', '.join(LOADS)}")
    options.loads = options.loads or list(LOADS[:3])
    return options


def _targets(running: ExitStack) -> list[Target]:
    return [
        Target("Penstock", "fsync", running.enter_context(PenstockProcess(properties=PROPERTIES))),
        Target(
            "Penstock",
            "OS flush",
            running.enter_context(PenstockProcess(properties={**PROPERTIES, "flush.mode": "os"})),
        ),
        Target(
            PEER, "OS flush", running.enter_context(ApacheKafka(quick=False, properties=PROPERTIES))
        ),
    ]  # fmt: skip


def _runs(options: argparse.Namespace, load: Load) -> list[tuple[str, Run]]:
    """Return the chosen loads with their names."""
    runs: list[tuple[str, Run]] = []
    if "waiting" in options.loads:
        runs += [(waiting_load(count), _waiting(options.records, count)) for count in options.consumers]
    if "stream" in options.loads:
        runs.append((STREAM, lambda target: share_loads.stream(target, seconds=options.stream_s)))
    queue = {"seconds": options.queue_s, "batch": options.queue_batch}
    if "queue" in options.loads:
        runs.append((QUEUE, lambda target: share_loads.queue(load, target, **queue)))
    if "queue-java" in options.loads:
        runs.append((QUEUE_JAVA, lambda target: share_loads.queue_in_java(target, **queue)))
    return runs


def _waiting(records: int, consumers: int) -> Run:
    return lambda target: share_loads.waiting(target, records=records, consumers=consumers)


def _text(figures: Figures) -> str:
    return ", ".join(f"{value:,.2f} {name}" for name, value in figures.items())


def _table(results: Results, peer: str) -> Table:
    table = Table("load", "broker", "figure", "value", peer, "ratio", "required", "met")
    for row in compare(results, peer=peer):
        table.add_row(
            row.load,
            row.target,
            row.required.figure,
            f"{row.found:,.2f}",
            "-" if row.kafka is None else f"{row.kafka:,.2f}",
            "-" if row.ratio is None else f"{row.ratio:.2f}x",
            row.required.text,
            {True: "yes", False: "NO", None: "-"}[row.is_met],
        )
    return table


if __name__ == "__main__":
    raise SystemExit(main())
