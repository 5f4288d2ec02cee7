"""Changes of consumer groups: reset their offsets, delete them."""

import re
from typing import Any

from penstock.actions import groups as actions
from penstock.actions.offset_reset import (
    OffsetReset,
    PartitionState,
    ShiftBy,
    Target,
    parse_topic_partitions,
    plan_reset,
)
from penstock.actions.plurals import count_of
from penstock.actions.positions import AtOffset, AtTime, Earliest, Last, Latest, parse_position
from penstock_console.errors import bad_request
from penstock_console.jobs import Job
from penstock_console.lookup import find_group
from penstock_console.plans import Change, Context, Outcome, Plan

COLUMNS = ["topic", "partition", "current", "new", "lag", "note"]


def parse_target(text: str, now_ms: int) -> Target:
    """Parse earliest, latest, an offset, a time, an age, or a shift (+10, -10)."""
    if re.fullmatch(r"[+-]\d{1,18}", text):
        return ShiftBy(int(text))
    position = parse_position(text, now_ms=now_ms)
    if isinstance(position, Last):
        raise bad_request(f"Invalid argument 'to': '{text}'.")
    return position


def plan_reset_offsets(context: Context) -> Plan:
    access, arguments = context.access, context.arguments
    name, to = arguments.text("group"), str(arguments.value("to") or "")
    wanted = parse_topic_partitions(arguments.texts("topics"))
    target = parse_target(to, context.now_ms)
    (group,) = actions.describe_groups(access.admin, [name])
    states = actions.partition_states(access.admin, name, wanted, target)
    moves = [_move(context, state, target) for state in states]
    rows = [{**move._asdict(), "lag": move.latest - move.new} for move in moves]

    def execute(job: Job) -> Outcome:
        actions.commit_reset(access.admin, name, moves)
        return Outcome(f"Reset the offsets of {count_of(len(moves), 'partition')} of group {name}.")

    command = ["penstock", "group", "reset", name]
    for topic in arguments.texts("topics"):
        command += ["--topic", topic]
    return Plan(
        title=f"Reset offsets of group {name}",
        command=[*command, *_option(target), "--execute"],
        columns=COLUMNS,
        rows=[{column: row[column] for column in COLUMNS} for row in rows],
        volatile=["lag"],
        execute=execute,
        blocked=actions.describe_active_members(group) if group.members else None,
        warnings=[] if group.exists else [f"Group '{name}' does not exist yet: this creates it."],
    )


def _move(context: Context, state: PartitionState, target: Target) -> OffsetReset:
    """Return the new offset of a partition: the one that was shown first, even if the log has grown since."""
    shown: dict[tuple[str, int], int] = context.memory.setdefault("new", {})
    place = (state.topic, state.partition)
    if place in shown:
        return plan_reset(state, AtOffset(shown[place]))._replace(note=context.memory["notes"][place])
    move = plan_reset(state, target)
    shown[place] = move.new
    context.memory.setdefault("notes", {})[place] = move.note
    return move


def _option(target: Target) -> list[str]:
    match target:
        case Earliest():
            return ["--to-earliest"]
        case Latest():
            return ["--to-latest"]
        case AtOffset(offset):
            return ["--to-offset", str(offset)]
        case AtTime(timestamp_ms):
            return ["--to-timestamp", str(timestamp_ms)]
        case ShiftBy(distance):
            return [f"--shift-by={distance}"]


def plan_delete(context: Context) -> Plan:
    access, name = context.access, context.arguments.text("group")
    group = find_group(access, name)
    rows: list[dict[str, Any]] = [
        {"topic": topic, "partition": index, "committed": offset}
        for (topic, index), offset in sorted(group.committed.items())
    ]

    def execute(job: Job) -> Outcome:
        actions.delete_groups(access.admin, [name], done=lambda _: None)
        return Outcome(f"Deleted group {name}.")

    return Plan(
        title=f"Delete group {name} with its committed offsets",
        command=["penstock", "group", "delete", name, "--yes"],
        columns=["topic", "partition", "committed"],
        rows=rows,
        execute=execute,
        blocked=f"Group '{name}' has {len(group.members)} active members. Stop them first." if group.members else None,
        danger=True,
    )


CHANGES = (
    Change(
        action="group.reset",
        doc="Reset the offsets of a group.",
        arguments=("group", "topics", "to"),
        plan=plan_reset_offsets,
    ),
    Change(action="group.delete", doc="Delete a group.", arguments=("group",), plan=plan_delete),
)
