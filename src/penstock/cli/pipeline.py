"""penstock pipeline: run declarative pipelines on Spark, and look at what they do.

Everything is in penstock_spark, which is a client of the cluster like any other; it is loaded only when a command
needs it. status, lag, dlq and compact answer without starting Spark.
"""

import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.actions import client_properties
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show

if TYPE_CHECKING:
    from penstock_spark.pipelines.run import Wish
    from penstock_spark.pipelines.spec import Spec

app = typer.Typer(
    help="Run declarative pipelines on Spark, and look at them.",
    epilog="Example: penstock pipeline run examples/pipelines/orders --continuous",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of spark-pipeline.yml.", show_default=False)]
StorageOption = Annotated[
    str | None,
    typer.Option("--storage", metavar="DIR", help="Where checkpoints and tables live, in place of the spec's."),
]
BrokersOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", "-b", metavar="HOST:PORT", envvar="PENSTOCK_BOOTSTRAP", help="Brokers, in place of the spec's."
    ),
]
ProviderOption = Annotated[
    str | None,
    typer.Option("--provider", metavar="NAME", help="python, or jvm for Spark's own Kafka connector."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="A setting of the spec's configuration, as penstock.kafka.security.protocol=SSL; repeatable.",
    ),
]
ContinuousOption = Annotated[
    bool, typer.Option("--continuous", help="Go on until SIGTERM or Ctrl-C; else end when all that is there is done.")
]


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What penstock_spark refuses is for the person who called."""
    try:
        from penstock_client.errors import PenstockClientError
    except ImportError as error:
        raise _not_installed(error) from error
    try:
        yield
    except PenstockClientError as error:
        raise CommandError(str(error)) from error
    except ImportError as error:
        raise _not_installed(error) from error


def _not_installed(error: ImportError) -> CommandError:
    return CommandError(f"Spark's part is not installed ({error.name} is missing): pip install 'penstock[spark]'")


@app.command("run", epilog="Example: penstock pipeline run examples/pipelines/orders --continuous")
def run(
    folder: Folder,
    continuous: ContinuousOption = False,
    storage: StorageOption = None,
    bootstrap: BrokersOption = None,
    provider: ProviderOption = None,
    settings: SetOption = None,
) -> None:
    """Run a pipeline: once over all that is there, or continuously. A restart goes on where the last run ended."""
    with _plain_errors():
        from penstock_spark.pipelines.run import Wish

        spec = _spec(folder, storage, bootstrap, provider, settings)
        _run(spec, Wish(continuous=continuous))


@app.command("replay", epilog="Example: penstock pipeline replay examples/pipelines/orders --from-timestamp 2h")
def replay(
    folder: Folder,
    from_timestamp: Annotated[
        str | None,
        typer.Option("--from-timestamp", metavar="WHEN", help="A moment (2026-01-31T12:00:00Z) or a time ago (2h)."),
    ] = None,
    from_offset: Annotated[
        list[str] | None,
        typer.Option(
            "--from-offset", metavar="OFFSET", help="One for all (42), or TOPIC:PARTITION=OFFSET; repeatable."
        ),
    ] = None,
    flow: Annotated[list[str] | None, typer.Option("--flow", help="Only this flow and what reads its table.")] = None,
    continuous: ContinuousOption = False,
    storage: StorageOption = None,
    bootstrap: BrokersOption = None,
    provider: ProviderOption = None,
    settings: SetOption = None,
) -> None:
    """Run again from an earlier place, with fresh checkpoints.

    Streaming tables begin anew. Topics and lake tables get the rows again, behind those that they hold.
    """
    with _plain_errors():
        from penstock_spark.pipelines.run import Wish

        wish = Wish(continuous=continuous, replay=_replay(from_timestamp, from_offset or []), flows=tuple(flow or ()))
        _run(_spec(folder, storage, bootstrap, provider, settings), wish)


@app.command("status", epilog="Example: penstock pipeline status examples/pipelines/orders --format json")
def status(folder: Folder, storage: StorageOption = None, format: FormatOption = Format.TABLE) -> None:
    """Show the last run: its flows, what they did, and why one failed."""
    with _plain_errors():
        state = _state(_spec(folder, storage, None, None, None))
        updated = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state["updated"] / 1000))
        word = state["state"]
        if word == "running" and time.time() * 1000 - state["updated"] > 30_000:
            word = f"said to be running, but not heard of since {updated}: it was killed, or its machine is gone"
        if format is Format.TABLE:
            print(f"{state['pipeline']}: {word} ({state['mode']}, pid {state['pid']}, {updated})")
        columns = ["name", "target", "state", "batch", "rows", "rows_per_s", "lag", "batch_ms", "counted", "error"]
        rows = [{**one, "rows_per_s": round(one["rows_per_s"])} for one in state["flows"]]
        for row in rows:
            row["counted"] = [f"{name} {value}" for name, value in row["counted"].items()]
        show(rows, columns, format)


@app.command("lag", epilog="Example: penstock pipeline lag examples/pipelines/orders")
def lag(
    folder: Folder,
    storage: StorageOption = None,
    bootstrap: BrokersOption = None,
    settings: SetOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show how far each flow is behind its topics, from Spark's checkpoints."""
    with _plain_errors():
        from penstock_spark.pipelines.lag import lag_rows

        spec = _spec(folder, storage, bootstrap, None, settings)
        rows = lag_rows(spec)
        show(rows, ["flow", "batch", "topic", "partition", "offset", "end", "lag"], format)
        if not rows and format is Format.TABLE:
            print("no flow has done a batch yet; 'penstock pipeline run' starts them", file=sys.stderr)


@app.command(
    "dlq",
    epilog="Example: penstock pipeline dlq examples/pipelines/orders -n 20   and where clients must log in   "
    "penstock pipeline dlq examples/pipelines/orders --command-config client.properties",
)
def dlq(
    folder: Folder,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="The last so many of each topic.")] = 10,
    storage: StorageOption = None,
    bootstrap: BrokersOption = None,
    settings: SetOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show the last dead letters of a pipeline. 'penstock dlq' filters them and sends them back.

    The client settings are those of the pipeline (penstock.kafka.*), as its sources and sinks have them.
    """
    with _plain_errors():
        spec = _spec(folder, storage, bootstrap, None, settings)
        state = _state(spec)
    from penstock.cli.consume import Isolation, Reader, open_consumer
    from penstock.cli.dlq import SUFFIX, letters_in
    from penstock.actions.dead_letters.letter import COLUMNS, Filter, letter_row
    from penstock.actions.positions import Earliest

    topics = [name for name in state["topics"] if name.endswith(SUFFIX)]
    if not topics:
        raise CommandError(f"the pipeline has no sink to a topic whose name ends with {SUFFIX}")
    for name in topics:
        if format is Format.TABLE:
            print(f"{name} (more: penstock dlq show {name}; send back: penstock dlq replay {name})")
        consumer = open_consumer(spec.bootstrap, Isolation.COMMITTED, properties.security(spec.client))
        try:
            # Read whole and keep the end: a transaction's marks stand between letters, so offsets do not count them.
            found = deque(letters_in(Reader(consumer, name, None, Earliest(), follow=False), Filter()), maxlen=count)
        finally:
            consumer.close()
        show([letter_row(letter) for letter in found], COLUMNS, format)


@app.command("compact", epilog="Example: penstock pipeline compact /data/lake/orders --as delta --size 128")
def compact(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The table's folder or URI.", show_default=False)],
    kind: Annotated[str, typer.Option("--as", metavar="FORMAT", help="parquet, delta or iceberg.")] = "delta",
    size_mb: Annotated[int, typer.Option("--size", min=1, metavar="MB", help="Join files smaller than this.")] = 128,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the table, as catalog.uri; repeatable."),
    ] = None,
) -> None:
    """Join the small files of a lake table. Rows and the fence of running queries stay as they are."""
    from penstock.actions.connection import parse_pairs

    with _plain_errors():
        from penstock_spark.lake.options import lake_options
        from penstock_spark.lake.tables import open_table

        given = {"format": kind, "path": path, **parse_pairs(options or [], option="--option catalog.uri=...")}
        print(f"looking at {path}", file=sys.stderr)
        joined, made = open_table(lake_options(given)).compact(size=size_mb * 1024 * 1024)
    print(f"{joined} files became {made}" if joined else "nothing to do: there are no two small files")


def _spec(
    folder: Path, storage: str | None, bootstrap: str | None, provider: str | None, settings: list[str] | None
) -> "Spec":
    from penstock.actions.connection import parse_pairs
    from penstock_spark.pipelines.spec import load_spec

    given = {f"penstock.kafka.{name}": value for name, value in properties.given().items()}
    pairs = given | parse_pairs(settings or [], option="--set spark.master=local[4]")
    return load_spec(folder, pairs).with_changes(storage=storage, bootstrap=bootstrap, provider=provider)


def _state(spec: "Spec") -> dict[str, Any]:
    from penstock_spark.pipelines.store import Store

    state = Store(spec.storage).state()
    if state is None:
        raise CommandError(f"the pipeline {spec.name} has not run with the storage {spec.storage} yet")
    return state


def _replay(timestamp: str | None, offsets: list[str]) -> Any:
    from penstock.actions.positions import AtTime, parse_position
    from penstock_spark.pipelines.sources import Replay

    if (timestamp is None) == (not offsets):
        raise CommandError("say where to begin: either --from-timestamp 2h or --from-offset 42")
    if timestamp is not None:
        found = parse_position(timestamp, now_ms=int(time.time() * 1000), option="--from-timestamp")
        if not isinstance(found, AtTime):
            raise CommandError(f"--from-timestamp does not understand '{timestamp}': write 2h or 2026-01-31T12:00:00Z")
        return Replay(timestamp_ms=found.timestamp_ms)
    everywhere: int | None = None
    by_partition: dict[str, dict[str, int]] = {}
    for text in offsets:
        place, _, number = text.rpartition("=")
        topic, _, partition = place.rpartition(":")
        if not number.isdigit() or (place and not (topic and partition.isdigit())):
            raise CommandError(f"--from-offset does not understand '{text}': write 42, or orders:0=42")
        if place:
            by_partition.setdefault(topic, {})[partition] = int(number)
        else:
            everywhere = int(number)
    return Replay(offset=everywhere, offsets=by_partition)


def _run(spec: "Spec", wish: "Wish") -> None:
    from penstock.cli.pipeline_display import Display
    from penstock_spark.pipelines.run import reach, run, session
    from penstock_spark.pipelines.runner import Runner

    reach(spec)
    where = spec.spark.get("spark.remote") or spec.spark.get("spark.master", "local")
    print(f"{spec.name}: starting Spark ({where})", file=sys.stderr, flush=True)
    runners: list[Runner] = []
    stop_asked = False

    def stop(*_: object) -> None:
        nonlocal stop_asked
        stop_asked = True
        for one in runners:
            one.stop()

    def started(runner: Runner) -> None:
        runners.append(runner)
        if stop_asked:
            runner.stop()
        print(f"{spec.name}: running; storage {spec.storage}", file=sys.stderr, flush=True)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    spark = session(spec)
    # Spark takes Ctrl-C for itself when a session starts.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        with Display(f"{spec.name} on {spec.bootstrap}") as display:
            run(spec, spark, wish, display.show, started)
    finally:
        spark.stop()
    print(f"{spec.name}: {'stopped; the next run goes on from here' if stop_asked else 'done'}", file=sys.stderr)
