"""Changes of topics: create, delete, add partitions, delete records."""

from typing import Any, Final

from penstock.actions import topics as actions
from penstock.actions.errors import ActionError
from penstock.actions.plurals import count_of
from penstock.actions.positions import parse_position
from penstock_console.errors import api_error, bad_request
from penstock_console.jobs import Job
from penstock_console.lookup import find_topic, measure
from penstock_console.plans import Change, Context, Outcome, Plan

BROKER_DEFAULT: Final = -1
BAD_REQUEST: Final = 400
PARTITIONS_MAX: Final = 100_000
REPLICAS_MAX: Final = 32_767


def plan_create(context: Context) -> Plan:
    access, arguments = context.access, context.arguments
    name = arguments.text("topic")
    partitions = arguments.optional_integer("partitions", least=1, most=PARTITIONS_MAX)
    factor = arguments.optional_integer("replication_factor", least=1, most=REPLICAS_MAX)
    settings = texts(arguments.mapping("settings"))
    command = ["penstock", "topic", "create", name]
    command += ["--partitions", str(partitions)] if partitions is not None else []
    command += ["--replication-factor", str(factor)] if factor is not None else []
    for pair in sorted(settings.items()):
        command += ["--config", "=".join(pair)]

    def create(*, validate_only: bool) -> None:
        actions.create_topics(
            access.admin,
            [name],
            partitions=BROKER_DEFAULT if partitions is None else partitions,
            replication_factor=BROKER_DEFAULT if factor is None else factor,
            config=settings,
            created=lambda _: None,
            validate_only=validate_only,
        )

    def execute(job: Job) -> Outcome:
        create(validate_only=False)
        return Outcome(f"Created topic {name}.")

    blocked = None
    try:
        create(validate_only=True)
    except ActionError as error:
        problem = api_error(error)
        if problem is None or problem.status != BAD_REQUEST:
            raise
        blocked = " ".join(filter(None, (str(error), problem.hint)))

    default = "the broker's default"
    row = {"topic": name, "partitions": partitions or default, "replication_factor": factor or default, **settings}
    return Plan(
        title=f"Create topic {name}",
        command=command,
        columns=list(row),
        rows=[row],
        execute=execute,
        blocked=blocked,
    )


def texts(mapping: dict[str, Any]) -> dict[str, str]:
    if not all(name and isinstance(value, str) for name, value in mapping.items()):
        raise bad_request("Settings are an object of names and text values.")
    return mapping


def plan_delete(context: Context) -> Plan:
    access, name = context.access, context.arguments.text("topic")
    topic = find_topic(access, name)
    offsets, _ = measure(access, [name])
    rows = []
    for each in topic.partitions:
        earliest, latest = offsets.get((name, each.number), (None, None))
        rows.append({"topic": name, "partition": each.number, "earliest": earliest, "latest": latest})
    readers = [group.group for group in access.groups().values() if name in group.topics]

    def execute(job: Job) -> Outcome:
        actions.delete_topics(access.admin, [name], deleted=lambda _: None)
        return Outcome(f"Deleted topic {name}.")

    return Plan(
        title=f"Delete topic {name} with all its records",
        command=["penstock", "topic", "delete", name, "--yes"],
        columns=["topic", "partition", "earliest", "latest"],
        rows=rows,
        # Everything is deleted, however much was written meanwhile; but not another topic of the same name.
        state=topic.topic_id,
        volatile=["earliest", "latest"],
        execute=execute,
        warnings=[f"Groups that read it: {', '.join(sorted(readers))}."] if readers else [],
        danger=True,
    )


def plan_add_partitions(context: Context) -> Plan:
    access, arguments = context.access, context.arguments
    name, total = arguments.text("topic"), arguments.integer("partitions", least=1, most=PARTITIONS_MAX)
    before = len(find_topic(access, name).partitions)
    present = count_of(before, "partition")

    def execute(job: Job) -> Outcome:
        actions.add_partitions(access.admin, name, total)
        return Outcome(f"Topic {name} has {count_of(total, 'partition')}.")

    return Plan(
        title=f"Add partitions to topic {name}",
        command=["penstock", "topic", "add-partitions", name, "--partitions", str(total)],
        columns=["topic", "before", "after"],
        rows=[{"topic": name, "before": before, "after": total}],
        execute=execute,
        warnings=["Records with the same key may go to another partition from now on."],
        blocked=None if total > before else f"Topic '{name}' has {present}. Give a higher number.",
    )


def plan_delete_records(context: Context) -> Plan:
    access, arguments = context.access, context.arguments
    name, partition = arguments.text("topic"), arguments.optional_integer("partition", most=2**31 - 1)
    text = str(arguments.value("before") or "")
    position = parse_position(text, now_ms=context.now_ms)
    find_topic(access, name)
    found = actions.plan_record_deletion(access.admin, name, None if partition is None else [partition], position)
    # The ends are fixed when the plan is shown, so that no later record is deleted.
    shown: dict[int, int] = context.memory.setdefault("ends", {move.partition: move.after for move in found})
    moves = [move._replace(after=shown[move.partition]) for move in found if move.partition in shown]

    def execute(job: Job) -> Outcome:
        actions.delete_records(access.admin, {(name, move.partition): move.after for move in moves})
        return Outcome(f"Deleted the records of {name} before these offsets.")

    command = ["penstock", "topic", "delete-records", name, "--before", text, "--yes"]
    return Plan(
        title=f"Delete records of topic {name}",
        command=[*command, *(["--partition", str(partition)] if partition is not None else [])],
        columns=["topic", "partition", "before", "after"],
        rows=[move._asdict() for move in moves],
        execute=execute,
        blocked=None if moves else "There is no record before this position.",
        danger=True,
    )


CHANGES = (
    Change(
        action="topic.create",
        doc="Create a topic.",
        arguments=("topic", "partitions", "replication_factor", "settings"),
        plan=plan_create,
    ),
    Change(action="topic.delete", doc="Delete a topic.", arguments=("topic",), plan=plan_delete),
    Change(
        action="topic.add-partitions",
        doc="Add partitions to a topic.",
        arguments=("topic", "partitions"),
        plan=plan_add_partitions,
    ),
    Change(
        action="topic.delete-records",
        doc="Delete the oldest records of a topic.",
        arguments=("topic", "partition", "before"),
        plan=plan_delete_records,
    ),
)
