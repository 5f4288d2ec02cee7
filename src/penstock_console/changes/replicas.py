"""Moving replicas and leaders."""

from collections.abc import Sequence
from typing import Any

from penstock.actions.cluster.reassignment import (
    elect_preferred_leaders,
    plan_drain,
    plan_even_spread,
    plan_topic,
    start_reassignment,
)
from penstock.actions.plurals import count_of
from penstock_console.errors import bad_request
from penstock_console.jobs import Job
from penstock_console.plans import Change, Context, Outcome, Plan

COLUMNS = ["topic", "partition", "before", "after"]


def plan_move(context: Context) -> Plan:
    access, arguments = context.access, context.arguments
    topic, partition = arguments.text("topic"), arguments.optional_integer("partition", most=2**31 - 1)
    to = arguments.items("to")
    if not to or not all(isinstance(node, int) and not isinstance(node, bool) for node in to):
        raise bad_request("Invalid argument 'to': expected a list of node ids.")
    moves = plan_topic(access.connection, topic, partition, tuple(to))
    one = ["--partition", str(partition)] if partition is not None else []
    command = ["penstock", "cluster", "move", topic, *one, "--to", ",".join(map(str, to)), "--no-wait"]
    return _plan(context, f"Move replicas of topic {topic}", command, moves)


def plan_drain_node(context: Context) -> Plan:
    node = context.arguments.integer("node", most=2**31 - 1)
    moves = plan_drain(context.access.connection, [node])
    command = ["penstock", "cluster", "drain", str(node), "--no-wait", "--yes"]
    return _plan(context, f"Move all replicas off node {node}", command, moves)


def plan_spread(context: Context) -> Plan:
    moves = plan_even_spread(context.access.connection)
    command = ["penstock", "cluster", "rebalance", "--replicas", "--no-wait", "--yes"]
    return _plan(context, "Spread replicas evenly over the nodes", command, moves)


def _plan(context: Context, title: str, command: Sequence[str], moves: Sequence[Any]) -> Plan:
    access = context.access

    def execute(job: Job) -> Outcome:
        start_reassignment(access.connection, moves)
        return Outcome(f"Started to move the replicas of {count_of(len(moves), 'partition')}.")

    rows: list[dict[str, Any]] = [
        {
            "topic": move.topic,
            "partition": move.partition,
            "before": ", ".join(map(str, move.before)),
            "after": ", ".join(map(str, move.after)),
        }
        for move in moves
    ]
    blocked = None if moves else "There is nothing to move."
    return Plan(title=title, command=command, columns=COLUMNS, rows=rows, execute=execute, blocked=blocked)


def plan_elect(context: Context) -> Plan:
    access = context.access
    rows = [
        {"topic": topic.name, "partition": each.number, "before": each.leader, "after": each.replicas[0]}
        for topic in access.metadata().topics.values()
        for each in topic.partitions
        if each.replicas and each.leader != each.replicas[0] and each.replicas[0] in each.isr
    ]

    def execute(job: Job) -> Outcome:
        changed = elect_preferred_leaders(access.connection)
        return Outcome(f"Elected the preferred leader of {count_of(changed, 'partition')}.")

    return Plan(
        title="Elect the preferred leaders",
        command=["penstock", "cluster", "rebalance"],
        columns=COLUMNS,
        rows=rows,
        execute=execute,
        blocked=None if rows else "Every partition has its preferred leader, or that one is not in sync.",
    )


CHANGES = (
    Change(
        action="replicas.move",
        doc="Move replicas of a topic to other nodes.",
        arguments=("topic", "partition", "to"),
        plan=plan_move,
    ),
    Change(action="replicas.drain", doc="Move all replicas off a node.", arguments=("node",), plan=plan_drain_node),
    Change(action="replicas.spread", doc="Spread replicas evenly.", arguments=(), plan=plan_spread),
    Change(action="leaders.elect", doc="Elect the preferred leaders.", arguments=(), plan=plan_elect),
)
