"""Kafka's records in `__share_group_state`: snapshots and updates of the state of a share partition.

A key is the record type (16 bits, big-endian) and its fields in the plain encoding; a value is its version and
its fields in the flexible encoding. A snapshot with a null value is a tombstone. Refuses malformed bytes: Corruption.
Skips unknown record types, which newer releases may write.
"""

from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from penstock.model.errors import Corruption
from penstock.shares.states import UNINITIALIZED, SharePartitionKey, StateRange
from penstock.wire.fields import INT32, INT64, Field, Kind, Layout, Reader, array

SNAPSHOT: Final = 0
UPDATE: Final = 1
VERSION: Final = 0

_INT16 = Struct(">h")
_INT32 = Struct(">i")


class ShareSnapshot(NamedTuple):
    """The whole state of a share partition."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    create_timestamp: int
    write_timestamp: int
    ranges: tuple[StateRange, ...] = ()
    complete_count: int = UNINITIALIZED


class ShareUpdate(NamedTuple):
    """A change of the state since the last snapshot."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    ranges: tuple[StateRange, ...] = ()
    complete_count: int = UNINITIALIZED


class ShareRecord(NamedTuple):
    key: SharePartitionKey
    value: ShareSnapshot | ShareUpdate | None
    """None for the tombstone of a snapshot."""


def _range_kind() -> Kind:
    """Return the encoding of a range: fixed-size fields and no tagged fields."""
    layout = Struct(">qqbhB")

    def write(out: bytearray, value: StateRange) -> None:
        out += layout.pack(value.first, value.last, value.state, value.delivery_count, 0)

    def read(reader: Reader) -> StateRange:
        first, last, state, count, tag_count = reader.unpack(layout)
        for _ in range(tag_count):
            reader.uvarint()
            reader.take(reader.uvarint())
        return StateRange(first, last, state, count)

    return Kind(write, read)


_RANGES = array(_range_kind())
_COMPLETE_COUNT = Field("complete_count", INT32, tag=0, default=UNINITIALIZED)
_VALUES: Final[dict[int, Layout]] = {
    SNAPSHOT: Layout(
        ShareSnapshot,
        VERSION,
        Field("snapshot_epoch", INT32),
        Field("state_epoch", INT32),
        Field("leader_epoch", INT32),
        Field("start_offset", INT64),
        Field("create_timestamp", INT64),
        Field("write_timestamp", INT64),
        Field("ranges", _RANGES),
        _COMPLETE_COUNT,
    ),
    UPDATE: Layout(
        ShareUpdate,
        VERSION,
        Field("snapshot_epoch", INT32),
        Field("leader_epoch", INT32),
        Field("start_offset", INT64),
        Field("ranges", _RANGES),
        _COMPLETE_COUNT,
    ),
}


def encode(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Return the record's key and value bytes."""
    key, value = record
    number = UPDATE if isinstance(value, ShareUpdate) else SNAPSHOT
    group = key.group.encode()
    head = _INT16.pack(number) + _INT16.pack(len(group)) + group + key.topic_id.bytes + _INT32.pack(key.partition)
    if value is None:
        return head, None
    out = bytearray(_INT16.pack(VERSION))
    _VALUES[number].write(out, value)
    return head, bytes(out)


def decode(key: bytes, value: bytes | None) -> ShareRecord | None:
    """Decode a record from its key and value bytes; return None if its type is unknown."""
    reader = Reader(key)
    number = reader.unpack(_INT16)[0]
    if number not in _VALUES:
        return None
    decoded_key = _read_key(reader)
    _check_all_read(reader, "key", number)
    if value is None:
        return ShareRecord(decoded_key, None) if number == SNAPSHOT else None
    reader = Reader(value)
    version = reader.unpack(_INT16)[0]
    if version != VERSION:
        raise Corruption(f"version {version} of share record type {number} is not supported by this release")
    decoded = _VALUES[number].read(reader)
    _check_all_read(reader, "value", number)
    return ShareRecord(decoded_key, decoded)


def _read_key(reader: Reader) -> SharePartitionKey:
    size = reader.unpack(_INT16)[0]
    try:
        group = str(reader.take(max(size, 0)), "utf-8")
    except UnicodeDecodeError as error:
        raise Corruption("the group id of a share record is not UTF-8") from error
    topic_id = UUID(bytes=bytes(reader.take(16)))
    return SharePartitionKey(group, topic_id, reader.unpack(_INT32)[0])


def _check_all_read(reader: Reader, part: str, number: int) -> None:
    if reader.position != len(reader.data):
        left = len(reader.data) - reader.position
        raise Corruption(f"the {part} of a share record of type {number} has {left} extra bytes")
