"""The records of share groups in `__consumer_offsets`: types 10 to 15.

Only values and their schemas; ../records.py encodes them. Every value has one version, 0, in the flexible encoding.
"""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from penstock.groups.fields import INT8, INT32, INT64, NULLABLE_STRING, STRING, UUID_, Field, Schema, array


class ShareGroupMemberMetadataKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadataValue:
    rack_id: str | None = None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()


class ShareGroupMetadataKey(NamedTuple):
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadataValue:
    epoch: int
    metadata_hash: int


class ShareGroupTargetAssignmentMetadataKey(NamedTuple):
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: int
    assignment_timestamp: int = 0


class ShareGroupTargetAssignmentMemberKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    topic_id: UUID
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TopicPartitions, ...]


class ShareGroupCurrentMemberAssignmentKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: tuple[TopicPartitions, ...] = ()


class ShareGroupStatePartitionMetadataKey(NamedTuple):
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopicPartitions:
    topic_id: UUID
    topic_name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopic:
    topic_id: UUID
    topic_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: tuple[NamedTopicPartitions, ...] = ()
    initialized_topics: tuple[NamedTopicPartitions, ...] = ()
    deleting_topics: tuple[NamedTopic, ...] = ()


_PARTITIONS = Schema(TopicPartitions, Field("topic_id", UUID_), Field("partitions", array(INT32)))
_NAMED_PARTITIONS = Schema(
    NamedTopicPartitions, Field("topic_id", UUID_), Field("topic_name", STRING), Field("partitions", array(INT32))
)
_NAMED_TOPIC = Schema(NamedTopic, Field("topic_id", UUID_), Field("topic_name", STRING))
_GROUP_FIELD = Field("group_id", STRING)
_MEMBER_FIELD = Field("member_id", STRING)

TYPES: tuple[tuple[int, Schema, Schema], ...] = (
    (
        10,
        Schema(ShareGroupMemberMetadataKey, _GROUP_FIELD, _MEMBER_FIELD, flexible_from=1),
        Schema(
            ShareGroupMemberMetadataValue,
            Field("rack_id", NULLABLE_STRING),
            Field("client_id", STRING),
            Field("client_host", STRING),
            Field("subscribed_topic_names", array(STRING)),
        ),
    ),
    (
        11,
        Schema(ShareGroupMetadataKey, _GROUP_FIELD, flexible_from=1),
        Schema(ShareGroupMetadataValue, Field("epoch", INT32), Field("metadata_hash", INT64)),
    ),
    (
        12,
        Schema(ShareGroupTargetAssignmentMetadataKey, _GROUP_FIELD, flexible_from=1),
        Schema(
            ShareGroupTargetAssignmentMetadataValue,
            Field("assignment_epoch", INT32),
            Field("assignment_timestamp", INT64, tag=0, default=0),
        ),
    ),
    (
        13,
        Schema(ShareGroupTargetAssignmentMemberKey, _GROUP_FIELD, _MEMBER_FIELD, flexible_from=1),
        Schema(ShareGroupTargetAssignmentMemberValue, Field("topic_partitions", array(_PARTITIONS.type()))),
    ),
    (
        14,
        Schema(ShareGroupCurrentMemberAssignmentKey, _GROUP_FIELD, _MEMBER_FIELD, flexible_from=1),
        Schema(
            ShareGroupCurrentMemberAssignmentValue,
            Field("member_epoch", INT32),
            Field("previous_member_epoch", INT32),
            Field("state", INT8),
            Field("assigned_partitions", array(_PARTITIONS.type())),
        ),
    ),
    (
        15,
        Schema(ShareGroupStatePartitionMetadataKey, _GROUP_FIELD, flexible_from=1),
        Schema(
            ShareGroupStatePartitionMetadataValue,
            Field("initializing_topics", array(_NAMED_PARTITIONS.type())),
            Field("initialized_topics", array(_NAMED_PARTITIONS.type())),
            Field("deleting_topics", array(_NAMED_TOPIC.type())),
        ),
    ),
)
"""The number of each record type, and the schemas of its key and its value."""

KEYS: tuple[type, ...] = (
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupStatePartitionMetadataKey,
)
