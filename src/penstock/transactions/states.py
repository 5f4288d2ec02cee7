"""The states of a transactional id and their valid predecessors, as a table.

docs/internals/transactions.md describes the responses in each state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class State(IntEnum):
    """The number is the one in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    """As shown to clients."""
    meaning: str
    predecessors: frozenset[State]
    may_expire: bool = False
    is_written: bool = True


_AT_REST = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

STATES: Mapping[State, Row] = {
    State.EMPTY: Row("Empty", "The producer has an id and an epoch but no transaction.", _AT_REST, may_expire=True),
    State.ONGOING: Row(
        "Ongoing", "Its partitions may contain records of an undecided transaction.", _AT_REST | {State.ONGOING}
    ),
    State.PREPARE_COMMIT: Row(
        "PrepareCommit", "The transaction is decided: every partition gets a commit marker.", frozenset({State.ONGOING})
    ),
    State.PREPARE_ABORT: Row(
        "PrepareAbort",
        # A version 2 client that does not know whether it has begun a transaction may abort without one.
        "The transaction is decided: every partition gets an abort marker.",
        _AT_REST | {State.ONGOING, State.PREPARE_EPOCH_FENCE},
    ),
    State.COMPLETE_COMMIT: Row(
        "CompleteCommit",
        "Every partition has its commit marker.",
        frozenset({State.PREPARE_COMMIT}),
        may_expire=True,
    ),
    State.COMPLETE_ABORT: Row(
        "CompleteAbort",
        "Every partition has its abort marker.",
        frozenset({State.PREPARE_ABORT}),
        may_expire=True,
    ),
    State.DEAD: Row("Dead", "The id has expired; its tombstone is in the log.", _AT_REST, is_written=False),
    State.PREPARE_EPOCH_FENCE: Row(
        "PrepareEpochFence",
        "The coordinator is about to abort with a raised epoch and writes PrepareAbort immediately.",
        frozenset({State.ONGOING}),
        is_written=False,
    ),
}

BY_NAME: Mapping[str, State] = {row.name: state for state, row in STATES.items()}
ENDING = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""Decided, but not every partition has its marker yet."""


def is_legal(before: State | None, after: State) -> bool:
    """Return whether an id may move from one state to the other; None is an unknown id."""
    if before is None:
        return after is State.EMPTY
    return before in STATES[after].predecessors
