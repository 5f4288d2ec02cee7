"""Commands to consumer groups, their replies and the groups' settings, as plain values."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from penstock.groups.commands import Describable
from penstock.groups.consumer.assignors import Assignment
from penstock.groups.turn import TimerKey
from penstock.model.errors import NO_ERROR
from penstock.wire.fields import ZERO_UUID

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2

CONSUMER_TYPE: Final = "Consumer"

CONSUMER_SESSION: Final = "consumer-session"
"""A member has not sent a heartbeat within its session timeout."""
CONSUMER_REVOKE: Final = "consumer-revoke"
"""The time for a member to revoke partitions has elapsed."""
CONSUMER_JOIN: Final = "consumer-join"
"""The time for a classic member to rejoin has elapsed."""
CONSUMER_SYNC: Final = "consumer-sync"
"""The time for a classic member to fetch its assignment has elapsed."""
CONSUMER_REGEX: Final = "consumer-regex"
"""Match the group's regular expressions against the topics; set without delay, outside the heartbeat's path."""
CONSUMER_TIMERS: Final = frozenset({CONSUMER_SESSION, CONSUMER_REVOKE, CONSUMER_JOIN, CONSUMER_SYNC, CONSUMER_REGEX})


def session_timer(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(CONSUMER_SESSION, group_id, member_id)


def revoke_timer(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(CONSUMER_REVOKE, group_id, member_id)


def join_timer(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(CONSUMER_JOIN, group_id, member_id)


def sync_timer(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(CONSUMER_SYNC, group_id, member_id)


def regex_timer(group_id: str) -> TimerKey:
    return TimerKey(CONSUMER_REGEX, group_id)


class MigrationPolicy(Enum):
    """The directions in which groups may migrate online between the classic and the consumer protocol."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The settings of one group: its own where set, the broker's otherwise."""

    assignors: tuple[str, ...] = ("uniform", "range")
    """The first is the default. Names that the server does not know are skipped."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    """The minimum time between two target assignments (KIP-1263)."""
    size_max: int = 2**31 - 1
    regex_refresh_interval_ms: int = 600_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    classic_size_max: int = 1_000
    """group.max.size: a larger group is not converted to a classic one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeat:
    """A heartbeat of a member; a null field has not changed since the last one."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: Assignment | None = None
    """The partitions that the member owns now."""
    client_id: str = ""
    client_host: str = ""
    version: int = 1
    fresh_id: UUID = ZERO_UUID
    """Random; becomes the member id if the request has none (version 0)."""
    describable: Describable | None = None
    """None if the member's principal may describe every topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatReply:
    error: int = NO_ERROR
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    """None if it has not changed."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescribe:
    """A request for descriptions, answered with a tuple of DescribedConsumerGroup, one for each group."""

    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPartitions:
    topic_id: UUID
    topic_name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerMember:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str
    assignment: tuple[DescribedPartitions, ...]
    """Includes the partitions that the member has yet to revoke."""
    target_assignment: tuple[DescribedPartitions, ...]
    member_type: int
    """0 for a member of the classic protocol, 1 for the consumer protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    error: int = NO_ERROR
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: Iterable[DescribedConsumerMember] = ()
    """Described as they are iterated over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volatile:
    """State of a group that is not in the log. A restart loses it, which costs only a little extra work."""

    checked_topics_version: int = -1
    """The version of the topics that the metadata hash was last compared with."""
    checked_group_epoch: int = 0
    """The group epoch after that comparison. A smaller group epoch means that its records were lost: compare again."""
    rejoining: frozenset[str] = frozenset()
    """The classic members whose rejoin timer is running; it must not be restarted."""
    is_resolving: bool = False
    """Whether a match of the regular expressions is scheduled."""
    describable: Describable | None = None
    """The topics that they may match."""
    assigning_epoch: int | None = None
    """The group epoch for which a new target is being computed off the event loop or written."""


FRESH: Final = Volatile()
