"""Kafka's records in `__transaction_state`: the whole state of one transactional id, and its encoding.

The encoding is hand-written for speed: every transaction writes three records. Version 0 is plain,
version 1 flexible; both can be read. Refuses malformed bytes and states that are never written: Corruption.
Skips keys of unknown types, which newer releases may write.
"""

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

from penstock.model.errors import Corruption
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.transactions.states import STATES, State
from penstock.wire.fields import Reader, write_uvarint

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
KEY_TYPE: Final = 0
VERSION_LATEST: Final = 1
_FLEXIBLE: Final = 1

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_HEAD = Struct(">qhib")
_TIMES = Struct(">qq")
_KEY_HEAD = Struct(">hh")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before this change, usually the same one."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the completion of the transaction that is being ended."""
    epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition] = frozenset()
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    client_version: int = 0
    """The `transaction.version` of the last request."""


class TransactionRecord(NamedTuple):
    transactional_id: str
    value: TransactionValue | None
    """None for a tombstone."""


def encode(record: TransactionRecord, *, version: int) -> tuple[bytes, bytes | None]:
    """Return the record's key and value bytes."""
    raw = record.transactional_id.encode()
    key = _KEY_HEAD.pack(KEY_TYPE, len(raw)) + raw
    if record.value is None:
        return key, None
    return key, _encode_value(record.value, version)


def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """Decode a record from its key and value bytes; return None if its type is unknown."""
    reader = Reader(key)
    if reader.unpack(_INT16)[0] != KEY_TYPE:
        return None
    transactional_id = _plain_string(reader)
    _check_all_read(reader, "key")
    if value is None:
        return TransactionRecord(transactional_id, None)
    return TransactionRecord(transactional_id, _decode_value(Reader(value)))


# -- writing -------------------------------------------------------------------------------


def _encode_value(value: TransactionValue, version: int) -> bytes:
    out = bytearray(_INT16.pack(version))
    out += _HEAD.pack(value.producer_id, value.epoch, value.timeout_ms, value.state)
    topics = [
        (topic, [index for _, index in partitions])
        for topic, partitions in groupby(sorted(value.partitions), itemgetter(0))
    ]
    if version < _FLEXIBLE:
        _write_plain_partitions(out, None if value.state is State.EMPTY else topics)
    else:
        _write_partitions(out, None if value.state is State.EMPTY else topics)
    out += _TIMES.pack(value.last_update_ms, value.start_ms)
    if version >= _FLEXIBLE:
        _write_tags(out, value)
    return bytes(out)


_Topics = list[tuple[TopicName, list[PartitionIndex]]]


def _write_plain_partitions(out: bytearray, topics: _Topics | None) -> None:
    out += _INT32.pack(-1 if topics is None else len(topics))
    for topic, indexes in topics or ():
        raw = topic.encode()
        out += _INT16.pack(len(raw)) + raw + _INT32.pack(len(indexes))
        out += Struct(f">{len(indexes)}i").pack(*indexes)


def _write_partitions(out: bytearray, topics: _Topics | None) -> None:
    write_uvarint(out, 0 if topics is None else len(topics) + 1)
    for topic, indexes in topics or ():
        raw = topic.encode()
        write_uvarint(out, len(raw) + 1)
        out += raw
        write_uvarint(out, len(indexes) + 1)
        out += Struct(f">{len(indexes)}i").pack(*indexes)
        out.append(0)


def _write_tags(out: bytearray, value: TransactionValue) -> None:
    count_at = len(out)
    out.append(0)
    count = 0
    if value.previous_producer_id != NO_PRODUCER_ID:
        out += b"\x00\x08" + _INT64.pack(value.previous_producer_id)
        count += 1
    if value.next_producer_id != NO_PRODUCER_ID:
        out += b"\x01\x08" + _INT64.pack(value.next_producer_id)
        count += 1
    if value.client_version:
        out += b"\x02\x02" + _INT16.pack(value.client_version)
        count += 1
    out[count_at] = count


# -- reading -------------------------------------------------------------------------------


def _decode_value(reader: Reader) -> TransactionValue:
    version = reader.unpack(_INT16)[0]
    if not 0 <= version <= VERSION_LATEST:
        raise Corruption(f"version {version} of a transaction record is not supported by this release")
    producer_id, epoch, timeout_ms, number = reader.unpack(_HEAD)
    state = _state(number)
    partitions = _read_partitions(reader) if version >= _FLEXIBLE else _read_plain_partitions(reader)
    if partitions is None and state is not State.EMPTY:
        raise Corruption(f"a transaction record in state {STATES[state].name} has no partitions")
    last_update_ms, start_ms = reader.unpack(_TIMES)
    tags = _read_tags(reader) if version >= _FLEXIBLE else {}
    _check_all_read(reader, "value")
    return TransactionValue(
        producer_id=producer_id,
        previous_producer_id=_tag(tags, 0, _INT64, NO_PRODUCER_ID),
        next_producer_id=_tag(tags, 1, _INT64, NO_PRODUCER_ID),
        epoch=epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=frozenset(partitions or ()) if state is not State.EMPTY else frozenset(),
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        client_version=_tag(tags, 2, _INT16, 0),
    )


def _state(number: int) -> State:
    try:
        state = State(number)
    except ValueError:
        raise Corruption(f"a transaction record has the unknown state {number}") from None
    if not STATES[state].is_written:
        raise Corruption(f"a transaction record has the state {STATES[state].name}, which is never written")
    return state


def _read_plain_partitions(reader: Reader) -> list[TopicPartition] | None:
    count = reader.unpack(_INT32)[0]
    if count == -1:
        return None
    found: list[TopicPartition] = []
    for _ in range(_checked(reader, count)):
        topic = _plain_string(reader)
        found += _indexes(reader, topic, reader.unpack(_INT32)[0])
    return found


def _read_partitions(reader: Reader) -> list[TopicPartition] | None:
    count = reader.uvarint() - 1
    if count == -1:
        return None
    found: list[TopicPartition] = []
    for _ in range(_checked(reader, count)):
        topic = _text(reader, reader.uvarint() - 1)
        found += _indexes(reader, topic, reader.uvarint() - 1)
        _read_tags(reader)
    return found


def _indexes(reader: Reader, topic: str, count: int) -> list[TopicPartition]:
    layout = Struct(f">{_checked(reader, count)}i")
    return [TopicPartition(TopicName(topic), PartitionIndex(index)) for index in reader.unpack(layout)]


def _checked(reader: Reader, count: int) -> int:
    """Check an array's count against the remaining bytes, of which each element takes at least one."""
    if not 0 <= count <= len(reader.data) - reader.position:
        raise Corruption(f"an array of {count} at {reader.position} exceeds its record")
    return count


def _plain_string(reader: Reader) -> str:
    return _text(reader, reader.unpack(_INT16)[0])


def _text(reader: Reader, size: int) -> str:
    if size < 0:
        raise Corruption(f"null at {reader.position} in a string that is not nullable")
    try:
        return str(reader.take(size), "utf-8")
    except UnicodeDecodeError as error:
        raise Corruption(f"a string that ends at {reader.position} is not UTF-8") from error


def _read_tags(reader: Reader) -> dict[int, bytes]:
    tags = {}
    for _ in range(_checked(reader, reader.uvarint())):
        tag = reader.uvarint()
        tags[tag] = reader.take(reader.uvarint())
    return tags


def _tag(tags: dict[int, bytes], tag: int, layout: Struct, default: int) -> int:
    raw = tags.get(tag)
    if raw is None:
        return default
    reader = Reader(raw)
    value: int = reader.unpack(layout)[0]
    _check_all_read(reader, f"tag {tag}")
    return value


def _check_all_read(reader: Reader, part: str) -> None:
    if reader.position != len(reader.data):
        left = len(reader.data) - reader.position
        raise Corruption(f"the {part} of a transaction record has {left} extra bytes")
