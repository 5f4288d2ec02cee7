"""penstock group: list, describe, measure, reset and delete consumer groups, over the admin protocol.

A reset shows its plan and changes nothing unless --execute is given, as Kafka's own tool does.
"""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.actions.connection import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    explain,
    open_admin,
    wait,
    wait_all,
)
from penstock.cli.errors import CommandError
from penstock.actions.groups import (
    Group,
    Place,
    committed_offsets,
    demand,
    describe_groups,
    lag_rows,
    latest_offsets,
    list_groups,
    log_offsets,
    total,
)
from penstock.cli.output import Format, FormatOption, show
from penstock.actions.positions import AtTime
from penstock.actions.offset_reset import Move, PartitionState, Target, parse_target, parse_topics, plan_move

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(
    help="List, describe, measure, reset and delete consumer groups.",
    epilog="Example: penstock group lag billing --watch",
    no_args_is_help=True,
)

Names = Annotated[list[str], typer.Argument(metavar="GROUP...", help="The names of the groups.", show_default=False)]
LAG = ["group", "topic", "partition", "committed", "end", "lag", "client_id", "host", "member"]
TOTALS = ["group", "state", "members", "partitions", "lag"]
DESCRIBED = ["group", "state", "type", "assignor", "coordinator", "member", "instance", "client_id", "host"]
PLAN = ["group", "topic", "partition", "current", "new", "lag", "note"]


@app.command("list", epilog="Example: penstock group list --state stable")
def list_command(
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only groups in this state (stable, empty, ...); repeatable.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--type", help="Only groups of this type (classic, consumer); repeatable.")
    ] = None,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List the groups of the cluster."""
    admin = open_admin(bootstrap)
    rows = [
        {"group": group.group_id, "state": group.state.name.lower().replace("_", " "), "type": group.type.name.lower()}
        for group in list_groups(admin, states=state or (), types=kind or ())
    ]
    show(rows, ["group", "state", "type"], format)


@app.command("describe", epilog="Example: penstock group describe billing")
def describe(names: Names, format: FormatOption = Format.TABLE, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Show who belongs to groups, from where, and which partitions each member owns."""
    admin = open_admin(bootstrap)
    groups = demand(describe_groups(admin, names))
    rows = [row for group in groups for row in _member_rows(group)]
    if format is not Format.TABLE:
        show(rows, [*DESCRIBED, "partitions"], format)
        return
    for position, group in enumerate(groups):
        facts = {"state": group.state, "type": group.type, "assignor": group.assignor, "coordinator": group.coordinator}
        print(
            ("\n" if position else "")
            + f"{group.name}  "
            + "  ".join(f"{name}={value}" for name, value in facts.items() if value)
        )
        if group.members:
            own = [row for row in rows if row["group"] == group.name]
            show(own, [*DESCRIBED[5:], "partitions"], format)
        else:
            print("no members")


@app.command("lag", epilog="Example: penstock group lag billing --watch --every 5")
def lag(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP]...", help="The groups; without names, all.", show_default=False),
    ] = None,
    topic: Annotated[list[str] | None, typer.Option("--topic", "-t", help="Only this topic; repeatable.")] = None,
    totals: Annotated[bool, typer.Option("--totals", help="One row a group and not one a partition.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again; Ctrl-C ends.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="How often to look.")] = 2.0,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show how far groups are behind: what is committed, where the log ends, and who owns it."""
    admin = open_admin(bootstrap)
    before: dict[str, float] = {}

    def look() -> None:
        groups = _groups(admin, names or [])
        rows = [row for group in groups for row in _measure(admin, group, topic or [])]
        if totals:
            show([_totals_row(group, rows) for group in groups], TOTALS, format)
        else:
            show(rows, LAG, format)
        if format is Format.TABLE:
            print(_total_line(total(rows), before))
        sys.stdout.flush()

    _repeat(look, every=every if watch else None)


@app.command("reset", epilog="Example: penstock group reset billing --topic orders:0,2 --to-datetime 1h --execute")
def reset(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="The name of the group.", show_default=False)],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:0,1]",
            help="Only this topic, or these partitions of it; repeatable.",
            show_default="all that the group has offsets for",
        ),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record that is there.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end: skip what is there.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, metavar="N", help="To this offset.")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option("--to-datetime", metavar="WHEN", help="To a moment (2026-01-31T12:00:00Z) or a time ago (5m)."),
    ] = None,
    to_timestamp: Annotated[
        int | None, typer.Option("--to-timestamp", min=0, metavar="MS", help="To a time in ms since 1970.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="So many forward; write --shift-by=-10 for back.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute/--dry-run", help="Do it, or only show the plan.")] = False,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Move the offsets of a group that has no members. Shows the plan; --execute carries it out."""
    target = parse_target(
        to_earliest=to_earliest, to_latest=to_latest, to_offset=to_offset, to_datetime=to_datetime,
        to_timestamp=to_timestamp, shift_by=shift_by, now_ms=int(time.time() * 1000),
    )  # fmt: skip
    wanted = parse_topics(topic or [])
    admin = open_admin(bootstrap)
    (group,) = describe_groups(admin, [name])
    if execute and group.members:
        raise CommandError(_still_there(group))
    moves = [plan_move(state, target) for state in _states(admin, name, wanted, target)]
    if execute:
        _carry_out(admin, name, moves)
    show([{"group": name, **move._asdict(), "lag": move.latest - move.new} for move in moves], PLAN, format)
    if not execute:
        print("dry run: nothing was changed; --execute carries the plan out", file=sys.stderr)
        if group.members:
            print(_still_there(group), file=sys.stderr)


@app.command("delete", epilog="Example: penstock group delete billing")
def delete(names: Names, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Delete groups that have no members, with their offsets. There is no way back."""
    admin = open_admin(bootstrap)
    futures = admin.delete_consumer_groups(list(dict.fromkeys(names)), request_timeout=REQUEST_TIMEOUT_S)
    wait_all(futures, done=lambda name: print(f"deleted {name}"))


def _member_rows(group: Group) -> list[dict[str, Any]]:
    common = {
        "group": group.name,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
    }
    rows = []
    for member in group.members:
        owned = [f"{topic}-{partition}" for topic, partition in member.partitions]
        rows.append({**common, **member._asdict(), "partitions": owned})
    return rows or [{**common, "partitions": []}]


def _groups(admin: "AdminClient", names: list[str]) -> list[Group]:
    if names:
        return demand(describe_groups(admin, names))
    return describe_groups(admin, [group.group_id for group in list_groups(admin)])


def _measure(admin: "AdminClient", group: Group, topics: list[str]) -> list[dict[str, Any]]:
    committed = committed_offsets(admin, group.name)
    owned = {place for member in group.members for place in member.partitions}
    rows = lag_rows(group, committed, latest_offsets(admin, committed.keys() | owned))
    return [row for row in rows if not topics or row["topic"] in topics]


def _totals_row(group: Group, rows: list[dict[str, Any]]) -> dict[str, Any]:
    own = [row for row in rows if row["group"] == group.name]
    return {
        "group": group.name,
        "state": group.state,
        "members": len(group.members),
        "partitions": len(own),
        "lag": total(own),
    }


def _total_line(lag: int, before: dict[str, float]) -> str:
    """Name the sum and, from the second look on, how fast it changes."""
    now = time.monotonic()
    speed = ""
    if "at" in before and now > before["at"]:
        speed = f"  ({(lag - before['lag']) / (now - before['at']):+.1f}/s)"
    before.update(at=now, lag=lag)
    return f"total lag {lag}{speed}"


def _repeat(look: Callable[[], None], *, every: float | None) -> None:
    """Look once, or until Ctrl-C; a terminal is cleared before each look."""
    if every is None:
        look()
        return
    try:
        while True:
            if sys.stdout.isatty():
                print("\x1b[H\x1b[2J", end="")
            look()
            time.sleep(every)
    except KeyboardInterrupt:
        # The only way to end --watch, so not an error.
        pass


def _states(
    admin: "AdminClient", group: str, wanted: dict[str, set[int] | None], target: Target
) -> list[PartitionState]:
    """Ask for all that a plan needs to know of the partitions in question."""
    from confluent_kafka.admin import OffsetSpec

    committed = committed_offsets(admin, group)
    places = sorted(_places(admin, wanted) if wanted else committed)
    if not places:
        raise CommandError(f"{group} has no committed offsets: name the topics to reset with --topic.")
    earliest = log_offsets(admin, places, OffsetSpec.earliest())
    latest = latest_offsets(admin, places)
    at_time: dict[Place, int | None] = {}
    if isinstance(target, AtTime):
        at_time = log_offsets(admin, places, OffsetSpec.for_timestamp(target.timestamp_ms))
    states = []
    for place in places:
        first, last = earliest.get(place), latest.get(place)
        if first is None or last is None:
            raise CommandError(
                f"{place[0]}-{place[1]} does not answer: name the topics to reset with --topic, or try again."
            )
        states.append(PartitionState(*place, committed.get(place), first, last, at_time.get(place)))
    return states


def _places(admin: "AdminClient", wanted: dict[str, set[int] | None]) -> set[Place]:
    topics = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    places: set[Place] = set()
    for name, chosen in wanted.items():
        if name not in topics:
            raise CommandError(f"There is no topic {name}: 'penstock topic list' shows the topics there are.")
        there = set(topics[name].partitions)
        if chosen is not None and not chosen <= there:
            missing = ", ".join(str(index) for index in sorted(chosen - there))
            raise CommandError(f"{name} has no partition {missing}: it has 0 to {max(there)}.")
        places |= {(name, index) for index in (there if chosen is None else chosen)}
    return places


def _carry_out(admin: "AdminClient", group: str, moves: list[Move]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    offsets = [TopicPartition(move.topic, move.partition, move.new) for move in moves]
    future = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, offsets)], request_timeout=REQUEST_TIMEOUT_S
    )[group]
    for entry in wait(future, about=group).topic_partitions or []:
        if entry.error is not None:
            raise CommandError(explain(entry.error, about=f"{entry.topic}-{entry.partition}"))


def _still_there(group: Group) -> str:
    who = ", ".join(f"{member.client_id} at {member.host}" for member in group.members[:3])
    more = f" and {len(group.members) - 3} more" if len(group.members) > 3 else ""
    return f"{group.name} has members ({who}{more}): stop them first, or they would commit over the reset."
