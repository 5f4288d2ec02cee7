"""penstock bench: a load test with a live display and a table at the end."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.actions.connection import Connection
from penstock.cli.completion import complete_topic
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show
from penstock.cli.produce import Acks, Codec

if TYPE_CHECKING:
    from penstock.actions.bench.load import LoadTest
    from penstock.actions.bench.measurement import Totals

EXAMPLE = "Example: penstock bench --producers 2 --record-size 1024 --acks all --duration 10"
COLUMNS = ["clients", "count", "records", "records_per_s", "mb_per_s", "p50_ms", "p99_ms", "max_ms", "errors"]
EVERY_S = 0.5
LINE_EVERY_S = 5.0


def bench(
    connection: Connection,
    producers: Annotated[int, typer.Option("--producers", min=1, max=100, help="Number of producers.")] = 1,
    consumers: Annotated[
        int, typer.Option("--consumers", min=0, max=100, help="Number of consumers, which share the partitions.")
    ] = 1,
    record_size: Annotated[
        int, typer.Option("--record-size", min=16, max=100_000_000, metavar="BYTES", help="Size of a value.")
    ] = 1024,
    acks: Annotated[Acks, typer.Option("--acks", help="Replicas that must acknowledge a record.")] = Acks.ALL,
    codec: Annotated[Codec, typer.Option("--codec", help="Compression; the values are random bytes.")] = Codec.NONE,
    duration: Annotated[
        float, typer.Option("--duration", min=0.1, metavar="SECONDS", help="How long to produce.")
    ] = 10.0,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", min=0.1, metavar="N", help="Records per second of all producers.", show_default="no limit"
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="Write to this topic and keep the records.",
            show_default="a new topic, deleted afterwards",
            autocompletion=complete_topic,
        ),
    ] = None,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="Partitions of the new topic.")] = 6,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor", "-r", help="Replicas of the new topic.", show_default="the broker's default"
        ),
    ] = -1,
    format: FormatOption = Format.TABLE,
) -> None:
    """Measure throughput and latency of a cluster. Stops early on Ctrl-C.

    The latency of producers is the time until a record is acknowledged, that of consumers the time until it has
    arrived. Without --rate, both include the time that a record waits in the producer's queue.
    """
    from penstock.actions.bench.load import LoadTest, Plan

    with _topic(connection, topic, partitions, replication_factor) as name:
        plan = Plan(
            topic=name,
            is_new_topic=topic is None,
            producers=producers,
            consumers=consumers,
            record_size=record_size,
            acks=acks.value,
            codec=codec.value,
            duration_s=duration,
            records_per_s=rate,
        )
        test = LoadTest(connection, plan)
        test.start()
        try:
            _watch(test, duration)
        finally:
            test.close()
        produced, consumed = test.produced, test.consumed
        rows = [_row("producers", producers, produced), _row("consumers", consumers, consumed)]
        show(rows[: 2 if consumers else 1], COLUMNS, format)
    if problem := find_problem(produced, consumed, test.error, acks=acks, has_consumers=consumers > 0):
        raise CommandError(problem)


def find_problem(produced: "Totals", consumed: "Totals", error: str, *, acks: Acks, has_consumers: bool) -> str | None:
    """Return a sentence if records failed or were lost."""
    if produced.errors or consumed.errors:
        return f"{produced.errors + consumed.errors} errors; the first is: {error.rstrip('.')}."
    missing = produced.records - consumed.records
    if has_consumers and missing > 0 and acks is not Acks.NONE:
        return f"{missing} of {produced.records} acknowledged records were not read back within 5 s."
    return None


@contextlib.contextmanager
def _topic(connection: Connection, given: str | None, partitions: int, replication_factor: int) -> Iterator[str]:
    """Yield the given topic, or a new one that is deleted at the end."""
    if given is not None:
        yield given
        return
    from penstock.actions.librdkafka import open_admin
    from penstock.actions.topics import create_topics, delete_topics

    name = f"penstock-bench-{os.urandom(4).hex()}"
    admin = open_admin(connection)
    create_topics(
        admin,
        [name],
        partitions=partitions,
        replication_factor=replication_factor,
        config={},
        created=lambda created: None,
    )
    try:
        yield name
    finally:
        delete_topics(admin, [name], deleted=lambda deleted: None)


def _watch(test: "LoadTest", duration_s: float) -> None:
    """Show progress until the test is done; Ctrl-C ends it early."""
    try:
        if sys.stderr.isatty():
            _show_live(test, duration_s)
        else:
            _print_lines(test, duration_s)
    except KeyboardInterrupt:
        print("stopping; records on their way are still counted", file=sys.stderr)
        test.stop()
        with contextlib.suppress(KeyboardInterrupt):
            while not test.is_done:
                time.sleep(0.05)


def _show_live(test: "LoadTest", duration_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True, highlight=False), auto_refresh=False, transient=True) as live:
        before = _Progress(test)
        while not test.is_done:
            time.sleep(EVERY_S)
            live.update("\n".join(before.render(duration_s)), refresh=True)


def _print_lines(test: "LoadTest", duration_s: float) -> None:
    before = _Progress(test)
    next_at = time.monotonic() + LINE_EVERY_S
    while not test.is_done:
        time.sleep(0.05)
        if time.monotonic() >= next_at:
            print("  ".join(before.render(duration_s)), file=sys.stderr, flush=True)
            next_at += LINE_EVERY_S


class _Progress:
    """The state of a test at each call, with the rates since the previous one."""

    def __init__(self, test: "LoadTest") -> None:
        self._test = test
        self._at, self._produced, self._consumed = time.monotonic(), test.produced, test.consumed

    def render(self, duration_s: float) -> list[str]:
        now, produced, consumed = time.monotonic(), self._test.produced, self._test.consumed
        interval_s = now - self._at
        lines = [
            f"{min(now - self._test.started_at, duration_s):.1f} of {duration_s:g} s",
            f"produced {render_rates(self._produced, produced, interval_s)}",
        ]
        if self._test.has_consumers:
            lines.append(f"consumed {render_rates(self._consumed, consumed, interval_s)}")
        self._at, self._produced, self._consumed = now, produced, consumed
        return lines


def render_rates(before: "Totals", after: "Totals", interval_s: float) -> str:
    """Render the rates of an interval from the totals before and after it, and the p99 latency so far."""
    records = (after.records - before.records) / interval_s
    megabytes = (after.bytes - before.bytes) / 1e6 / interval_s
    return f"{records:>9,.0f} records/s {megabytes:>7.1f} MB/s  p99 {_ms(after.p99_us) or 0:>8,.1f} ms"


def _row(clients: str, count: int, totals: "Totals") -> dict[str, Any]:
    return {
        "clients": clients,
        "count": count,
        "records": totals.records,
        "records_per_s": round(totals.records_per_s),
        "mb_per_s": round(totals.mb_per_s, 1),
        "p50_ms": _ms(totals.p50_us),
        "p99_ms": _ms(totals.p99_us),
        "max_ms": _ms(totals.max_us),
        "errors": totals.errors,
    }


def _ms(latency_us: int | None) -> float | None:
    return None if latency_us is None else round(latency_us / 1000, 2)
