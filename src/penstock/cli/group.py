"""penstock group: list, describe, reset and delete consumer groups, and measure their lag.

A reset shows its plan and changes nothing unless --execute is given, as Kafka's own tool does.
"""

import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from penstock.actions import groups as actions
from penstock.actions.connection import Connection
from penstock.actions.librdkafka import open_admin
from penstock.actions.offset_reset import ShiftBy, Target, parse_topic_partitions, plan_reset
from penstock.actions.positions import AtOffset, AtTime, Earliest, Latest, parse_time
from penstock.cli.completion import complete_group, complete_topic
from penstock.cli.confirm import YesOption, confirm, counted
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show

app = typer.Typer(
    help="List, describe, reset and delete consumer groups; show lag.",
    epilog="Example: penstock group lag billing --watch",
    no_args_is_help=True,
)

Names = Annotated[
    list[str],
    typer.Argument(metavar="GROUP...", help="Group names.", show_default=False, autocompletion=complete_group),
]
LAG = ["group", "topic", "partition", "committed", "end", "lag", "client_id", "host", "member"]
TOTALS = ["group", "state", "members", "partitions", "lag"]
DESCRIBED = ["group", "state", "type", "assignor", "coordinator", "member", "instance", "client_id", "host"]
PLAN = ["group", "topic", "partition", "current", "new", "lag", "note"]


@app.command("list", epilog="Example: penstock group list --state stable")
def list_command(
    connection: Connection,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only groups in this state (stable, empty, ...). Repeatable.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--type", help="Only groups of this type (classic, consumer). Repeatable.")
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """List groups."""
    groups = actions.list_groups(open_admin(connection), states=state or (), types=kind or ())
    show([group._asdict() for group in groups], ["group", "state", "type"], format)


@app.command("describe", epilog="Example: penstock group describe billing")
def describe(connection: Connection, names: Names, format: FormatOption = Format.TABLE) -> None:
    """Show the members of groups and their assigned partitions."""
    groups = actions.describe_existing_groups(open_admin(connection), names)
    if format is not Format.TABLE:
        show([row for group in groups for row in actions.member_rows(group)], [*DESCRIBED, "partitions"], format)
        return
    for position, group in enumerate(groups):
        facts = {"state": group.state, "type": group.type, "assignor": group.assignor, "coordinator": group.coordinator}
        print(
            ("\n" if position else "")
            + f"{group.name}  "
            + "  ".join(f"{name}={value}" for name, value in facts.items() if value)
        )
        if group.members:
            show(actions.member_rows(group), [*DESCRIBED[5:], "partitions"], format)
        else:
            print("no members")


@app.command("lag", epilog="Example: penstock group lag billing --watch --every 5")
def lag(
    connection: Connection,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...",
            help="Group names; all groups by default.",
            show_default=False,
            autocompletion=complete_group,
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Only this topic. Repeatable.", autocompletion=complete_topic),
    ] = None,
    totals: Annotated[bool, typer.Option("--totals", help="Show one row per group instead of per partition.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Interval of --watch.")] = 2.0,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show the lag of groups: committed offset, end offset and owner of each partition."""
    admin = open_admin(connection)
    previous: dict[str, float] = {}

    def print_lag() -> None:
        if names:
            groups = actions.describe_existing_groups(admin, names)
        else:
            groups = actions.describe_groups(admin, [group.group for group in actions.list_groups(admin)])
        rows = [row for group in groups for row in actions.measure_lag(admin, group, topic or [])]
        if totals:
            show([actions.group_total_row(group, rows) for group in groups], TOTALS, format)
        else:
            show(rows, LAG, format)
        if format is Format.TABLE:
            print(_total_line(actions.total_lag(rows), previous))
        sys.stdout.flush()

    _repeat(print_lag, every=every if watch else None)


@app.command("reset", epilog="Example: penstock group reset billing --topic orders:0,2 --to-datetime 1h --execute")
def reset(
    connection: Connection,
    name: Annotated[
        str, typer.Argument(metavar="GROUP", help="Group name.", show_default=False, autocompletion=complete_group)
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:0,1]",
            autocompletion=complete_topic,
            help="Only this topic, or these partitions of it. Repeatable.",
            show_default="all with committed offsets",
        ),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Reset to the start of the log.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Reset to the end of the log.")] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, metavar="N", help="Reset to this offset.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="TIME",
            help="Reset to a time (2026-01-31T12:00:00Z) or a duration before now (5m).",
        ),
    ] = None,
    to_timestamp: Annotated[
        int | None, typer.Option("--to-timestamp", min=0, metavar="MS", help="Reset to a Unix time in milliseconds.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Move N offsets forward; --shift-by=-10 moves back.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute/--dry-run", help="Commit the new offsets, or only show the plan.")
    ] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Reset the offsets of a group without active members. Shows the plan unless --execute is given."""
    target = parse_target(
        to_earliest=to_earliest, to_latest=to_latest, to_offset=to_offset, to_datetime=to_datetime,
        to_timestamp=to_timestamp, shift_by=shift_by, now_ms=int(time.time() * 1000),
    )  # fmt: skip
    wanted = parse_topic_partitions(topic or [])
    admin = open_admin(connection)
    (group,) = actions.describe_groups(admin, [name])
    if execute and group.members:
        raise CommandError(actions.describe_active_members(group))
    moves = [plan_reset(state, target) for state in actions.partition_states(admin, name, wanted, target)]
    if execute:
        actions.commit_reset(admin, name, moves)
    show([{"group": name, **move._asdict(), "lag": move.latest - move.new} for move in moves], PLAN, format)
    if not execute:
        print("Dry run: no offset was changed. Pass --execute to commit the plan.", file=sys.stderr)
        if group.members:
            print(actions.describe_active_members(group), file=sys.stderr)


@app.command("delete", epilog="Example: penstock group delete billing")
def delete(connection: Connection, names: Names, yes: YesOption = False) -> None:
    """Delete groups without members, and their committed offsets. This cannot be undone."""
    admin = open_admin(connection)
    confirm(f"Delete {counted(names, 'group')} with all committed offsets?", yes=yes)
    actions.delete_groups(admin, names, done=lambda name: print(f"deleted {name}"))


def parse_target(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    to_timestamp: int | None,
    shift_by: int | None,
    now_ms: int,
) -> Target:
    """Return the target of a reset; exactly one option must be given."""
    targets: list[Target] = []
    if to_earliest:
        targets.append(Earliest())
    if to_latest:
        targets.append(Latest())
    if to_offset is not None:
        targets.append(AtOffset(to_offset))
    if to_timestamp is not None:
        targets.append(AtTime(to_timestamp))
    if shift_by is not None:
        targets.append(ShiftBy(shift_by))
    if to_datetime is not None:
        targets.append(parse_time(to_datetime, now_ms=now_ms))
    if len(targets) != 1:
        raise CommandError(
            "Pass exactly one of --to-earliest, --to-latest, --to-offset N, --to-datetime TIME, --to-timestamp MS or "
            "--shift-by N."
        )
    return targets[0]


def _total_line(lag: int, previous: dict[str, float]) -> str:
    """Return the total and, from the second time on, its rate of change."""
    now = time.monotonic()
    rate = ""
    if "at" in previous and now > previous["at"]:
        rate = f"  ({(lag - previous['lag']) / (now - previous['at']):+.1f}/s)"
    previous.update(at=now, lag=lag)
    return f"total lag {lag}{rate}"


def _repeat(print_once: Callable[[], None], *, every: float | None) -> None:
    """Print once, or at an interval until Ctrl-C, clearing the terminal before each time."""
    if every is None:
        print_once()
        return
    try:
        while True:
            if sys.stdout.isatty():
                print("\x1b[H\x1b[2J", end="")
            print_once()
            time.sleep(every)
    except KeyboardInterrupt:
        # The only way to end --watch, so not an error.
        pass
