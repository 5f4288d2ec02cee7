"""penstock txn: list, describe and abort transactions, and find those that nobody will end.

A transaction hangs if a partition holds it open and no coordinator has that partition in it; readers of committed
records wait behind it for ever. Goes to txn_view.py.
"""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.actions.connection import DEFAULT_BOOTSTRAP, BootstrapOption
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show
from penstock.actions.positions import parse_duration_ms

if TYPE_CHECKING:
    from penstock.actions.transactions import Cluster, OpenTransaction

app = typer.Typer(
    help="List, describe and abort transactions; find those that hang.",
    epilog="Example: penstock txn list --state Ongoing",
    no_args_is_help=True,
)

LISTED = ["transactional_id", "coordinator", "producer_id", "state"]
DESCRIBED = [*LISTED, "epoch", "timeout_ms", "started", "running_ms", "partitions"]
HANGING = ["topic", "partition", "producer_id", "epoch", "coordinator_epoch", "start_offset", "last_written", "idle_ms"]


@app.command("list", epilog="Example: penstock txn list --state Ongoing --running-for 5m")
def list_command(
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only ids in this state (Ongoing, ...); repeatable.")
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option("--producer-id", help="Only this producer id; repeatable.")
    ] = None,
    running_for: Annotated[
        str | None, typer.Option("--running-for", metavar="TIME", help="Only what was begun longer ago (90s, 5m, 1h).")
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="REGEX", help="Only ids that match from end to end.")
    ] = None,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List the transactional ids of the cluster, and what state each is in."""
    found = _cluster(bootstrap).list_all(
        states=state or (),
        producer_ids=producer_id or (),
        duration_ms=-1 if running_for is None else parse_duration_ms(running_for, option="--running-for"),
        pattern=pattern,
    )
    show([each._asdict() for each in found], LISTED, format)


@app.command("describe", epilog="Example: penstock txn describe billing-1")
def describe(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The transactional ids.", show_default=False)],
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show what the coordinator knows of transactional ids: producer, timeout, and the partitions of what is open."""
    cluster = _cluster(bootstrap)
    now_ms = int(time.time() * 1000)
    rows = []
    for transactional_id in dict.fromkeys(ids):
        found = cluster.describe(transactional_id)
        is_running = found.state == "Ongoing" and found.start_ms >= 0
        rows.append(
            {
                **found._asdict(),
                "started": _shown_time(found.start_ms),
                "running_ms": now_ms - found.start_ms if is_running else None,
            }
        )
    show(rows, DESCRIBED, format)


@app.command("abort", epilog="Example: penstock txn abort billing-1")
def abort(
    transactional_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Abort what is open under this id, and fence its producer."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="With --partition and --start-offset: one that hangs.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="The partition that it hangs in.")
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", min=0, metavar="N", help="Its first offset, as find-hanging shows it."),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Abort a transaction: by its id, or one that hangs by the place where it began."""
    if transactional_id is not None and topic is None:
        _abort_by_id(_cluster(bootstrap), transactional_id)
    elif transactional_id is None and topic is not None and partition is not None and start_offset is not None:
        _abort_hanging(_cluster(bootstrap), topic, partition, start_offset)
    else:
        raise CommandError("Say what to abort: an ID, or --topic, --partition and --start-offset together.")


@app.command("find-hanging", epilog="Example: penstock txn find-hanging --topic orders")
def find_hanging(
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", help="Only this topic; repeatable.", show_default="all")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Only this partition of it.")
    ] = None,
    idle_for: Annotated[
        str, typer.Option("--idle-for", metavar="TIME", help="Only if nothing was written in it for so long.")
    ] = "20m",
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Find transactions that partitions hold open and no coordinator will end."""
    cluster = _cluster(bootstrap)
    oldest_ms = int(time.time() * 1000) - parse_duration_ms(idle_for, option="--idle-for")
    suspects = [
        each
        for name in (topic or sorted(cluster.metadata.topics))
        for each in cluster.open_transactions(name, cluster.indexes(name, partition))
        if each.last_timestamp_ms <= oldest_ms
    ]
    ids = cluster.transactional_ids(each.producer_id for each in suspects)
    rows = [
        _hanging_row(each)
        for each in suspects
        if each.producer_id not in ids or not cluster.is_known(ids[each.producer_id], f"{each.topic}-{each.partition}")
    ]
    show(rows, HANGING, format)


def _cluster(bootstrap: str) -> "Cluster":
    # The schema classes that it needs would slow every other command's start.
    from penstock.actions.transactions import Cluster

    return Cluster(bootstrap)


def _abort_by_id(cluster: "Cluster", transactional_id: str) -> None:
    before = cluster.describe(transactional_id)
    if before.state in ("Empty", "CompleteCommit", "CompleteAbort"):
        raise CommandError(f"{transactional_id} has nothing open: it is in state {before.state}.")
    cluster.fence(transactional_id)
    if before.state == "PrepareCommit":
        raise CommandError(f"{transactional_id} was decided already: it is committed, and its producer is fenced.")
    print(f"aborted {transactional_id}")


def _abort_hanging(cluster: "Cluster", topic: str, partition: int, start_offset: int) -> None:
    found = [
        each
        for each in cluster.open_transactions(topic, cluster.indexes(topic, partition))
        if each.start_offset == start_offset
    ]
    if not found:
        raise CommandError(
            f"No open transaction of {topic}-{partition} begins at offset {start_offset}: "
            "'penstock txn find-hanging' shows where they begin."
        )
    cluster.abort(found[0])
    print(f"aborted the transaction of producer {found[0].producer_id} in {topic}-{partition}")


def _hanging_row(found: "OpenTransaction") -> dict[str, Any]:
    return {
        **found._asdict(),
        "last_written": _shown_time(found.last_timestamp_ms),
        "idle_ms": int(time.time() * 1000) - found.last_timestamp_ms,
    }


def _shown_time(milliseconds: int) -> str | None:
    if milliseconds < 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
