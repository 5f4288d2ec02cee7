"""penstock txn: list, describe and abort transactions, and find hanging ones."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from penstock.actions.connection import Connection
from penstock.actions.positions import parse_duration_ms
from penstock.cli.completion import complete_topic
from penstock.cli.confirm import YesOption, confirm
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show

app = typer.Typer(
    help="List, describe and abort transactions.",
    epilog="Example: penstock txn list --state Ongoing",
    no_args_is_help=True,
)

LISTED = ["transactional_id", "coordinator", "producer_id", "state"]
DESCRIBED = [*LISTED, "epoch", "timeout_ms", "started", "running_ms", "partitions"]
HANGING = ["topic", "partition", "producer_id", "epoch", "coordinator_epoch", "start_offset", "last_written", "idle_ms"]


@app.command("list", epilog="Example: penstock txn list --state Ongoing --running-for 5m")
def list_command(
    connection: Connection,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only ids in this state (Ongoing, Empty, ...). Repeatable.")
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option("--producer-id", help="Only this producer id. Repeatable.")
    ] = None,
    running_for: Annotated[
        str | None,
        typer.Option(
            "--running-for", metavar="DURATION", help="Only transactions running for longer than this (90s, 5m, 1h)."
        ),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="REGEX", help="Only ids that match this regular expression.")
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """List transactional ids and their states."""
    # Loading the schemas would delay the start of every other command.
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.transactions import list_transactions

    duration_ms = -1 if running_for is None else parse_duration_ms(running_for)
    with open_cluster(connection) as cluster:
        found = list_transactions(
            cluster, states=state or (), producer_ids=producer_id or (), duration_ms=duration_ms, pattern=pattern
        )
    show([each._asdict() for each in found], LISTED, format)


@app.command("describe", epilog="Example: penstock txn describe billing-1")
def describe(
    connection: Connection,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Transactional ids.", show_default=False)],
    format: FormatOption = Format.TABLE,
) -> None:
    """Show the producer, timeout and partitions of transactional ids."""
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.transactions import describe_transaction

    now_ms = int(time.time() * 1000)
    with open_cluster(connection) as cluster:
        described = [describe_transaction(cluster, transactional_id) for transactional_id in dict.fromkeys(ids)]
    rows = [
        {
            **each._asdict(),
            "started": _render_time(each.start_ms),
            "running_ms": now_ms - each.start_ms if each.state == "Ongoing" and each.start_ms >= 0 else None,
        }
        for each in described
    ]
    show(rows, DESCRIBED, format)


@app.command("abort", epilog="Example: penstock txn abort billing-1")
def abort(
    connection: Connection,
    transactional_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Transactional id whose open transaction to abort; fences its producer."),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", "-t", help="Topic of a hanging transaction, instead of an id.", autocompletion=complete_topic
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Partition of the hanging transaction.")
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", min=0, metavar="N", help="Its first offset, as shown by find-hanging."),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Abort a transaction by its id, or a hanging one by its partition and first offset."""
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.transactions import abort_hanging_transaction, abort_transaction

    if transactional_id is not None and topic is None:
        confirm(f"Abort the open transaction of {transactional_id} and fence its producer?", yes=yes)
        with open_cluster(connection) as cluster:
            abort_transaction(cluster, transactional_id)
        print(f"aborted {transactional_id}")
    elif transactional_id is None and topic is not None and partition is not None and start_offset is not None:
        confirm(f"Abort the transaction at offset {start_offset} of {topic}-{partition}?", yes=yes)
        with open_cluster(connection) as cluster:
            aborted = abort_hanging_transaction(cluster, topic=topic, partition=partition, start_offset=start_offset)
        print(f"aborted the transaction of producer {aborted.producer_id} in {topic}-{partition}")
    else:
        raise CommandError("Pass either a transactional id, or --topic, --partition and --start-offset together.")


@app.command("find-hanging", epilog="Example: penstock txn find-hanging --topic orders")
def find_hanging(
    connection: Connection,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", help="Only this topic. Repeatable.", show_default="all", autocompletion=complete_topic
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this partition of the topics.")
    ] = None,
    idle_for: Annotated[
        str, typer.Option("--idle-for", metavar="DURATION", help="Only transactions without a write for this long.")
    ] = "20m",
    format: FormatOption = Format.TABLE,
) -> None:
    """Find open transactions that no coordinator will end."""
    from penstock.actions.cluster_client import open_cluster
    from penstock.actions.transactions import find_hanging_transactions

    now_ms = int(time.time() * 1000)
    idle_ms = parse_duration_ms(idle_for)
    with open_cluster(connection) as cluster:
        found = find_hanging_transactions(
            cluster, topics=topic or (), partition=partition, written_before_ms=now_ms - idle_ms
        )
    rows = [
        {
            **each._asdict(),
            "last_written": _render_time(each.last_timestamp_ms),
            "idle_ms": int(time.time() * 1000) - each.last_timestamp_ms,
        }
        for each in found
    ]
    show(rows, HANGING, format)


def _render_time(milliseconds: int) -> str | None:
    if milliseconds < 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
