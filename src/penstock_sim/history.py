"""The history of client operations. Checkers see nothing else of a client.

Every operation ends as `ok`, `fail` (certainly not done) or `info` (unknown); `info` is never treated as `fail`. Times
are those of the event loop.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

OK, FAIL, INFO = "ok", "fail", "info"
ENDLESS = float("inf")
KEY_SIZE = 4
"""The number of leading bytes of a value that are its key. A tombstone is recorded as its key alone."""


class PartitionId(NamedTuple):
    """A partition of one incarnation of a topic: a recreated topic of the same name has another topic id."""

    topic: str
    topic_id: str
    partition_index: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition_index}"


class LeaderChange(NamedTuple):
    """A decision of the controller. The name of the leader is that of no node if there is none."""

    at: float
    leader: str


@dataclass(slots=True)
class Send:
    """One batch that a producer sent to a partition, including all retries."""

    client: str
    partition: PartitionId
    values: tuple[bytes, ...]
    acks: int
    began: float
    idempotent: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    txn: "Txn | None" = None
    ended: float = ENDLESS
    outcome: str = INFO
    offset: int = -1
    code: int = 0
    attempts: int = 0
    leader_epoch: int = -1
    """The epoch of the last leader that the client sent it to, as far as the client knew."""


@dataclass(slots=True)
class Poll:
    """One fetch response."""

    client: str
    partition: PartitionId
    committed_only: bool
    position: int
    next_position: int
    records: tuple[tuple[int, bytes], ...]
    high_watermark: int
    last_stable_offset: int
    log_start: int
    began: float
    ended: float
    leader_epoch: int = -1


@dataclass(slots=True)
class Txn:
    """One transaction; `outcome` is that of its commit or abort."""

    client: str
    transactional_id: str
    producer_id: int
    epoch: int
    began: float
    sends: list[Send] = field(default_factory=list)
    offsets: dict[PartitionId, int] = field(default_factory=dict)
    group: str = ""
    wants_commit: bool = True
    end_began: float = ENDLESS
    ended: float = ENDLESS
    outcome: str = INFO

    @property
    def committed(self) -> bool | None:
        """Return whether it was committed; None if unknown."""
        if self.outcome == OK:
            return self.wants_commit
        if self.outcome == FAIL or self.end_began == ENDLESS or not self.wants_commit:
            return False
        return None


@dataclass(slots=True)
class Init:
    """An InitProducerId with a response."""

    client: str
    transactional_id: str
    producer_id: int
    epoch: int
    began: float
    ended: float


@dataclass(slots=True)
class Commit:
    """An offset that a group member committed for one partition."""

    client: str
    group: str
    generation: int
    partition: PartitionId
    offset: int
    began: float
    ended: float = ENDLESS
    outcome: str = INFO
    code: int = 0
    txn: Txn | None = None


@dataclass(slots=True)
class FetchedOffset:
    client: str
    group: str
    partition: PartitionId
    offset: int
    began: float
    ended: float


@dataclass(slots=True)
class Assigned:
    """The assignment of a member in a generation."""

    client: str
    group: str
    generation: int
    members: tuple[str, ...]
    partitions: tuple[PartitionId, ...]
    began: float
    ended: float


@dataclass(slots=True)
class Listed:
    """A ListOffsets response: the earliest (-2) or latest (-1) offset."""

    client: str
    partition: PartitionId
    timestamp: int
    committed_only: bool
    offset: int
    began: float
    ended: float
    leader_epoch: int = -1


@dataclass(slots=True)
class Trimmed:
    """A request to delete records below an offset."""

    client: str
    partition: PartitionId
    offset: int
    began: float
    outcome: str = INFO


@dataclass(slots=True)
class Delivered:
    """A record that a share group has delivered to a member."""

    client: str
    group: str
    partition: PartitionId
    offset: int
    count: int
    began: float
    ended: float
    broker: str = ""
    """The name of the node that delivered it."""


@dataclass(slots=True)
class Settled:
    """An acknowledgement of a member of a share group."""

    client: str
    group: str
    partition: PartitionId
    first: int
    last: int
    kind: int
    began: float
    count: int = 1
    """The delivery count of the records."""
    locked_at: float = 0.0
    """When the request was sent that acquired or renewed the lock."""
    is_valid: bool = True
    """False if it names records twice, so that it must be rejected."""
    ended: float = ENDLESS
    outcome: str = INFO
    code: int = 0


@dataclass(slots=True)
class Altered:
    """A change of a share group's offset to the start of a partition, after which a new member read everything."""

    partition: PartitionId
    began: float
    ended: float
    reader: str


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int
    is_transactional: bool
    marker: bool | None
    """True for a commit, False for an abort, None for records."""
    values: tuple[tuple[int, bytes], ...]


@dataclass(slots=True)
class View:
    """A whole partition as a new consumer sees it after everything has healed."""

    partition: PartitionId
    start: int
    end: int
    last_stable_offset: int
    batches: list[Batch]
    committed: dict[int, bytes]
    """The records that a read_committed consumer receives."""
    code: int = 0
    """The error that ended the read early, if any."""

    def records(self) -> Iterator[tuple[int, bytes]]:
        for batch in self.batches:
            yield from batch.values


@dataclass(slots=True)
class History:
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    txns: list[Txn] = field(default_factory=list)
    inits: list[Init] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    fetched_offsets: list[FetchedOffset] = field(default_factory=list)
    assigned: list[Assigned] = field(default_factory=list)
    listed: list[Listed] = field(default_factory=list)
    trimmed: list[Trimmed] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    fetches_in_doubt: Counter[PartitionId] = field(default_factory=Counter)
    """The number of share fetches without a response, by partition."""
    share_limit: int = 5
    """The delivery count limit of the share group."""
    share_lock_s: float = 1.5
    shares_are_committed: bool = False
    """Whether the share group reads only committed records."""
    shares_start_late: bool = False
    """Whether the share group starts at the ends of the logs, except of partitions that are added later."""
    grown: set[PartitionId] = field(default_factory=set)
    """Partitions that were added after the share group had read their topic."""
    altered: list[Altered] = field(default_factory=list)
    leader_changes: dict[str, list[LeaderChange]] = field(default_factory=dict)
    """By the name of the partition, in order of time."""
    shares_drained: bool = False
    """At the end, a member has accepted everything that the share group still delivered."""
    shares_may_repeat: bool = False
    """Committed data of unreplicated partitions was lost, which includes the state of share groups."""
    views: list[View] = field(default_factory=list)
    deleted_topics: set[str] = field(default_factory=set)
    """Ids of topics with a delete request, completed or not."""
    tables: dict[str, float] = field(default_factory=dict)
    """Compacted topics by name, with the minimum number of seconds that they keep a tombstone."""
