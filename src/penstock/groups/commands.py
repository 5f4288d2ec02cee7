"""What a shard of groups is asked, and what it answers. Only values.

Every command has a reply of its own. An `error` is a wire code, 0 for none; what a reply
holds beside an error is what Kafka puts there.
"""

from collections.abc import Sequence
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
"""Names and subscription bytes, the one that the member likes best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    group_id: str
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    """-1 in version 0, which has none: the session timeout counts."""
    protocol_type: str
    protocols: Protocols
    fresh_id: UUID
    """Random; becomes part of the member id if one is given."""
    must_know_member_id: bool = True
    """From version 4 on a new member is given its id first and joins with it (KIP-394)."""
    can_skip_assignment: bool = True
    """From version 9 on a static leader that comes back may be told to keep the assignment (KIP-814)."""


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
    """`errors` has one code for each member of the request. Before version 3 the only one is the reply's."""

    error: int = NO_ERROR
    errors: tuple[int, ...] = ()


class OffsetToCommit(NamedTuple):
    """A tuple, as are the commit and its reply: there are tens of thousands of them in a second."""

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
    """Or the member epoch. Negative in a commit from outside of the group protocol."""
    member_id: str = NO_MEMBER_ID
    instance_id: str | None = None
    retention_ms: int = -1
    knows_member_epochs: bool = True
    """From version 9 on, and GROUP_ID_NOT_FOUND with them; earlier ones are told ILLEGAL_GENERATION."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommit:
    """Answered with an OffsetCommitReply. Before version 3 nothing is said about the member."""

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
"""What a commit of one offset is answered with if nothing is wrong: always this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    group_id: str
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None = None
    """None asks for every offset of the group."""
    require_stable: bool = False
    """Refuse what an open transaction may be about to replace (KIP-447)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchReply:
    error: int = NO_ERROR
    topics: tuple[tuple[str, tuple[tuple[int, OffsetCommitValue | None], ...]], ...] = ()
    """By topic, each partition and what was committed for it; None if nothing was."""
    unstable: frozenset[tuple[str, int]] = frozenset()
    """The topics and partitions that are refused with UNSTABLE_OFFSET_COMMIT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDelete:
    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteReply:
    """`errors` has one code for each topic of the request; it goes for all partitions of the topic."""

    error: int = NO_ERROR
    errors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """Before version 6 the error is left out: the state Dead says it."""

    error: int = NO_ERROR
    error_message: str | None = None
    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """Answered with a tuple of codes, one for each group."""

    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForgetTopics:
    """Topics were deleted: their names and ids. Answered with the number of offsets that went with them."""

    topics: tuple[tuple[str, UUID], ...]
