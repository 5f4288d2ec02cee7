"""States of a record in a share group, types of acknowledgements, and ranges of offsets as they are written.

docs/internals/share-groups.md has the table of transitions. Pure values.
"""

from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

UNINITIALIZED: Final = -1
"""A start offset that the leader of the partition has yet to choose; also a count that is not known."""


class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """The record is finished once its dead-letter record is written (KIP-1191)."""
    ARCHIVED = 4


FINAL_STATES: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class AcknowledgeType(IntEnum):
    GAP = 0
    """There is no record at the offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """Restart the lock (KIP-1222)."""


class SharePartitionKey(NamedTuple):
    group: str
    topic_id: UUID
    partition: int


class StateRange(NamedTuple):
    """Offsets with the same state, as the share coordinator stores them."""

    first: int
    last: int
    state: int
    delivery_count: int


class AcknowledgementBatch(NamedTuple):
    first: int
    last: int
    types: tuple[int, ...]
    """One for every offset, or a single one for all of them."""


class AcquiredRange(NamedTuple):
    first: int
    last: int
    delivery_count: int


class LogBatch(NamedTuple):
    """A record batch in the log."""

    first: int
    last: int
    is_readable: bool = True
    """False for a control batch, and for a batch of an aborted transaction."""
