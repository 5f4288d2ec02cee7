"""Commands to a shard of `__consumer_offsets` and their replies, as plain values.

Every command has its own reply type. `error` is a wire code, 0 for none. The other fields of a
reply with an error have the values that Kafka sends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from penstock.coordinator.decision import InTransaction
from penstock.groups.records import OffsetCommitValue
from penstock.model.errors import NO_ERROR
from penstock.wire.fields import ZERO_UUID

NO_MEMBER_ID = ""
NO_GENERATION = -1
Protocols = tuple[tuple[str, bytes], ...]
"""Names and subscription bytes, in the member's order of preference."""
Describable = Callable[[frozenset[str]], frozenset[str]]
"""Returns those of the given topics that the member's principal may describe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    group_id: str
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    """-1 in version 0, which lacks the field: the session timeout is used instead."""
    protocol_type: str
    protocols: Protocols
    fresh_id: UUID
    """Random; part of the member id if the coordinator generates one."""
    must_know_member_id: bool = True
    """From version 4 on a new member receives its id first and then joins with it (KIP-394)."""
    can_skip_assignment: bool = True
    """From version 9 on a returning static leader may be asked to keep the assignment (KIP-814)."""
    describable: Describable | None = None
    """None if the member's principal may describe every topic. Only consumer groups look at names of topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    error: int = NO_ERROR
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error: int = NO_ERROR
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    error: int = NO_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveReply:
    """A reply to LeaveGroup; `errors` has one code per member. Before version 3 the only member's is the reply's."""

    error: int = NO_ERROR
    errors: tuple[int, ...] = ()


class OffsetToCommit(NamedTuple):
    """A tuple, as are the commit and its reply, because a broker handles tens of thousands of them per second."""

    topic: str
    partition: int
    offset: int
    topic_id: UUID = ZERO_UUID
    leader_epoch: int = -1
    metadata: str | None = ""


class OffsetCommit(NamedTuple):
    group_id: str
    offsets: Sequence[OffsetToCommit]
    generation: int = NO_GENERATION
    """Or the member epoch. Negative if the committer is not a member of the group."""
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    retention_ms: int = -1
    knows_member_epochs: bool = True
    """From version 9 on. Earlier versions receive ILLEGAL_GENERATION instead of GROUP_ID_NOT_FOUND."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommit:
    """A commit in a transaction, answered with an OffsetCommitReply. Before version 3 it does not name the member."""

    group_id: str
    transaction: InTransaction
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    offsets: tuple[OffsetToCommit, ...]


class OffsetCommitReply(NamedTuple):
    """One code for each offset of the request."""

    errors: tuple[int, ...]


COMMITTED = OffsetCommitReply((NO_ERROR,))
"""The reply to every successful commit of a single offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    group_id: str
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None = None
    """None for every offset of the group."""
    require_stable: bool = False
    """Return UNSTABLE_OFFSET_COMMIT for offsets that an open transaction may replace (KIP-447)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchReply:
    error: int = NO_ERROR
    topics: tuple[tuple[str, tuple[tuple[int, OffsetCommitValue | None], ...]], ...] = ()
    """The committed value of each partition, by topic; None if there is none."""
    unstable: frozenset[tuple[str, int]] = frozenset()
    """The topics and partitions that are answered with UNSTABLE_OFFSET_COMMIT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDelete:
    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteReply:
    """A reply to OffsetDelete; `errors` has one code per topic, which applies to all its partitions."""

    error: int = NO_ERROR
    errors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    """Lists groups in one of these states and of one of these types, in lower case; an empty set means all."""

    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class DescribeGroups:
    group_ids: tuple[str, ...]


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group in a DescribeGroups reply. Before version 6 it has no error field: the state Dead stands for it."""

    error: int = NO_ERROR
    error_message: str | None = None
    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """A request to delete groups, answered with a tuple of codes, one for each group."""

    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForgetTopics:
    """The names and ids of deleted topics. Answered with the number of offsets deleted with them."""

    topics: tuple[tuple[str, UUID], ...]
