"""The six roles of a node, their state, and the transitions between them.

Unattached: knows the epoch but no leader. Follower: fetches from the leader. Prospective:
asks for pre-votes, which disturb no leader (KIP-996). Candidate: has taken a
new epoch and asks for votes in it. Leader: appends. Resigned: led its epoch, perhaps
before a restart, and must not lead it again, because it may have lost records of it. An observer, which
has no vote, is always Unattached or Follower.
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
    """The fetch in flight; a response to any other is late and ignored."""
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
    """Cannot be won because voters have exited: worth another try soon."""


@dataclass(slots=True, kw_only=True)
class Candidate:
    deadline: float
    retry_at: float
    granted: set[NodeId] = field(default_factory=set)
    refused: set[NodeId] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class FollowerProgress:
    """The progress of another node, according to its fetches."""

    end: Offset
    """The node holds everything below this offset durably."""
    heard_at: float
    caught_up_at: float | None = None
    """When it last had the whole log."""
    disk: UUID | None = None
    untrusted_until: float = 0.0
    """Ignore its fetch offsets until then, as its fetches may be from before it lost its disk."""


@dataclass(slots=True, kw_only=True)
class Leader:
    epoch_start: Offset
    """The offset of this epoch's first record; nothing is committed before a majority holds it."""
    begin_at: float
    progress: dict[NodeId, FollowerProgress] = field(default_factory=dict)
    """The progress of every other voter and of all observers that fetch."""
    parked: dict[NodeId, tuple[FetchRequest, float]] = field(default_factory=dict)
    """Fetches that wait for new data, with their deadlines."""


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
