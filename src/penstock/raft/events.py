"""The events that the core handles, and the effects that it returns.

The driver's duties, in this order, before it submits the next event:
1. make `persist` durable; 2. truncate; 3. write the batches to `append`, in order;
4. send the messages, adding batches from its log to those with `read_from`;
5. apply what is below `high_watermark`; 6. submit `TimePassed` at `deadline`;
7. fetch `Core.loading_snapshot` from the leader while there is one.
If 1, 2 or 3 fails, the driver stops the node: the core assumes that they have happened.
"""

from dataclasses import dataclass
from typing import Any

from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.raft.messages import Batch, EpochEnd, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """The persisted state of a node: the epoch, its vote in the epoch, and the epoch's leader.

    `blank` is a voter that started with an empty disk and may have forgotten votes and records (see `voting.py`).
    """

    epoch: LeaderEpoch
    leader: NodeId | None = None
    voted: NodeId | None = None
    blank: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """The node has started with its persisted state."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A deadline may have passed."""


@dataclass(frozen=True, slots=True)
class Received:
    source: NodeId
    message: Message


@dataclass(frozen=True, slots=True)
class Appended:
    """The driver of the leader has appended a batch in the leader's epoch."""

    last_offset: Offset


@dataclass(frozen=True, slots=True)
class Synced:
    """The log is now durable up to this offset."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class Resign:
    """A request to step down so that another node can lead, for example before a shutdown."""


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The process of another node has exited: its machine refuses connections. Never sent for a silent node."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """A fetch will not be answered, because its connection broke: retry it before its timeout."""

    request_id: int


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """The status of the snapshot that a follower is fetching: the leader is sending it, or no longer has it."""

    snapshot: EpochEnd
    is_available: bool


@dataclass(frozen=True, slots=True)
class Heard:
    """A request of another node that the core does not handle, but that shows that the node is alive."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class ChangeVoters:
    """An addition or removal of a voter, only for a leader for which `Core.may_change_voters` is true."""

    voters: frozenset[NodeId]
    payload: Any
    record_count: int = 1


@dataclass(frozen=True, slots=True)
class LogStartMoved:
    """The log before a snapshot of this node has been deleted."""

    snapshot: EpochEnd


@dataclass(frozen=True, slots=True)
class SnapshotLoaded:
    """The leader's snapshot is durable on this node, and the log is empty and begins at its end.

    The driver replaces the log only while `Core.loading_snapshot` is the same snapshot: another leader
    may have sent records that the snapshot lacks, and counted them.
    """

    snapshot: EpochEnd
    voters: frozenset[NodeId] | None = None
    """The voters in the snapshot, if it contains them."""


Event = (
    Started
    | TimePassed
    | Received
    | Appended
    | Synced
    | Resign
    | PeerLost
    | FetchFailed
    | SnapshotStatus
    | Heard
    | ChangeVoters
    | LogStartMoved
    | SnapshotLoaded
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A message to send; with `read_from`, add whole batches of the log from that offset on."""

    to: NodeId
    message: Message
    read_from: Offset | None = None


@dataclass(slots=True, kw_only=True)
class Effects:
    persist: ElectionState | None = None
    truncate_to: Offset | None = None
    append: tuple[Batch, ...] = ()
    send: tuple[Send, ...] = ()
    high_watermark: Offset | None = None
    deadline: float | None = None
