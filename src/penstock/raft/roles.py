"""The six roles of a node, what each remembers, and which may follow which.

Unattached knows the epoch but no leader. Follower fetches from the leader. Prospective
asks whether it could win without disturbing anybody (KIP-996). Candidate has taken a
new epoch and asks for votes in it. Leader appends. Resigned led its epoch, perhaps
before a restart, and must not lead it again: records of it may be lost here. An observer, which
has no vote, is only ever Unattached or Follower.
"""

from dataclasses import dataclass, field
from uuid import UUID

from penstock.model.ids import NodeId, Offset
from penstock.raft.messages import EpochEnd, FetchRequest


@dataclass(slots=True, kw_only=True)
class Unattached:
    deadline: float


@dataclass(slots=True, kw_only=True)
class Follower:
    leader: NodeId
    deadline: float
    has_fetched: bool = False
    request_id: int | None = None
    """The fetch that waits for its answer; any other answer is late and ignored."""
    retry_at: float = 0.0
    leader_high_watermark: Offset = Offset(-1)
    loading_snapshot: EpochEnd | None = None


@dataclass(slots=True, kw_only=True)
class Prospective:
    deadline: float
    retry_at: float
    granted: set[NodeId] = field(default_factory=set)
    refused: set[NodeId] = field(default_factory=set)
    lacks_voters: bool = False
    """It cannot be won because processes are gone: worth another try soon."""


@dataclass(slots=True, kw_only=True)
class Candidate:
    deadline: float
    retry_at: float
    granted: set[NodeId] = field(default_factory=set)
    refused: set[NodeId] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class FollowerProgress:
    """How far another node has come, as its fetches tell."""

    end: Offset
    """Everything below is durable there."""
    heard_at: float
    caught_up_at: float | None = None
    """When it last had all that there was."""
    disk: UUID | None = None
    doubted_until: float = 0.0
    """While it may still be its former self, before it lost its disk, that is heard: what it says does not count."""


@dataclass(slots=True, kw_only=True)
class Leader:
    epoch_start: Offset
    """Where this epoch's first record is; nothing is committed before a majority holds that one."""
    begin_at: float
    progress: dict[NodeId, FollowerProgress] = field(default_factory=dict)
    """Of every other voter and of whoever else fetches."""
    parked: dict[NodeId, tuple[FetchRequest, float]] = field(default_factory=dict)
    """Fetches that wait for news, and until when."""


@dataclass(slots=True, kw_only=True)
class Resigned:
    deadline: float


Role = Unattached | Follower | Prospective | Candidate | Leader | Resigned

WITHIN_AN_EPOCH: dict[type[Role], frozenset[type[Role]]] = {
    Unattached: frozenset({Follower, Prospective}),
    Follower: frozenset({Prospective, Unattached}),
    Prospective: frozenset({Follower, Unattached}),
    Candidate: frozenset({Leader, Follower, Prospective}),
    Leader: frozenset({Resigned}),
    Resigned: frozenset({Prospective, Unattached}),
}
TO_A_LATER_EPOCH: dict[type[Role], frozenset[type[Role]]] = {
    role: frozenset({Unattached, Follower, Candidate} if role is Prospective else {Unattached, Follower})
    for role in WITHIN_AN_EPOCH
}
