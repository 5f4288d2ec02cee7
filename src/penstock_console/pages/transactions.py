"""Transactions: those of coordinators, and those that no coordinator will end."""

import time
from typing import Any, Final

from penstock.actions.errors import ActionError
from penstock.actions.transactions import describe_transaction, find_hanging_transactions
from penstock.sqlview.producers import transactions as read_transactions
from penstock_console.clusters import ClusterAccess
from penstock_console.endpoints import Call, Endpoint
from penstock_console.pages.topics import SEARCH
from penstock_console.parameters import Parameter

IDLE_MS: Final = 20 * 60_000
TOPICS_MAX: Final = 500
_COLUMNS: Final = ("id", "coordinator", "state", "producer_id", "epoch", "timeout_ms", "started_ms", "partitions")


def show_transactions(call: Call) -> dict[str, Any]:
    wanted, state = call["search"].lower(), call["state"].lower()
    with call.access.open() as cluster:
        rows = [dict(zip(_COLUMNS, row, strict=True)) for row in read_transactions(cluster)]
    for row in rows:
        row["partitions"] = row["partitions"].split(",") if row["partitions"] else []
    hanging, problem = find_hanging(call.access)
    return {
        "transactions": [
            row for row in rows if wanted in row["id"].lower() and (not state or row["state"].lower() == state)
        ],
        "hanging": hanging,
        "hanging_problem": problem,
    }


def find_hanging(access: ClusterAccess) -> tuple[list[dict[str, Any]] | None, str | None]:
    """Return hanging transactions; or None, and why they cannot be found."""
    topics = [name for name, topic in access.metadata().topics.items() if not topic.offline]
    if len(topics) > TOPICS_MAX:
        return None, f"The cluster has more than {TOPICS_MAX} topics. Run 'penstock txn find-hanging --topic NAME'."
    try:
        with access.open() as cluster:
            before = int(time.time() * 1000) - IDLE_MS
            found = find_hanging_transactions(cluster, topics=topics, written_before_ms=before) if topics else []
    except ActionError as error:
        return None, str(error)
    names = ("topic", "partition", "producer_id", "epoch", "start_offset", "last_timestamp_ms")
    return [{name: getattr(each, name) for name in names} for each in found], None


def show_transaction(call: Call) -> dict[str, Any]:
    with call.access.open() as cluster:
        found = describe_transaction(cluster, call["id"])
    return {
        "id": found.transactional_id,
        "coordinator": found.coordinator,
        "state": found.state,
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "timeout_ms": found.timeout_ms,
        "started_ms": found.start_ms if found.start_ms >= 0 else None,
        "partitions": found.partitions,
    }


ENDPOINTS = (
    Endpoint(
        path="transactions",
        doc="Transactional ids, and hanging transactions.",
        read=show_transactions,
        parameters=(SEARCH, Parameter(name="state", default="", doc="Only ids in this state, for example Ongoing.")),
        is_slow=True,
    ),
    Endpoint(path="transactions/{id}", doc="One transactional id.", read=show_transaction),
)
