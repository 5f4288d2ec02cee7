"""Kafka's records in `__consumer_offsets`: typed keys and values, and their encoding.

A key is the record type (16 bits, big-endian) and its fields in the plain encoding; a value
is its version and its fields. A null value is a tombstone. Records are written as by Kafka 4.3;
older versions can be read. The types of KIP-848 are in consumer/records.py,
those of KIP-932 in share/records.py.
Refuses malformed bytes: Corruption. Skips unknown record types, which newer releases may write.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from penstock.groups import hot_offsets
from penstock.groups.consumer import records as modern
from penstock.groups.fields import BYTES, INT32, INT64, NULLABLE_STRING, STRING, UUID_, Field, Schema, array
from penstock.groups.record_types import (
    NO_TIMESTAMP,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.groups.share import records as share
from penstock.model.errors import Corruption
from penstock.wire.fields import ZERO_UUID, Reader

__all__ = [
    "NO_TIMESTAMP",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "GroupRecord",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "decode",
    "encode",
]

_INT16 = Struct(">h")

_MEMBER = Schema(
    MemberMetadata,
    Field("member_id", STRING),
    Field("group_instance_id", NULLABLE_STRING, since=3),
    Field("client_id", STRING),
    Field("client_host", STRING),
    Field("rebalance_timeout", INT32, since=1),
    Field("session_timeout", INT32),
    Field("subscription", BYTES),
    Field("assignment", BYTES),
    latest=4,
    flexible_from=4,
)
_OFFSET_COMMIT_VALUE = Schema(
    OffsetCommitValue,
    Field("offset", INT64),
    Field("leader_epoch", INT32, since=3),
    Field("metadata", STRING),
    Field("commit_timestamp", INT64),
    Field("expire_timestamp", INT64, since=1, until=1),
    Field("topic_id", UUID_, since=4, tag=0, default=ZERO_UUID),
    latest=4,
    flexible_from=4,
)
_GROUP_METADATA_VALUE = Schema(
    GroupMetadataValue,
    Field("protocol_type", STRING),
    Field("generation", INT32),
    Field("protocol", NULLABLE_STRING),
    Field("leader", NULLABLE_STRING),
    Field("current_state_timestamp", INT64, since=2),
    Field("members", array(_MEMBER.type())),
    latest=4,
    flexible_from=4,
)
# Only version 1 has an expire timestamp; all other commits are written with their topic id.
_EXPIRING_VERSION = 1


def _offset_commit_version(value: OffsetCommitValue) -> int:
    return 4 if value.expire_timestamp == NO_TIMESTAMP else _EXPIRING_VERSION


def _key(make: Callable[..., Any], *fields: Field) -> Schema:
    return Schema(make, *fields, flexible_from=1)


_OFFSET_COMMIT_KEY = _key(OffsetCommitKey, Field("group", STRING), Field("topic", STRING), Field("partition", INT32))


class _RecordType(NamedTuple):
    key: Schema
    value: Schema
    version: Callable[[Any], int]
    """Returns the version in which a value is written."""


_TYPES: dict[int, _RecordType] = {
    1: _RecordType(_OFFSET_COMMIT_KEY, _OFFSET_COMMIT_VALUE, _offset_commit_version),
    2: _RecordType(_key(GroupMetadataKey, Field("group", STRING)), _GROUP_METADATA_VALUE, lambda value: 3),
} | {number: _RecordType(key, value, lambda value: 0) for number, key, value in (*modern.TYPES, *share.TYPES)}
_NUMBERS = {record_type.key.make: number for number, record_type in _TYPES.items()}
# Type 0 is the same key, written before version 1 introduced the retention.
_TYPES[0] = _TYPES[1]


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return the record's key and value bytes."""
    key, value = record
    if type(key) is OffsetCommitKey and value is not None:
        written = hot_offsets.encode_value(value)
        if written is not None:
            return hot_offsets.encode_key(key), written
    return encode_by_schema(record)


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Decode a record from its key and value bytes; return None if its type is unknown."""
    if value is not None:
        found = hot_offsets.decode(key, value)
        if found is not None:
            return GroupRecord(*found)
    return decode_by_schema(key, value)


def encode_by_schema(record: GroupRecord) -> tuple[bytes, bytes | None]:
    number = _NUMBERS[type(record.key)]
    record_type = _TYPES[number]
    key = bytearray(_INT16.pack(number))
    record_type.key.write(key, record.key, 0)
    if record.value is None:
        return bytes(key), None
    version = record_type.version(record.value)
    value = bytearray(_INT16.pack(version))
    record_type.value.write(value, record.value, version)
    return bytes(key), bytes(value)


def decode_by_schema(key: bytes, value: bytes | None) -> GroupRecord | None:
    reader = Reader(key)
    number = reader.unpack(_INT16)[0]
    record_type = _TYPES.get(number)
    if record_type is None:
        return None
    decoded_key = record_type.key.read(reader, 0)
    _check_all_read(reader, "key", number)
    if value is None:
        return GroupRecord(decoded_key, None)
    reader = Reader(value)
    version = reader.unpack(_INT16)[0]
    if not 0 <= version <= record_type.value.latest:
        raise Corruption(f"version {version} of group record type {number} is not supported by this release")
    decoded_value = record_type.value.read(reader, version)
    _check_all_read(reader, "value", number)
    return GroupRecord(decoded_key, decoded_value)


def _check_all_read(reader: Reader, part: str, number: int) -> None:
    if reader.position != len(reader.data):
        left = len(reader.data) - reader.position
        raise Corruption(f"the {part} of a group record of type {number} has {left} extra bytes")
