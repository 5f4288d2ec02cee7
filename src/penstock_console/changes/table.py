"""The table of all changes, by action."""

from typing import Final

from penstock_console.changes import (
    access,
    dead_letters,
    groups,
    queues,
    records,
    replicas,
    settings,
    topics,
    transactions,
)
from penstock_console.plans import Change

CHANGES: Final[dict[str, Change]] = {
    change.action: change
    for module in (topics, settings, records, groups, dead_letters, queues, transactions, access, replicas)
    for change in module.CHANGES
}
