"""Commands to share groups, their replies and actions, and the groups' settings, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from penstock.groups.consumer.assignors import NOTHING, Assignment
from penstock.groups.consumer.commands import DescribedPartitions
from penstock.groups.turn import TimerKey
from penstock.model.errors import NO_ERROR

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1

SHARE_TYPE: Final = "Share"
SHARE_PROTOCOL_TYPE: Final = "share"

SHARE_SESSION: Final = "share-session"
"""A member has not sent a heartbeat within its session timeout."""
SHARE_INITIALIZE: Final = "share-initialize"
"""State that was to be initialized may still not be."""
SHARE_TIMERS: Final = frozenset({SHARE_SESSION, SHARE_INITIALIZE})

INITIALIZE_RETRY_MS: Final = 30_000

STATE_EXISTS: Final = 10_000
"""Not a code of Kafka: the group cannot be deleted before its state is. Never sent to a client."""


def session_timer(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(SHARE_SESSION, group_id, member_id)


def initialize_timer(group_id: str) -> TimerKey:
    return TimerKey(SHARE_INITIALIZE, group_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupSettings:
    """The settings of one group: its own where set, the broker's otherwise."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    size_max: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeat:
    """A heartbeat of a member; a null field has not changed since the last one."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatReply:
    error: int = NO_ERROR
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    """None if it has not changed."""
    is_initializing: bool = False
    """State of subscribed partitions is being initialized: the next heartbeat may return more partitions."""


@dataclass(frozen=True, slots=True)
class ShareGroupDescribe:
    """A request for descriptions, answered with a tuple of DescribedShareGroup, one for each group."""

    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareMember:
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: tuple[DescribedPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareGroup:
    error: int = NO_ERROR
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedShareMember, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareStateInitialized:
    """The state of partitions is initialized, as an `InitializeShareState` has requested."""

    group_id: str
    partitions: Assignment


@dataclass(frozen=True, slots=True)
class AlterShareOffsets:
    """Prepare new start offsets for an empty group, which is created if necessary; answered with ShareStateReply."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ShareOffsetsAltered:
    """Partitions have new start offsets, and state if they had none."""

    group_id: str
    partitions: Assignment


@dataclass(frozen=True, slots=True)
class DeleteShareOffsets:
    """Begin to delete the state of topics, or of all if there are none named; answered with ShareStateReply."""

    group_id: str
    topic_ids: frozenset[UUID] | None


@dataclass(frozen=True, slots=True)
class ShareOffsetsDeleted:
    """The state of topics is deleted."""

    group_id: str
    topic_ids: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class ReadSharePartitions:
    """A request for the partitions that have state; answered with ShareStateReply."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateReply:
    error: int = NO_ERROR
    error_message: str | None = None
    state_epoch: int = 0
    partitions: Assignment = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class InitializeShareState:
    """The action that initializes the state of partitions; its success returns as ShareStateInitialized."""

    group_id: str
    state_epoch: int
    partitions: Mapping[UUID, frozenset[int]]
    added: Mapping[UUID, frozenset[int]] = field(default_factory=dict)
    """Those of `partitions` that were added to a topic that the group already reads: they start at offset 0."""
