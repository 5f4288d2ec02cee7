"""What happens to the core, and what it wants done.

The driver's duties, in this order, before it hands over the next event:
1. make `persist` durable; 2. truncate; 3. write the batches to `append`, in order;
4. send the messages, adding batches from its log to those with `read_from`;
5. apply what is below `high_watermark`; 6. hand over `TimePassed` at `deadline`;
7. fetch `Core.loading_snapshot` from the leader while there is one.
If 1, 2 or 3 fails the driver stops the node: the core believes they have happened.
"""

from dataclasses import dataclass
from typing import Any

from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.raft.messages import Batch, EpochEnd, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """What a node must never forget: the epoch, whom it voted for in it, and who leads it.

    `blank` is a voter that began with nothing and does not know what it may have forgotten (see `voting.py`).
    """

    epoch: LeaderEpoch
    leader: NodeId | None = None
    voted: NodeId | None = None
    blank: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """The node is up, with what it had persisted."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A deadline may have been reached."""


@dataclass(frozen=True, slots=True)
class Received:
    source: NodeId
    message: Message


@dataclass(frozen=True, slots=True)
class Appended:
    """The leader's driver has written a batch at the log's end, in the leader's epoch."""

    last_offset: Offset


@dataclass(frozen=True, slots=True)
class Synced:
    """The log as it is now is durable up to this offset."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class Resign:
    """Step down so that another may lead, for example before a shutdown."""


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The process of another node is gone: its machine says that nobody listens there. Never said of a silent one."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A fetch will not be answered: the connection broke. Try again without waiting for the time to be over."""

    request_id: int


@dataclass(frozen=True, slots=True)
class SnapshotNews:
    """Of the snapshot that a follower is loading: the leader sends it, or has it no longer."""

    snapshot: EpochEnd
    there: bool


@dataclass(frozen=True, slots=True)
class Heard:
    """Another node asked this one for something that is not the core's business: it lives."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class ChangeVoters:
    """Take a voter in or out. Handed to a leader for which `Core.may_change_voters` is true."""

    voters: frozenset[NodeId]
    payload: Any
    record_count: int = 1


@dataclass(frozen=True, slots=True)
class LogStartMoved:
    """The log before a snapshot of this node has been dropped."""

    snapshot: EpochEnd


@dataclass(frozen=True, slots=True)
class SnapshotLoaded:
    """The leader's snapshot is durable here, and the log is empty from its end on.

    The driver replaces the log only while `Core.loading_snapshot` is that very snapshot: another
    leader may have brought, and counted, records that the snapshot lacks.
    """

    snapshot: EpochEnd
    voters: frozenset[NodeId] | None = None
    """Whom the snapshot names as voters, if it does."""


Event = (
    Started
    | TimePassed
    | Received
    | Appended
    | Synced
    | Resign
    | PeerLost
    | Unanswered
    | SnapshotNews
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
