"""Fetch, versions 4-18: request reader and response writer.

Version notes: 5 log start offsets, 7 sessions (KIP-227), 9 leader epochs, 11 rack (KIP-392),
12 flexible and last fetched epoch, 13 topic ids, 15 the replica moves to a tagged field,
16 node endpoints (KIP-951), 17 and 18 tagged fields of followers only.
"""

from collections.abc import Sequence
from struct import Struct, error

from penstock.ports.network import FileSlice, Part
from penstock.wire.frame import MalformedRequest
from penstock.wire.hot.primitives import (
    NO_TAGS,
    pack_i16,
    pack_i32,
    pack_uvarint,
    read_count,
    read_i16,
    read_i32,
    read_uvarint,
    skip_tags,
)
from penstock.wire.hot.produce import NodeEndpoint, write_endpoints_tag, write_leader_tag

FLEXIBLE_FROM = 12
TOPIC_ID_FROM = 13
REPLICA_STATE_FROM = 15
REPLICA_STATE_TAG = 1

_read_limits = Struct(">iiib").unpack_from
_read_session = Struct(">ii").unpack_from
_read_partition_v4 = Struct(">iqi").unpack_from
_read_partition_v5 = Struct(">iqqi").unpack_from
_read_partition_v9 = Struct(">iiqqi").unpack_from
_read_partition_v12 = Struct(">iiqiqi").unpack_from
_read_replica_state = Struct(">iq").unpack_from
# The usual request of a follower, whose session has news for one partition: limits, session, one topic id
# with one partition, no forgotten topics, no rack, and the replica state as the only tagged field.
# replica_fetch.py writes what is read here, and reads what is written here.
ONE_REQUEST_FORMAT = "iiibiiB16sBiiqiqi7siqB"
ONE_REQUEST_TAIL = b"\x00\x00\x01\x01\x01\x01\x0d"
_ONE_OF_FOLLOWER = Struct(">" + ONE_REQUEST_FORMAT)
# The usual request of a consumer of one partition: the same without a replica state.
_ONE_OF_CONSUMER = Struct(">iiibiiB16sBiiqiqi5s")
_ONE_OF_CONSUMER_TAIL = b"\x00\x00\x01\x01\x00"


class FetchPartition:
    """One partition of a fetch request. `topic` is its name, or its id from version 13."""

    __slots__ = (
        "current_leader_epoch",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "offset",
        "topic",
    )

    def __init__(
        self,
        topic: bytes,
        index: int,
        current_leader_epoch: int,
        offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        max_bytes: int,
    ) -> None:
        self.topic = topic
        self.index = index
        self.current_leader_epoch = current_leader_epoch
        self.offset = offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes


PARTITION_COUNT_MAX = 10_000
"""The most partitions of one request. Decoding them takes some milliseconds; a session can hold several times more."""


class FetchRequest:
    __slots__ = (
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "partitions",
        "rack",
        "replica_epoch",
        "replica_id",
        "session_epoch",
        "session_id",
    )

    def __init__(self) -> None:
        self.replica_id = -1
        self.replica_epoch = -1
        self.max_wait_ms = 0
        self.min_bytes = 0
        self.max_bytes = 0
        self.isolation_level = 0
        self.session_id = 0
        self.session_epoch = -1
        self.partitions: list[FetchPartition] = []
        self.forgotten: list[tuple[bytes, int]] = []
        self.rack = ""


def read_request(frame: memoryview, position: int, version: int) -> FetchRequest:
    request = FetchRequest()
    if version >= REPLICA_STATE_FROM:
        size = len(frame) - position
        if size == _ONE_OF_CONSUMER.size and _read_one_of_consumer(request, frame, position):
            return request
        if size == _ONE_OF_FOLLOWER.size and _read_one_of_follower(request, frame, position):
            return request
    try:
        if version < REPLICA_STATE_FROM:
            request.replica_id = read_i32(frame, position)[0]
            position += 4
        request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level = _read_limits(
            frame, position
        )
        position += 13
        if version >= 7:
            request.session_id, request.session_epoch = _read_session(frame, position)
            position += 8
        position = _read_partitions(request, frame, position, version)
        if version >= 7:
            position = _read_forgotten(request, frame, position, version)
        if version >= 11:
            request.rack, position = _read_string(frame, position, flexible=version >= FLEXIBLE_FROM)
        if version >= FLEXIBLE_FROM:
            position = _read_tags(request, frame, position)
    except (error, IndexError) as early_end:
        raise MalformedRequest(f"Fetch request ends too early: {early_end}") from None
    if position > len(frame):
        raise MalformedRequest("Fetch request ends too early")
    return request


def _read_one_of_consumer(request: FetchRequest, frame: memoryview, position: int) -> bool:
    """Decode the usual request of a consumer; return False if it is another request of the same length."""
    (
        request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level,
        request.session_id, request.session_epoch,
        topics, topic, rows, index, leader_epoch, offset, fetched_epoch, start, size, tail,
    ) = _ONE_OF_CONSUMER.unpack_from(frame, position)  # fmt: skip
    # Compact lengths are one larger than the length, and 0 is null.
    if topics != 2 or rows != 2 or tail != _ONE_OF_CONSUMER_TAIL:
        return False
    request.partitions.append(FetchPartition(topic, index, leader_epoch, offset, fetched_epoch, start, size))
    return True


def _read_one_of_follower(request: FetchRequest, frame: memoryview, position: int) -> bool:
    """Decode the usual request of a follower; return False if it is another request of the same length."""
    (
        request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level,
        request.session_id, request.session_epoch,
        topics, topic, rows, index, leader_epoch, offset, fetched_epoch, start, size,
        tail, replica_id, replica_epoch, last,
    ) = _ONE_OF_FOLLOWER.unpack_from(frame, position)  # fmt: skip
    if topics != 2 or rows != 2 or tail != ONE_REQUEST_TAIL or last:
        return False
    request.replica_id = replica_id
    request.replica_epoch = replica_epoch
    request.partitions.append(FetchPartition(topic, index, leader_epoch, offset, fetched_epoch, start, size))
    return True


def _read_topic(frame: memoryview, position: int, version: int) -> tuple[bytes, int]:
    if version >= TOPIC_ID_FROM:
        return bytes(frame[position : position + 16]), position + 16
    if version >= FLEXIBLE_FROM:
        size, position = read_uvarint(frame, position)
        size -= 1
    else:
        size = read_i16(frame, position)[0]
        position += 2
    if size < 0:
        raise MalformedRequest("a topic name is null")
    return bytes(frame[position : position + size]), position + size


def _read_string(frame: memoryview, position: int, *, flexible: bool) -> tuple[str, int]:
    if flexible:
        size, position = read_uvarint(frame, position)
        size -= 1
    else:
        size = read_i16(frame, position)[0]
        position += 2
    if size < 0:
        raise MalformedRequest("a string is null where the schema forbids it")
    return str(frame[position : position + size], "utf-8", "replace"), position + size


def _read_partitions(request: FetchRequest, frame: memoryview, position: int, version: int) -> int:
    flexible = version >= FLEXIBLE_FROM
    partitions = request.partitions
    topic_count, position = read_count(frame, position, flexible=flexible)
    left = PARTITION_COUNT_MAX - topic_count
    for _ in range(topic_count):
        topic, position = _read_topic(frame, position, version)
        partition_count, position = read_count(frame, position, flexible=flexible)
        left -= partition_count
        if left < 0:
            raise MalformedRequest(f"a Fetch request names more than {PARTITION_COUNT_MAX} partitions")
        for _ in range(partition_count):
            if flexible:
                index, epoch, offset, fetched_epoch, start, size = _read_partition_v12(frame, position)
                position = skip_tags(frame, position + 32)
                partitions.append(FetchPartition(topic, index, epoch, offset, fetched_epoch, start, size))
            elif version >= 9:
                index, epoch, offset, start, size = _read_partition_v9(frame, position)
                position += 28
                partitions.append(FetchPartition(topic, index, epoch, offset, -1, start, size))
            elif version >= 5:
                index, offset, start, size = _read_partition_v5(frame, position)
                position += 24
                partitions.append(FetchPartition(topic, index, -1, offset, -1, start, size))
            else:
                index, offset, size = _read_partition_v4(frame, position)
                position += 16
                partitions.append(FetchPartition(topic, index, -1, offset, -1, -1, size))
        if flexible:
            position = skip_tags(frame, position)
    return position


def _read_forgotten(request: FetchRequest, frame: memoryview, position: int, version: int) -> int:
    flexible = version >= FLEXIBLE_FROM
    topic_count, position = read_count(frame, position, flexible=flexible)
    for _ in range(topic_count):
        topic, position = _read_topic(frame, position, version)
        count, position = read_count(frame, position, flexible=flexible)
        for _ in range(count):
            request.forgotten.append((topic, read_i32(frame, position)[0]))
            position += 4
        if flexible:
            position = skip_tags(frame, position)
    return position


def _read_tags(request: FetchRequest, frame: memoryview, position: int) -> int:
    """Read the replica state, the only tagged field of the request that matters here."""
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        if tag == REPLICA_STATE_TAG:
            request.replica_id, request.replica_epoch = _read_replica_state(frame, position)
        position += size
    return position


_pack_partition_v4 = Struct(">ihqq").pack
_pack_partition_v5 = Struct(">ihqqq").pack
_pack_aborted = Struct(">qq").pack


class PartitionAnswer:
    """The part of a fetch response for one partition. `records` is a slice of a file, bytes, or nothing."""

    __slots__ = (
        "aborted",
        "current_leader",
        "diverging",
        "error_code",
        "high_watermark",
        "index",
        "last_stable_offset",
        "log_start_offset",
        "preferred_read_replica",
        "records",
        "size",
        "snapshot",
        "topic",
    )

    def __init__(
        self,
        topic: bytes,
        index: int,
        error_code: int = 0,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: FileSlice | bytes | None = None,
    ) -> None:
        self.topic = topic
        self.index = index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.size = 0 if records is None else len(records) if isinstance(records, bytes) else records.size
        self.aborted: Sequence[tuple[int, int]] | None = None
        self.preferred_read_replica = -1
        self.diverging: tuple[int, int] | None = None
        self.current_leader: tuple[int, int] | None = None
        self.snapshot: tuple[int, int] | None = None
        """End offset and epoch of a snapshot to load first; only for the metadata log."""

    @property
    def is_plain(self) -> bool:
        """Return whether it has no field of variable length except records."""
        return not self.aborted and self.diverging is None and self.current_leader is None


def any_cut(answers: Sequence[PartitionAnswer]) -> bool:
    """Return whether the log of an answer has more records for the reader, so that it need not wait for new ones."""
    return any(type(answer.records) is FileSlice and answer.records.is_cut for answer in answers)


def write_response(
    version: int,
    correlation_id: int,
    answers: Sequence[PartitionAnswer],
    *,
    session_id: int = 0,
    error_code: int = 0,
    throttle_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Part]:
    """Return the whole response frame as parts; consecutive answers of one topic share its header."""
    if len(answers) == 1 and version >= TOPIC_ID_FROM and not (error_code or endpoints) and answers[0].is_plain:
        return _write_one(correlation_id, answers[0], session_id, throttle_ms)
    flexible = version >= FLEXIBLE_FROM
    topics = _grouped(answers)
    buffer = bytearray(4)
    parts: list[Part] = [buffer]
    size = 0
    buffer += pack_i32(correlation_id)
    if flexible:
        buffer += NO_TAGS
    buffer += pack_i32(throttle_ms)
    if version >= 7:
        buffer += pack_i16(error_code)
        buffer += pack_i32(session_id)
    buffer += pack_uvarint(len(topics) + 1) if flexible else pack_i32(len(topics))
    for topic, rows in topics:
        if version >= TOPIC_ID_FROM:
            buffer += topic
        elif flexible:
            buffer += pack_uvarint(len(topic) + 1) + topic
        else:
            buffer += pack_i16(len(topic)) + topic
        buffer += pack_uvarint(len(rows) + 1) if flexible else pack_i32(len(rows))
        for answer in rows:
            _write_partition(buffer, answer, version)
            if type(answer.records) is bytes:
                buffer += answer.records
            elif answer.records is not None:
                parts.append(answer.records)
                size += answer.size + len(buffer)
                buffer = bytearray()
                parts.append(buffer)
            if flexible:
                buffer += _tags(answer, version)
        if flexible:
            buffer += NO_TAGS
    if flexible:
        buffer += write_endpoints_tag(endpoints) if endpoints and version >= 16 else NO_TAGS
    size += len(buffer)
    head = parts[0]
    assert isinstance(head, bytearray)
    head[:4] = pack_i32(size - 4)
    return parts


ONE_RESPONSE_FORMAT = "iBihiB16sBihqqqBi"
ONE_RESPONSE_END = b"\x00\x00\x00"  # no tags for the partition, its topic and the response
_ONE_ANSWER = Struct(">i" + ONE_RESPONSE_FORMAT)
_pack_one = _ONE_ANSWER.pack


def _write_one(correlation_id: int, answer: PartitionAnswer, session_id: int, throttle_ms: int) -> list[Part]:
    """Write the usual response, for one partition: the same bytes as the general path."""
    records, size = answer.records, pack_uvarint(answer.size + 1)
    head = _pack_one(
        _ONE_ANSWER.size - 4 + len(size) + answer.size + len(ONE_RESPONSE_END),
        correlation_id, 0, throttle_ms, 0, session_id, 2, answer.topic, 2, answer.index, answer.error_code,
        answer.high_watermark, answer.last_stable_offset, answer.log_start_offset,
        0 if answer.aborted is None else 1,  # null or an empty array
        answer.preferred_read_replica,
    )  # fmt: skip
    if records is None:
        return [head + size + ONE_RESPONSE_END]
    if type(records) is bytes:
        return [head + size + records + ONE_RESPONSE_END]
    return [head + size, records, ONE_RESPONSE_END]


def _grouped(answers: Sequence[PartitionAnswer]) -> list[tuple[bytes, list[PartitionAnswer]]]:
    if len(answers) == 1:
        return [(answers[0].topic, [answers[0]])]
    topics: list[tuple[bytes, list[PartitionAnswer]]] = []
    for answer in answers:
        if topics and topics[-1][0] == answer.topic:
            topics[-1][1].append(answer)
        else:
            topics.append((answer.topic, [answer]))
    return topics


def _write_partition(buffer: bytearray, answer: PartitionAnswer, version: int) -> None:
    flexible = version >= FLEXIBLE_FROM
    if version >= 5:
        buffer += _pack_partition_v5(
            answer.index,
            answer.error_code,
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
        )
    else:
        buffer += _pack_partition_v4(answer.index, answer.error_code, answer.high_watermark, answer.last_stable_offset)
    if answer.aborted is None:
        buffer += b"\x00" if flexible else b"\xff\xff\xff\xff"
    else:
        buffer += pack_uvarint(len(answer.aborted) + 1) if flexible else pack_i32(len(answer.aborted))
        for producer_id, first_offset in answer.aborted:
            buffer += _pack_aborted(producer_id, first_offset)
            if flexible:
                buffer += NO_TAGS
    if version >= 11:
        buffer += pack_i32(answer.preferred_read_replica)
    # No records are sent as an empty set, never as null: some clients do not support null.
    buffer += pack_uvarint(answer.size + 1) if flexible else pack_i32(answer.size)


def _tags(answer: PartitionAnswer, version: int) -> bytes:
    if answer.diverging is None and answer.current_leader is None:  # a snapshot comes with a leader
        return NO_TAGS
    tags = []
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging
        tags.append(b"\x00\x0d" + pack_i32(epoch) + end_offset.to_bytes(8, "big", signed=True) + NO_TAGS)
    if answer.current_leader is not None:
        tags.append(write_leader_tag(1, *answer.current_leader))
    if answer.snapshot is not None:
        end_offset, epoch = answer.snapshot
        tags.append(b"\x02\x0d" + end_offset.to_bytes(8, "big", signed=True) + pack_i32(epoch) + NO_TAGS)
    return pack_uvarint(len(tags)) + b"".join(tags)
