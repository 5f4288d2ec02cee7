"""The states of a transactional id, and from where each may be reached. Only a table.

docs/internals/transactions.md says what each state answers.
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
    """As clients see it."""
    meaning: str
    predecessors: frozenset[State]
    may_expire: bool = False
    is_written: bool = True


_AT_REST = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

STATES: Mapping[State, Row] = {
    State.EMPTY: Row("Empty", "A producer has its id and epoch and has begun nothing.", _AT_REST, may_expire=True),
    State.ONGOING: Row(
        "Ongoing", "Its partitions may hold records of a transaction that is not decided.", _AT_REST | {State.ONGOING}
    ),
    State.PREPARE_COMMIT: Row(
        "PrepareCommit", "It is decided: every partition will get a commit marker.", frozenset({State.ONGOING})
    ),
    State.PREPARE_ABORT: Row(
        "PrepareAbort",
        # A version 2 client that does not know whether it has begun may abort what is not there.
        "It is decided: every partition will get an abort marker.",
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
    State.DEAD: Row("Dead", "The id has expired; the log holds its tombstone.", _AT_REST, is_written=False),
    State.PREPARE_EPOCH_FENCE: Row(
        "PrepareEpochFence",
        "The coordinator is about to abort with a raised epoch; the PrepareAbort is written at once.",
        frozenset({State.ONGOING}),
        is_written=False,
    ),
}

BY_NAME: Mapping[str, State] = {row.name: state for state, row in STATES.items()}
ENDING = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""Decided, and not yet told to every partition."""


def is_legal(before: State | None, after: State) -> bool:
    """Whether an id may go from one state to the other; None is an id that nothing is known of."""
    if before is None:
        return after is State.EMPTY
    return before in STATES[after].predecessors
