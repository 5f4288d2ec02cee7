"""The records of KIP-848 groups in `__consumer_offsets`: types 3 to 8 and 16.

Only values and their schemas; ../records.py encodes them. Every value has one
version, 0, in the flexible encoding; later additions are tagged fields.
"""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from penstock.groups.fields import (
    BYTES,
    INT8,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UUID_,
    Field,
    Schema,
    array,
)


class ConsumerGroupMetadataKey(NamedTuple):
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    epoch: int
    metadata_hash: int = 0
    """Hash of the subscribed topics, so that changes are also detected after a restart (KIP-1101)."""


class ConsumerGroupPartitionMetadataKey(NamedTuple):
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRacks:
    partition: int
    racks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    topic_id: UUID
    topic_name: str
    num_partitions: int
    partition_metadata: tuple[PartitionRacks, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    """A record of releases from before the metadata hash; read, and then removed with a tombstone."""

    topics: tuple[TopicMetadata, ...]


class ConsumerGroupMemberMetadataKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """The fields of the JoinGroup with which a classic member joined."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = None


class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int
    assignment_timestamp: int = 0


class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPartitions:
    topic_id: UUID
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TargetPartitions, ...]


class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPartitions:
    topic_id: UUID
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = ()
    """The epoch in which each partition was assigned, in the order of the partitions (KIP-1251)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: tuple[AssignedPartitions, ...] = ()
    partitions_pending_revocation: tuple[AssignedPartitions, ...] = ()


class ConsumerGroupRegularExpressionKey(NamedTuple):
    group_id: str
    regular_expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    """The topics that the expression matched, and the metadata version of the match."""

    topics: tuple[str, ...]
    version: int
    timestamp: int


_RACKS = Schema(PartitionRacks, Field("partition", INT32), Field("racks", array(STRING)))
_TOPIC = Schema(
    TopicMetadata,
    Field("topic_id", UUID_),
    Field("topic_name", STRING),
    Field("num_partitions", INT32),
    Field("partition_metadata", array(_RACKS.type())),
)
_PROTOCOL = Schema(ClassicProtocol, Field("name", STRING), Field("metadata", BYTES))
_CLASSIC_MEMBER = Schema(
    ClassicMemberMetadata,
    Field("session_timeout_ms", INT32),
    Field("supported_protocols", array(_PROTOCOL.type())),
)
_TARGET = Schema(TargetPartitions, Field("topic_id", UUID_), Field("partitions", array(INT32)))
_ASSIGNED = Schema(
    AssignedPartitions,
    Field("topic_id", UUID_),
    Field("partitions", array(INT32)),
    Field("assignment_epochs", array(INT32, nullable=True), tag=0, default=()),
)
_GROUP_FIELD = Field("group_id", STRING)
_MEMBER_FIELD = Field("member_id", STRING)

TYPES: tuple[tuple[int, Schema, Schema], ...] = (
    (
        3,
        Schema(ConsumerGroupMetadataKey, _GROUP_FIELD, flexible_from=1),
        Schema(ConsumerGroupMetadataValue, Field("epoch", INT32), Field("metadata_hash", INT64, tag=0, default=0)),
    ),
    (
        4,
        Schema(ConsumerGroupPartitionMetadataKey, _GROUP_FIELD, flexible_from=1),
        Schema(ConsumerGroupPartitionMetadataValue, Field("topics", array(_TOPIC.type()))),
    ),
    (
        5,
        Schema(ConsumerGroupMemberMetadataKey, _GROUP_FIELD, _MEMBER_FIELD, flexible_from=1),
        Schema(
            ConsumerGroupMemberMetadataValue,
            Field("instance_id", NULLABLE_STRING),
            Field("rack_id", NULLABLE_STRING),
            Field("client_id", STRING),
            Field("client_host", STRING),
            Field("subscribed_topic_names", array(STRING)),
            Field("subscribed_topic_regex", NULLABLE_STRING),
            Field("rebalance_timeout_ms", INT32),
            Field("server_assignor", NULLABLE_STRING),
            Field("classic_member_metadata", _CLASSIC_MEMBER.nullable_type(), tag=0, default=None),
        ),
    ),
    (
        6,
        Schema(ConsumerGroupTargetAssignmentMetadataKey, _GROUP_FIELD, flexible_from=1),
        Schema(
            ConsumerGroupTargetAssignmentMetadataValue,
            Field("assignment_epoch", INT32),
            Field("assignment_timestamp", INT64, tag=0, default=0),
        ),
    ),
    (
        7,
        Schema(ConsumerGroupTargetAssignmentMemberKey, _GROUP_FIELD, _MEMBER_FIELD, flexible_from=1),
        Schema(ConsumerGroupTargetAssignmentMemberValue, Field("topic_partitions", array(_TARGET.type()))),
    ),
    (
        8,
        Schema(ConsumerGroupCurrentMemberAssignmentKey, _GROUP_FIELD, _MEMBER_FIELD, flexible_from=1),
        Schema(
            ConsumerGroupCurrentMemberAssignmentValue,
            Field("member_epoch", INT32),
            Field("previous_member_epoch", INT32),
            Field("state", INT8),
            Field("assigned_partitions", array(_ASSIGNED.type())),
            Field("partitions_pending_revocation", array(_ASSIGNED.type())),
        ),
    ),
    (
        16,
        Schema(
            ConsumerGroupRegularExpressionKey,
            _GROUP_FIELD,
            Field("regular_expression", STRING),
            flexible_from=1,
        ),
        Schema(
            ConsumerGroupRegularExpressionValue,
            Field("topics", array(STRING)),
            Field("version", INT64),
            Field("timestamp", INT64),
        ),
    ),
)
"""The number of each record type, and the schemas of its key and its value."""
