"""The messages between voters, as values. The driver converts them to and from KRaft's requests.

A request and its response are two messages. Each contains its sender's epoch; responses
name the leader if the sender knows one. Decides nothing.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from uuid import UUID

from penstock.model.ids import LeaderEpoch, NodeId, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The end of an epoch in a log; also identifies a snapshot by its end offset and last epoch."""

    epoch: LeaderEpoch
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records that stay together: the core uses their offsets and epoch, the driver the payload."""

    base_offset: Offset
    last_offset: Offset
    epoch: LeaderEpoch
    payload: Any = None
    voters: frozenset[NodeId] | None = None
    """The new set of voters, if the batch contains one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """The payload of the first batch of every epoch."""

    leader: NodeId
    voters: tuple[NodeId, ...]
    granting_voters: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    epoch: LeaderEpoch
    last_epoch: LeaderEpoch
    end_offset: Offset
    pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    epoch: LeaderEpoch
    leader: NodeId | None
    granted: bool
    pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest:
    """The sender leads the epoch."""

    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse:
    epoch: LeaderEpoch
    leader: NodeId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest:
    """The sender led the epoch and steps down; the first successor has most of its log."""

    epoch: LeaderEpoch
    preferred_successors: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """Everything below the fetch offset is durable at the sender, and ends with the last fetched epoch."""

    epoch: LeaderEpoch
    request_id: int
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    high_watermark: Offset
    disk: UUID | None = None
    """The id of the folder with the sender's log: a different one means that the log was lost."""


class FetchError(Enum):
    NONE = auto()
    NOT_LEADER = auto()
    FENCED_LEADER_EPOCH = auto()
    UNKNOWN_LEADER_EPOCH = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """Batches from the fetch offset on; or the point where the logs diverge; or a snapshot to load first."""

    epoch: LeaderEpoch
    leader: NodeId | None
    request_id: int
    error: FetchError = FetchError.NONE
    high_watermark: Offset
    diverging: EpochEnd | None = None
    snapshot: EpochEnd | None = None
    batches: tuple[Batch, ...] = ()


Message = (
    VoteRequest
    | VoteResponse
    | BeginQuorumEpochRequest
    | BeginQuorumEpochResponse
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchResponse
)
