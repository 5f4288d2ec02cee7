"""Records of offsets and classic groups as values. records.py encodes them."""

from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from penstock.wire.fields import ZERO_UUID

NO_TIMESTAMP = -1


class OffsetCommitKey(NamedTuple):
    group: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    offset: int
    metadata: str
    commit_timestamp: int
    leader_epoch: int = -1
    expire_timestamp: int = NO_TIMESTAMP
    """Set by clients from before KIP-211, which sent a retention time with each commit."""
    topic_id: UUID = ZERO_UUID


class GroupMetadataKey(NamedTuple):
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout: int = -1
    """-1 in the oldest records: the session timeout is used instead."""
    session_timeout: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """A classic group after a rebalance: Stable, or Empty if it has no members."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int = NO_TIMESTAMP
    members: tuple[MemberMetadata, ...] = ()


class GroupRecord(NamedTuple):
    key: Any
    value: Any
    """None for a tombstone."""
