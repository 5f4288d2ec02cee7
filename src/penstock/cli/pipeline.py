"""penstock pipeline: run declarative pipelines on Spark and show their state.

The implementation is in penstock_spark, which is imported only when a command needs it. status, lag, dlq and compact
do not start Spark.
"""

import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.actions.client_properties import security_properties
from penstock.actions.connection import Connection
from penstock.cli.arguments import parse_pairs
from penstock.cli.connection_options import PipelineConnection
from penstock.cli.errors import CommandError
from penstock.cli.lifetime import StopAtEofOption, on_stop_signal, stop_at_end_of_input
from penstock.cli.output import Format, FormatOption, show

if TYPE_CHECKING:
    from penstock_spark.pipelines.run import Wish
    from penstock_spark.pipelines.spec import Spec

app = typer.Typer(
    help="Run declarative pipelines on Spark and show their state.",
    epilog="Example: penstock pipeline run examples/pipelines/orders --continuous",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of spark-pipeline.yml.", show_default=False)]
StorageOption = Annotated[
    str | None,
    typer.Option("--storage", metavar="DIR", help="Folder of checkpoints and tables; overrides the spec."),
]
ProviderOption = Annotated[
    str | None,
    typer.Option("--provider", metavar="NAME", help="Kafka connector: python, or jvm for Spark's own."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="Configuration of the spec, for example penstock.kafka.security.protocol=SSL. Repeatable.",
    ),
]
ContinuousOption = Annotated[
    bool, typer.Option("--continuous", help="Run until SIGTERM or Ctrl-C instead of stopping at the end.")
]


@contextmanager
def _command_errors() -> Iterator[None]:
    """Turn errors of penstock_spark into errors of the command."""
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
    return CommandError(
        f"Pipelines need the extra 'spark': {error.name} is not installed. Run: pip install 'penstock[spark]'"
    )


@app.command("run", epilog="Example: penstock pipeline run examples/pipelines/orders --continuous")
def run(
    connection: PipelineConnection,
    folder: Folder,
    continuous: ContinuousOption = False,
    storage: StorageOption = None,
    provider: ProviderOption = None,
    settings: SetOption = None,
    stop_at_eof: StopAtEofOption = False,
) -> None:
    """Run a pipeline over all existing records, or continuously.

    A run continues where the last one ended.
    """
    if stop_at_eof:
        stop_at_end_of_input()
    with _command_errors():
        from penstock_spark.pipelines.run import Wish

        spec = _spec(connection, folder, storage, provider, settings)
        _run(spec, Wish(continuous=continuous))


@app.command("replay", epilog="Example: penstock pipeline replay examples/pipelines/orders --from-timestamp 2h")
def replay(
    connection: PipelineConnection,
    folder: Folder,
    from_timestamp: Annotated[
        str | None,
        typer.Option(
            "--from-timestamp", metavar="TIME", help="A time (2026-01-31T12:00:00Z) or a duration before now (2h)."
        ),
    ] = None,
    from_offset: Annotated[
        list[str] | None,
        typer.Option(
            "--from-offset",
            metavar="OFFSET",
            help="An offset for all partitions (42), or TOPIC:PARTITION=OFFSET. Repeatable.",
        ),
    ] = None,
    flow: Annotated[
        list[str] | None, typer.Option("--flow", help="Only this flow and those that read its table. Repeatable.")
    ] = None,
    continuous: ContinuousOption = False,
    storage: StorageOption = None,
    provider: ProviderOption = None,
    settings: SetOption = None,
) -> None:
    """Run a pipeline again from an earlier position, with new checkpoints.

    Streaming tables are rebuilt. Topics and lake tables get the rows appended again.
    """
    with _command_errors():
        from penstock_spark.pipelines.run import Wish

        wish = Wish(continuous=continuous, replay=_replay(from_timestamp, from_offset or []), flows=tuple(flow or ()))
        _run(_spec(connection, folder, storage, provider, settings), wish)


@app.command("status", epilog="Example: penstock pipeline status examples/pipelines/orders --format json")
def status(folder: Folder, storage: StorageOption = None, format: FormatOption = Format.TABLE) -> None:
    """Show the flows of the last run, their progress and their errors."""
    with _command_errors():
        state = _state(_spec(PipelineConnection(None, {}), folder, storage, None, None))
        updated = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(state["updated"] / 1000))
        word = state["state"]
        if word == "running" and time.time() * 1000 - state["updated"] > 30_000:
            word = f"no update since {updated}: the run was killed or its machine is down"
        if format is Format.TABLE:
            print(f"{state['pipeline']}: {word} ({state['mode']}, pid {state['pid']}, {updated})")
        columns = ["name", "target", "state", "batch", "rows", "rows_per_s", "lag", "batch_ms", "counted", "error"]
        rows = [{**one, "rows_per_s": round(one["rows_per_s"])} for one in state["flows"]]
        for row in rows:
            row["counted"] = [f"{name} {value}" for name, value in row["counted"].items()]
        show(rows, columns, format)


@app.command("lag", epilog="Example: penstock pipeline lag examples/pipelines/orders")
def lag(
    connection: PipelineConnection,
    folder: Folder,
    storage: StorageOption = None,
    settings: SetOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show the lag of each flow, from Spark's checkpoints."""
    with _command_errors():
        from penstock_spark.pipelines.lag import lag_rows

        spec = _spec(connection, folder, storage, None, settings)
        rows = lag_rows(spec)
        show(rows, ["flow", "batch", "topic", "partition", "offset", "end", "lag"], format)
        if not rows and format is Format.TABLE:
            print("No flow has completed a batch yet. Run 'penstock pipeline run' first.", file=sys.stderr)


@app.command(
    "dlq",
    epilog="Example: penstock pipeline dlq examples/pipelines/orders -n 20",
)
def dlq(
    connection: PipelineConnection,
    folder: Folder,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, metavar="N", help="Show the last N letters of each topic.")
    ] = 10,
    storage: StorageOption = None,
    settings: SetOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show the last dead letters of a pipeline. Use 'penstock dlq' to filter and replay them.

    Client properties come from the pipeline (penstock.kafka.*) and from the options of this command.
    """
    with _command_errors():
        spec = _spec(connection, folder, storage, None, settings)
        state = _state(spec)
    from penstock.actions.dead_letters.dead_letter import COLUMNS, Filter, dead_letter_row
    from penstock.actions.dead_letters.topics import SUFFIX, read_dead_letters
    from penstock.actions.positions import Earliest
    from penstock.actions.topic_reader import Isolation, TopicReader, open_consumer

    topics = [name for name in state["topics"] if name.endswith(SUFFIX)]
    if not topics:
        raise CommandError(f"Pipeline '{spec.name}' has no sink to a topic with the suffix {SUFFIX}.")
    spec_connection = Connection(spec.bootstrap, security_properties(spec.client))
    for name in topics:
        if format is Format.TABLE:
            print(f"{name} (show more: penstock dlq show {name}; send back: penstock dlq replay {name})")
        consumer = open_consumer(spec_connection, Isolation.COMMITTED)
        try:
            # Transaction markers take offsets too, so the last letters cannot be found by counting offsets.
            reader = TopicReader(consumer, name, None, Earliest(), follow=False)
            found = deque(read_dead_letters(reader, Filter()), maxlen=count)
        finally:
            consumer.close()
        show([dead_letter_row(letter) for letter in found], COLUMNS, format)


@app.command("compact", epilog="Example: penstock pipeline compact /data/lake/orders --as delta --size 128")
def compact(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder or URI of the table.", show_default=False)],
    kind: Annotated[
        str, typer.Option("--as", metavar="FORMAT", help="Table format: parquet, delta or iceberg.")
    ] = "delta",
    size_mb: Annotated[int, typer.Option("--size", min=1, metavar="MB", help="Merge files smaller than this.")] = 128,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="Table option, for example catalog.uri. Repeatable."),
    ] = None,
) -> None:
    """Merge the small files of a lake table. Safe while queries write to it."""
    with _command_errors():
        from penstock_spark.lake.options import lake_options
        from penstock_spark.lake.tables import open_table

        given = {"format": kind, "path": path, **parse_pairs(options or [], example="--option catalog.uri=...")}
        print(f"reading {path}", file=sys.stderr)
        joined, made = open_table(lake_options(given)).compact(size=size_mb * 1024 * 1024)
    print(f"{joined} files merged into {made}" if joined else "nothing to do: there are no two small files")


def _spec(
    connection: PipelineConnection,
    folder: Path,
    storage: str | None,
    provider: str | None,
    settings: list[str] | None,
) -> "Spec":
    from penstock_spark.pipelines.spec import load_spec

    given = {f"penstock.kafka.{name}": value for name, value in connection.properties.items()}
    pairs = given | parse_pairs(settings or [], example="--set spark.master=local[4]")
    return load_spec(folder, pairs).with_changes(storage=storage, bootstrap=connection.bootstrap, provider=provider)


def _state(spec: "Spec") -> dict[str, Any]:
    from penstock_spark.pipelines.store import Store

    state = Store(spec.storage).state()
    if state is None:
        raise CommandError(
            f"Pipeline '{spec.name}' has not run with storage {spec.storage} yet. Run 'penstock pipeline run' first."
        )
    return state


def _replay(timestamp: str | None, offsets: list[str]) -> Any:
    from penstock.actions.positions import parse_time
    from penstock_spark.pipelines.sources import Replay

    if (timestamp is None) == (not offsets):
        raise CommandError("Pass either --from-timestamp or --from-offset, for example --from-timestamp 2h.")
    if timestamp is not None:
        return Replay(timestamp_ms=parse_time(timestamp, now_ms=int(time.time() * 1000)).timestamp_ms)
    everywhere: int | None = None
    by_partition: dict[str, dict[str, int]] = {}
    for text in offsets:
        source, _, number = text.rpartition("=")
        topic, _, partition = source.rpartition(":")
        if not _is_number(number) or (source and not (topic and _is_number(partition))):
            raise CommandError(
                f"Invalid offset '{text}': expected OFFSET or TOPIC:PARTITION=OFFSET, for example orders:0=42."
            )
        if source:
            by_partition.setdefault(topic, {})[partition] = int(number)
        else:
            everywhere = int(number)
    return Replay(offset=everywhere, offsets=by_partition)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _run(spec: "Spec", wish: "Wish") -> None:
    from penstock.cli.pipeline_display import Display
    from penstock_spark.pipelines.run import reach, run, session
    from penstock_spark.pipelines.runner import Runner

    reach(spec)
    where = spec.spark.get("spark.remote") or spec.spark.get("spark.master", "local")
    print(f"{spec.name}: starting Spark ({where})", file=sys.stderr, flush=True)
    runners: list[Runner] = []
    stop_requested = has_session = False

    def stop() -> None:
        nonlocal stop_requested
        stop_requested = True
        if not has_session:
            # Do not wait for the start of Spark, which takes up to a minute. Its JVM reports its port in a folder of
            # pyspark's and then ends with this process. An exception here would make pyspark remove that folder: the
            # JVM could not report, and would stay.
            print(f"{spec.name}: stopped", file=sys.stderr, flush=True)
            os._exit(0)
        for one in runners:
            one.stop()

    def started(runner: Runner) -> None:
        runners.append(runner)
        if stop_requested:
            runner.stop()
        print(f"{spec.name}: running; storage {spec.storage}", file=sys.stderr, flush=True)

    on_stop_signal(stop)
    spark = session(spec)
    has_session = True
    # Starting a session installs Spark's own handler of Ctrl-C.
    on_stop_signal(stop)
    try:
        with Display(f"{spec.name} on {spec.bootstrap}") as display:
            run(spec, spark, wish, display.show, started)
    finally:
        spark.stop()
    print(f"{spec.name}: {'stopped; the next run continues from here' if stop_requested else 'done'}", file=sys.stderr)
