"""`python -m benchmarks`: Penstock and Apache Kafka in alternating rounds; the best round of each counts.

python -m benchmarks                quick: about three minutes
python -m benchmarks --full         five rounds, larger amounts, a warm JVM
python -m benchmarks --no-kafka     only Penstock
python -m benchmarks -k produce     only rows with 'produce' in the name
python -m benchmarks --against REV  beside an earlier revision of Penstock instead of Apache Kafka
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import bars, groups, lifecycle, limits
from benchmarks.bars import Results
from benchmarks.echo import echo_p50_us
from benchmarks.load import Load, LoadFailed
from benchmarks.measures import MEASURES, Figures, Measure, is_better
from benchmarks.revision import source_of
from benchmarks.targets import Target
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import KAFKA_VERSION, JavaMissing
from tests.support.penstock_process import PenstockProcess

GIGABYTES = 1.0
MOCKED = ("produce 100 B", "produce 1 KB")


def main() -> int:
    options = _options()
    console = Console(width=150)
    load = Load()
    notes = [load.note] if load.note else []
    results: Results = {}
    started = time.monotonic()
    with ExitStack() as running:
        targets = _targets(running, results, notes, options)
        for target in _one_per_process(targets):
            results[bars.IDLE, target.title] = lifecycle.idle_memory(target)
        measures = [one for one in MEASURES if options.pattern in one.name]
        if options.full:
            _warm(load, targets, seconds=90)
        for round_number in range(1, options.rounds + 1):
            for measure in (one for one in measures if not one.only):
                for target in targets:
                    console.print(f"[dim]round {round_number}/{options.rounds}: {measure.name}, {target.title}[/dim]")
                    _keep_best(results, measure, target.title, _measured(load, measure, target, options.scale, notes))
        _mock_ceiling(load, results, measures, options.scale)
        _echo_ceiling(load, results, measures, options)
        results[bars.ECHO, bars.ECHO] = {"p50_us": echo_p50_us(load)}
        for target in _one_per_process(targets):
            console.print(f"[dim]memory with connections, restart after kill -9: {target.title}[/dim]")
            _lifecycle(load, results, target, notes, restart=not options.pattern)
        # Last, because their leftovers would count as memory.
        for measure in (one for one in measures if one.only):
            for target in (one for one in targets if one.title == measure.only):
                console.print(f"[dim]{measure.name}, {target.title}[/dim]")
                _keep_best(results, measure, target.title, _measured(load, measure, target, options.scale, notes))
    _print_report(console, results, [target.title for target in targets], notes, time.monotonic() - started)
    if options.json:
        rows = [{"measure": name, "target": target, **figures} for (name, target), figures in results.items()]
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--full", action="store_true", help="five rounds, larger amounts, a warm JVM (half an hour)")
    parser.add_argument("--rounds", type=int, help="number of rounds per row (quick: 2, full: 5)")
    parser.add_argument("--scale", type=float, help="amount of load; 1.0 takes seconds per row (quick: 0.2, full: 1.0)")
    parser.add_argument("--no-kafka", action="store_true", help="do not measure Apache Kafka")
    parser.add_argument("--against", metavar="REV", help="measure this revision of Penstock instead of Apache Kafka")
    parser.add_argument("-k", dest="pattern", default="", help="only rows whose name contains this")
    parser.add_argument("--json", help="also write all figures to this file")
    options = parser.parse_args()
    options.rounds = options.rounds or (5 if options.full else 2)
    options.scale = options.scale or (1.0 if options.full else 0.2)
    return options


def _targets(running: ExitStack, results: Results, notes: list[str], options: argparse.Namespace) -> list[Target]:
    delay = {"group.initial.rebalance.delay.ms": str(groups.INITIAL_DELAY_MS)}
    properties = {"max.connections.per.ip": "20000", **delay}
    targets = _both_durabilities("Penstock", PenstockProcess(properties=properties), running, results)
    if options.against:
        earlier = PenstockProcess(properties=properties, environment=running.enter_context(source_of(options.against)))
        targets += _both_durabilities(f"Penstock {options.against}", earlier, running, results)
    elif not options.no_kafka:
        try:
            kafka = ApacheKafka(quick=False, properties=delay)
        except JavaMissing as reason:
            notes.append(f"Apache Kafka was not measured: {reason}")
            return targets
        running.callback(kafka.__exit__, None, None, None)
        seconds = kafka.start()
        targets.append(Target("Apache Kafka", "os", kafka))
        results[bars.START, targets[-1].title] = {"s": seconds}
    return targets


def _one_per_process(targets: list[Target]) -> list[Target]:
    """Return the first target of each process: the two of a Penstock process share it."""
    return list({target.server.pid: target for target in reversed(targets)}.values())[::-1]


def _both_durabilities(name: str, server: PenstockProcess, running: ExitStack, results: Results) -> list[Target]:
    running.callback(server.__exit__, None, None, None)
    seconds = server.start()
    targets = [Target(name, mode, server, (("flush.mode", mode),)) for mode in ("fsync", "os")]
    for target in targets:
        results[bars.START, target.title] = {"s": seconds}
    return targets


def _lifecycle(load: Load, results: Results, target: Target, notes: list[str], *, restart: bool) -> None:
    try:
        results[bars.CONNECTED, target.title] = lifecycle.memory_with_connections(target)
        if restart:
            results[bars.RESTART, target.title] = lifecycle.restart_after_kill(load, target, gigabytes=GIGABYTES)
    except (LoadFailed, OSError) as error:
        notes.append(f"{target.title}: {error}")


def _measured(load: Load, measure: Measure, target: Target, scale: float, notes: list[str]) -> Figures:
    try:
        return measure.run(load, target, scale)
    except LoadFailed as error:
        notes.append(f"{measure.name}, {target.title}: {error}")
        return {}


def _keep_best(results: Results, measure: Measure, title: str, found: Figures) -> None:
    best = results.get((measure.name, title))
    if found and is_better(found, best, measure.best_by, higher_is_better=measure.higher_is_better):
        results[measure.name, title] = found


def _warm(load: Load, targets: list[Target], *, seconds: float) -> None:
    """Give the JVM time to compile hot code; Python needs no warm-up."""
    for target in targets[2:]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for measure in (one for one in MEASURES if not one.only):
                _measured(load, measure, target, 0.3, [])


def _mock_ceiling(load: Load, results: Results, measures: list[Measure], scale: float) -> None:
    """Measure librdkafka against its in-process mock broker: the maximum for a client on this machine."""
    if not load.is_native:
        return
    for measure in measures:
        if measure.name.startswith(MOCKED):
            size = 100 if "100 B" in measure.name else 1000
            codec = "lz4" if "lz4" in measure.name else "none"
            count = int((10_000_000 if size == 100 else 1_000_000) * scale)
            for _ in range(2):
                found = limits.mock_produce(load, size=size, codec=codec, count=count)
                _keep_best(results, measure, bars.CEILING, found)


def _echo_ceiling(load: Load, results: Results, measures: list[Measure], options: argparse.Namespace) -> None:
    """Measure the same client and shape against an echo server: the maximum between two processes on this machine."""
    if not load.is_native:
        return
    for measure in (one for one in measures if one.connections):
        for _ in range(options.rounds):
            _keep_best(results, measure, bars.CEILING, limits.echo(load, measure, options.scale))


def _print_report(console: Console, results: Results, titles: list[str], notes: list[str], seconds: float) -> None:
    machine = (
        f"{platform.machine()}, {_cores()} cores, Python {platform.python_version()}, Apache Kafka {KAFKA_VERSION}"
    )
    table = Table(title=f"Best round of each; durability in parentheses. {machine}", title_justify="left")
    table.add_column("measure")
    shown = [*titles, bars.CEILING]
    for title in shown:
        table.add_column(title, justify="right")
    for name in dict.fromkeys(name for name, _ in results):
        if name != bars.ECHO:
            table.add_row(name, *(_cell(results.get((name, title), {})) for title in shown))
    console.print(table)
    verdict = Table(title="Bars", title_justify="left")
    for column in ("bar", "found", ""):
        verdict.add_column(column)
    for bar in bars.judge(results):
        mark = {True: "[green]pass[/green]", False: "[red]miss[/red]", None: "-"}[bar.passed]
        verdict.add_row(bar.text, bar.found, mark)
    console.print(verdict)
    for note in dict.fromkeys(notes):
        console.print(f"note: {note}")
    console.print("ceiling: librdkafka with its mock broker; small requests with an echo server")
    console.print(f"{seconds:.0f} s. Under 1.3x is a tie on a noisy machine.")


def _cell(figures: Figures) -> str:
    order = (
        "records/s",
        "commits/s",
        "transactions/s",
        "% of a core",
        "requests/s",
        "p50 ms",
        "p99 ms",
        "MB/s",
        "CPU s/GB",
        "CPU us/request",
        "p50_us",
        "MB",
        "s",
        "s beyond the delay",
    )
    texts = []
    for name in order:
        if name in figures:
            value = figures[name]
            texts.append(f"{value:,.0f} {name}" if value >= 100 else f"{value:.2f} {name}")
    return "\n".join(texts[:5]) or "-"


def _cores() -> int:
    import os

    return os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
