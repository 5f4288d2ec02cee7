"""What voters say to each other, as values. The driver turns them into KRaft's requests and back.

A request and its answer are two messages; each carries its sender's epoch, and answers
name the leader if the sender knows one. Nothing here decides.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from uuid import UUID

from penstock.model.ids import LeaderEpoch, NodeId, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """Where an epoch ends in a log; also names a snapshot by its end offset and last epoch."""

    epoch: LeaderEpoch
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records that stay together: their offsets and epoch are the core's, the payload is the driver's."""

    base_offset: Offset
    last_offset: Offset
    epoch: LeaderEpoch
    payload: Any = None
    voters: frozenset[NodeId] | None = None
    """The new set of voters, if that is what the batch brings."""


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
    """The sender led the epoch and steps down; the first successor holds most of its log."""

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
    """The id of the folder that the sender's log is in: another one means that the log was lost."""


class FetchError(Enum):
    NONE = auto()
    NOT_LEADER = auto()
    FENCED_LEADER_EPOCH = auto()
    UNKNOWN_LEADER_EPOCH = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """Batches from the fetch offset on; or where the logs part; or a snapshot to load first."""

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
