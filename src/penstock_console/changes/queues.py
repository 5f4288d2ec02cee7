"""Changes of share groups: finish all their records."""

from penstock.actions.plurals import count_of
from penstock.actions.queues import describe_queues, log_ends, purge, queue_partitions
from penstock_console.jobs import Job
from penstock_console.plans import Change, Context, Outcome, Plan


def plan_purge(context: Context) -> Plan:
    access, name = context.access, context.arguments.text("group")
    topics = context.arguments.texts("topics")
    with access.open() as cluster:
        (queue,) = describe_queues(cluster, [name])
        partitions = [each for each in queue_partitions(cluster, queue) if not topics or each.topic in topics]
        # Fixed when the plan is shown, so that no later record is finished.
        ends = context.memory.setdefault("ends", log_ends(cluster, partitions))
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "before": each.start_offset,
            "after": ends.get((each.topic, each.partition)),
            "lag": each.lag,
        }
        for each in partitions
    ]

    def execute(job: Job) -> Outcome:
        with access.open() as cluster:
            moved = purge(cluster, queue, topics, ends)
        return Outcome(f"Moved share group {name} to the end of {count_of(len(moved), 'partition')}.")

    command = ["penstock", "queue", "purge", name]
    for topic in topics:
        command += ["--topic", topic]
    return Plan(
        title=f"Finish all records of share group {name}",
        command=[*command, "--yes"],
        columns=["topic", "partition", "before", "after", "lag"],
        rows=rows,
        volatile=["lag"],
        execute=execute,
        warnings=["The records stay in their topics, but the group does not deliver them."],
        blocked=(
            f"Share group '{name}' has {count_of(len(queue.members), 'member')}. Stop all members first."
            if queue.members
            else None
            if rows
            else "The group has no partitions of these topics."
        ),
        danger=True,
    )


CHANGES = (
    Change(
        action="queue.purge", doc="Finish all records of a share group.", arguments=("group", "topics"), plan=plan_purge
    ),
)
