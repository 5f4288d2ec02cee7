"""Hand-written encoding of offset commits, which are most of the records in `__consumer_offsets`.

Produces and reads the same bytes as the schemas in records.py, several times faster; a property test
compares the two. Returns None for anything unusual, which the schemas then handle.
"""

from functools import lru_cache
from struct import Struct
from uuid import UUID

from penstock.groups.record_types import NO_TIMESTAMP, OffsetCommitKey, OffsetCommitValue
from penstock.wire.fields import ZERO_UUID

KEYS_KEPT = 1 << 13
"""The size of the cache of keys: a consumer commits the same few partitions repeatedly."""

_KEY_TYPE = b"\x00\x01"
_VERSION = 4
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_HEAD = Struct(">hqi")
_INT64 = Struct(">q")
_NO_TAGS = b"\x00"
# One tagged field: its count, its tag, its size.
_TOPIC_ID = b"\x01\x00\x10"
_TOPIC_ID_SIZE = len(_TOPIC_ID) + 16
_ONE_BYTE_SIZE_MAX = 0x7E
"""The longest string whose size takes one byte, as sizes are varints of the size plus one."""


@lru_cache(KEYS_KEPT)
def encode_key(key: OffsetCommitKey) -> bytes:
    group, topic = key.group.encode(), key.topic.encode()
    return b"".join(
        (_KEY_TYPE, _INT16.pack(len(group)), group, _INT16.pack(len(topic)), topic, _INT32.pack(key.partition))
    )


def encode_value(value: OffsetCommitValue) -> bytes | None:
    metadata = value.metadata.encode()
    if len(metadata) > _ONE_BYTE_SIZE_MAX or value.expire_timestamp != NO_TIMESTAMP:
        return None
    return b"".join(
        (
            _HEAD.pack(_VERSION, value.offset, value.leader_epoch),
            bytes((len(metadata) + 1,)),
            metadata,
            _INT64.pack(value.commit_timestamp),
            _NO_TAGS if value.topic_id == ZERO_UUID else _TOPIC_ID + value.topic_id.bytes,
        )
    )


def decode(key: bytes, value: bytes) -> tuple[OffsetCommitKey, OffsetCommitValue] | None:
    if key[:2] != _KEY_TYPE or len(value) < _HEAD.size + 1:
        return None
    decoded_key = _decode_key(key)
    version, offset, leader_epoch = _HEAD.unpack_from(value)
    start = _HEAD.size + 1
    size = value[start - 1] - 1
    end = start + size
    if decoded_key is None or version != _VERSION or not 0 <= size <= _ONE_BYTE_SIZE_MAX:
        return None
    tags = value[end + 8 :]
    if tags == _NO_TAGS:
        topic_id = ZERO_UUID
    elif len(tags) == _TOPIC_ID_SIZE and tags.startswith(_TOPIC_ID):
        topic_id = UUID(bytes=tags[len(_TOPIC_ID) :])
    else:
        return None
    try:
        metadata = value[start:end].decode()
    except UnicodeDecodeError:
        return None
    return decoded_key, OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=_INT64.unpack_from(value, end)[0],
        topic_id=topic_id,
    )


def _decode_key(key: bytes) -> OffsetCommitKey | None:
    if len(key) < 10:
        return None
    group_end = 4 + _INT16.unpack_from(key, 2)[0]
    if not 4 <= group_end <= len(key) - 6:
        return None
    topic_start = group_end + 2
    topic_end = topic_start + _INT16.unpack_from(key, group_end)[0]
    if not topic_start <= topic_end == len(key) - 4:
        return None
    try:
        return OffsetCommitKey(
            key[4:group_end].decode(), key[topic_start:topic_end].decode(), _INT32.unpack_from(key, topic_end)[0]
        )
    except UnicodeDecodeError:
        return None
