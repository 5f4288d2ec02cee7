"""What clients did and saw. Checkers read nothing else of a client.

Every operation ends `ok`, `fail` (it was certainly not done) or `info` (nobody knows); `info` is
never taken for `fail`. Times are the loop's own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

OK, FAIL, INFO = "ok", "fail", "info"
ENDLESS = float("inf")
KEY_SIZE = 4
"""So many bytes of a value are its key. A tombstone is told as its key alone."""


class Place(NamedTuple):
    """A partition of one life of a topic: the same name made anew is another place."""

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True)
class Send:
    """One batch of values that a producer sent to a partition, through all its attempts."""

    client: str
    place: Place
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
    """That of the leader who was asked last, as far as the client knew."""


@dataclass(slots=True)
class Poll:
    """One answer to a fetch."""

    client: str
    place: Place
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
    """One transaction: `outcome` is that of its commit or abort."""

    client: str
    transactional_id: str
    producer_id: int
    epoch: int
    began: float
    sends: list[Send] = field(default_factory=list)
    offsets: dict[Place, int] = field(default_factory=dict)
    group: str = ""
    wants_commit: bool = True
    end_began: float = ENDLESS
    ended: float = ENDLESS
    outcome: str = INFO

    @property
    def committed(self) -> bool | None:
        """Whether it is in, if anybody knows."""
        if self.outcome == OK:
            return self.wants_commit
        if self.outcome == FAIL or self.end_began == ENDLESS or not self.wants_commit:
            return False
        return None


@dataclass(slots=True)
class Init:
    """An InitProducerId that was answered."""

    client: str
    transactional_id: str
    producer_id: int
    epoch: int
    began: float
    ended: float


@dataclass(slots=True)
class Commit:
    """Offsets that a member of a group committed for one partition."""

    client: str
    group: str
    generation: int
    place: Place
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
    place: Place
    offset: int
    began: float
    ended: float


@dataclass(slots=True)
class Assigned:
    """A member was told what it owns in a generation."""

    client: str
    group: str
    generation: int
    members: tuple[str, ...]
    partitions: tuple[Place, ...]
    began: float
    ended: float


@dataclass(slots=True)
class Listed:
    """An answer to ListOffsets: the earliest (-2) or latest (-1) offset."""

    client: str
    place: Place
    timestamp: int
    committed_only: bool
    offset: int
    began: float
    ended: float
    leader_epoch: int = -1


@dataclass(slots=True)
class Trimmed:
    """Records below an offset were asked to be deleted."""

    client: str
    place: Place
    offset: int
    outcome: str = INFO


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
    """A whole partition as a fresh reader sees it after everything has healed."""

    place: Place
    start: int
    end: int
    last_stable_offset: int
    batches: list[Batch]
    committed: dict[int, bytes]
    """What a reader of committed records is given."""
    code: int = 0
    """The error that ended the reading early, if one did."""

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
    views: list[View] = field(default_factory=list)
    deleted_topics: set[str] = field(default_factory=set)
    """Ids of topics that somebody asked to delete, done or not."""
    tables: dict[str, float] = field(default_factory=dict)
    """Names of compacted topics, and for how many seconds they keep a tombstone at least."""

    def view_of(self, place: Place) -> View | None:
        return next((view for view in self.views if view.place == place), None)
