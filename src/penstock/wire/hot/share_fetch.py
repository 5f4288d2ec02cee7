"""ShareFetch, versions 1-2: a reader of the most common requests, and the writer of responses.

The records of a response are slices of files. Version notes: 2 adds the acquire mode and the renewal of locks.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from struct import Struct, calcsize
from typing import Any, Final, NamedTuple

from penstock.model.ids import TopicIdPartition
from penstock.ports.network import FileSlice, Part
from penstock.wire.frame import decode_text
from penstock.wire.hot.primitives import NO_TAGS, pack_i16, pack_i32, pack_uvarint
from penstock.wire.hot.produce import NodeEndpoint

ACQUIRE_MODE_FROM: Final = 2
_IDS_KEPT: Final = 1 << 12
_LONG: Final = 0x80
"""A byte from here on begins a number of several bytes."""
_ONE: Final = 2
"""The size of an array with one element."""
_NO_TOPIC_ID: Final = bytes(16)

_pack_range = Struct(">qqhB").pack
_pack_leader = Struct(">iiB").pack
_one = Struct(">iiBihBiB16sBihBhBiiB")
"""Size, correlation id, tags; throttle time, error, message, lock timeout; one topic; one partition without errors."""
_pack_one = _one.pack
_ONE_SIZE: Final = _one.size - 4


AcknowledgedBatch = tuple[int, int, tuple[int, ...]]
"""First and last offset, and one type for all offsets or one for each."""


class ShareFetchRequest(NamedTuple):
    group_id: str
    member_id: str
    session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    acquire_mode: int
    is_renewal: bool
    added: tuple[TopicIdPartition, ...]
    acknowledgements: Sequence[tuple[TopicIdPartition, Sequence[AcknowledgedBatch]]]
    forgotten: tuple[TopicIdPartition, ...]


# Builds a named tuple from all its fields in half the time.
_request: Callable[[tuple[Any, ...]], ShareFetchRequest] = partial(tuple.__new__, ShareFetchRequest)


# After the limits: the end of a request without topics; one topic with one partition; the same with one range.
_ENDS: Final = {"3s": b"\x01\x01\x00", "B16sBi5s": b"\x01\x00\x00\x01\x00", "B16sBiBqqBb5s": b"\x00\x00\x00\x01\x00"}
_LAYOUTS: Final = {
    (version, calcsize(limits + rest)): (Struct(limits + rest).unpack_from, end)
    for version, limits in ((1, ">iiiiii"), (ACQUIRE_MODE_FROM, ">iiiiiib?"))
    for rest, end in _ENDS.items()
}
"""How to read what follows the ids, by version and size, and the bytes at its end: sizes of arrays, and no tags."""
_POLL_LENGTH: Final = 9
_NAMED_LENGTH: Final = 13


@lru_cache(_IDS_KEPT)
def _ids(data: bytes) -> tuple[str, str] | None:
    """Read the ids of group and member; None if one of them is null or long."""
    member = data[0] if data else 0
    if not 0 < member < min(_LONG, len(data)) or not 0 < data[member] < _LONG:
        return None
    return decode_text(data[1:member]), decode_text(data[member + 1 :])


@lru_cache(_IDS_KEPT)
def _named(topic_id: bytes, index: int) -> tuple[TopicIdPartition]:
    """Return the same objects for the same partition: a session compares them with those that it has."""
    return (TopicIdPartition(topic_id, index),)


def read_common(version: int, frame: bytes | memoryview, position: int = 0) -> ShareFetchRequest | None:
    """Decode a request with at most one topic, partition and acknowledged range; None for all others.

    They are the requests of a member that polls. Requests that are malformed or unusual are left to the schema.
    """
    try:
        member = position + frame[position]
        ids_end = member + frame[member]
    except IndexError:
        return None
    known = _LAYOUTS.get((version, len(frame) - ids_end))
    ids = _ids(bytes(frame[position:ids_end]))
    if known is None or ids is None:
        return None
    unpack, end = known
    fields = unpack(frame, ids_end)
    if fields[-1] != end:
        return None
    if version < ACQUIRE_MODE_FROM:
        fields = (*fields[:6], 0, False, *fields[6:])
    if len(fields) == _POLL_LENGTH:
        return _request((*ids, *fields[:8], (), (), ()))
    topics, topic_id, partitions, index = fields[8:12]
    if topics != _ONE or partitions != _ONE or topic_id == _NO_TOPIC_ID:
        return None
    named = _named(topic_id, index)
    if len(fields) == _NAMED_LENGTH:
        return _request((*ids, *fields[:8], named, (), ()))
    batches, first, last, types, kind = fields[12:17]
    if batches != _ONE or types != _ONE:
        return None
    return _request((*ids, *fields[:8], named, ((named[0], ((first, last, (kind,)),)),), ()))


class ShareAnswer:
    """The part of a response for one partition."""

    __slots__ = (
        "acknowledge_error",
        "acknowledge_message",
        "acquired",
        "error_code",
        "error_message",
        "index",
        "leader",
        "records",
        "topic",
    )

    def __init__(self, topic: bytes, index: int) -> None:
        self.topic = topic
        self.index = index
        self.error_code = self.acknowledge_error = 0
        self.error_message: str | None = None
        self.acknowledge_message: str | None = None
        self.leader = (0, 0)
        """Leader and epoch, where this node is not the leader."""
        self.records: FileSlice | None = None
        self.acquired: Sequence[tuple[int, int, int]] = ()
        """First and last offset, and delivery count."""


def write_response(
    correlation_id: int,
    answers: Sequence[ShareAnswer],
    *,
    error_code: int = 0,
    error_message: str | None = None,
    lock_timeout_ms: int = 0,
    throttle_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Part]:
    """Return the whole response frame as parts; the answers of one topic must follow each other."""
    if len(answers) == 1 and not error_code and not endpoints:
        answer = answers[0]
        if not answer.error_code and not answer.acknowledge_error and answer.records is not None:
            return _write_one(correlation_id, answer, answer.records, lock_timeout_ms, throttle_ms)
    head = buffer = bytearray(4)
    parts: list[Part] = [buffer]
    sent = 0
    buffer += pack_i32(correlation_id) + NO_TAGS
    buffer += pack_i32(throttle_ms) + pack_i16(error_code) + _text(error_message) + pack_i32(lock_timeout_ms)
    topics: dict[bytes, list[ShareAnswer]] = {}
    for answer in answers:
        topics.setdefault(answer.topic, []).append(answer)
    buffer += pack_uvarint(len(topics) + 1)
    for topic, rows in topics.items():
        buffer += topic + pack_uvarint(len(rows) + 1)
        for answer in rows:
            buffer += pack_i32(answer.index) + pack_i16(answer.error_code) + _text(answer.error_message)
            buffer += pack_i16(answer.acknowledge_error) + _text(answer.acknowledge_message)
            buffer += _pack_leader(*answer.leader, 0)
            size = 0 if answer.records is None else answer.records.size
            # No records are sent as an empty set, never as null.
            buffer += pack_uvarint(size + 1)
            if answer.records is not None:
                parts.append(answer.records)
                sent += size + len(buffer)
                buffer = bytearray()
                parts.append(buffer)
            buffer += pack_uvarint(len(answer.acquired) + 1)
            for first, last, delivery_count in answer.acquired:
                buffer += _pack_range(first, last, delivery_count, 0)
            buffer += NO_TAGS
        buffer += NO_TAGS
    buffer += pack_uvarint(len(endpoints) + 1)
    for node_id, host, port, rack in endpoints:
        buffer += pack_i32(node_id) + _text(host) + pack_i32(port) + _text(rack) + NO_TAGS
    buffer += NO_TAGS
    sent += len(buffer)
    head[:4] = pack_i32(sent - 4)
    return parts


def _write_one(
    correlation_id: int, answer: ShareAnswer, records: FileSlice, lock_timeout_ms: int, throttle_ms: int
) -> list[Part]:
    """Return the most common response: records of one partition, and no error."""
    size = pack_uvarint(records.size + 1)
    tail = pack_uvarint(len(answer.acquired) + 1)
    for first, last, delivery_count in answer.acquired:
        tail += _pack_range(first, last, delivery_count, 0)
    # No tagged fields of the partition, the topic and the response; no endpoints in between.
    tail += b"\x00\x00\x01\x00"
    head = _pack_one(
        _ONE_SIZE + len(size) + records.size + len(tail),
        correlation_id, 0, throttle_ms, 0, 0, lock_timeout_ms, _ONE, answer.topic, _ONE,
        answer.index, 0, 0, 0, 0, *answer.leader, 0,
    )  # fmt: skip
    return [head + size, records, tail]


def _text(text: str | None) -> bytes:
    if text is None:
        return b"\x00"
    encoded = text.encode()
    return pack_uvarint(len(encoded) + 1) + encoded
