"""Aborting transactions."""

from penstock.actions.errors import ActionError
from penstock.actions.transactions import (
    ENDED_STATES,
    abort_hanging_transaction,
    abort_transaction,
    describe_transaction,
    open_transactions,
    partition_indexes,
)
from penstock_console.jobs import Job
from penstock_console.plans import Change, Context, Outcome, Plan


def plan_abort(context: Context) -> Plan:
    access, name = context.access, context.arguments.text("id")
    with access.open() as cluster:
        found = describe_transaction(cluster, name)
    row = {
        "id": name,
        "state": found.state,
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "partitions": ", ".join(found.partitions),
    }

    def execute(job: Job) -> Outcome:
        with access.open() as cluster:
            abort_transaction(cluster, name)
        return Outcome(f"Aborted the transaction of {name}.")

    is_ended = found.state in ENDED_STATES
    return Plan(
        title=f"Abort the transaction of {name}",
        command=["penstock", "txn", "abort", name, "--yes"],
        columns=list(row),
        rows=[row],
        state=found.start_ms,
        execute=execute,
        warnings=["The producer is fenced: it cannot write any more and must be started again."],
        blocked=f"'{name}' has no open transaction; its state is {found.state}." if is_ended else None,
        danger=True,
    )


def plan_abort_hanging(context: Context) -> Plan:
    access, arguments = context.access, context.arguments
    topic, partition = arguments.text("topic"), arguments.integer("partition", most=2**31 - 1)
    start = arguments.integer("start_offset")
    with access.open_for([topic]) as cluster:
        found = [
            each
            for each in open_transactions(cluster, topic, partition_indexes(cluster, topic, partition))
            if each.start_offset == start
        ]
    if not found:
        raise ActionError(
            f"No open transaction of {topic}-{partition} starts at offset {start}.", code="NO_SUCH_TRANSACTION"
        )

    def execute(job: Job) -> Outcome:
        with access.open() as cluster:
            aborted = abort_hanging_transaction(cluster, topic=topic, partition=partition, start_offset=start)
        return Outcome(f"Aborted the transaction of producer {aborted.producer_id} in {topic}-{partition}.")

    place = ["--topic", topic, "--partition", str(partition), "--start-offset", str(start)]
    return Plan(
        title=f"Abort the transaction at offset {start} of {topic}-{partition}",
        command=["penstock", "txn", "abort", *place, "--yes"],
        columns=["topic", "partition", "producer_id", "epoch", "start_offset"],
        rows=[
            {name: getattr(each, name) for name in ("topic", "partition", "producer_id", "epoch", "start_offset")}
            for each in found
        ],
        execute=execute,
        warnings=["Consumers with read_committed skip the records of the transaction."],
        danger=True,
    )


CHANGES = (
    Change(action="transaction.abort", doc="Abort an open transaction.", arguments=("id",), plan=plan_abort),
    Change(
        action="transaction.abort-hanging",
        doc="Abort a transaction that no coordinator will end.",
        arguments=("topic", "partition", "start_offset"),
        plan=plan_abort_hanging,
    ),
)
