"""Produce, versions 3-13: request reader and response writer.

Records are not copied: the reader returns slices of the frame. Version notes:
5 adds the log start offset to the response, 8 the record errors (KIP-467), 9 is flexible,
10 adds the current leader (KIP-951), 13 names topics by id.
"""

from collections.abc import Iterable, Sequence
from struct import Struct, error

from penstock.wire.frame import MalformedRequest, clipped
from penstock.wire.hot.primitives import (
    NO_TAGS,
    pack_compact_string,
    pack_i16,
    pack_i32,
    pack_string,
    pack_uvarint,
    read_count,
    read_i16,
    read_i32,
    read_uvarint,
    refuse_count,
    skip_tags,
)

FLEXIBLE_FROM = 9
TOPIC_ID_FROM = 13

_read_acks_and_timeout = Struct(">hi").unpack_from
_read_acks_timeout_and_count = Struct(">hii").unpack_from
_pack_partition = Struct(">ihq").pack
_pack_times_v2 = Struct(">q").pack
_pack_times_v5 = Struct(">qq").pack

PARTITION_COUNT_MAX = 10_000
"""The most partitions of one request. Decoding them takes a few milliseconds, and a frame has room for millions."""

PartitionData = tuple[int, memoryview | None]
TopicData = tuple[bytes, list[PartitionData]]


class ProduceRequest:
    """`topics` pairs a topic's name, or its id from version 13, with its partitions' records."""

    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(self, transactional_id: str | None, acks: int, timeout_ms: int, topics: list[TopicData]) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics


def read_request(frame: memoryview, position: int, version: int) -> ProduceRequest:
    try:
        if version >= FLEXIBLE_FROM:
            by_id = version >= TOPIC_ID_FROM
            return _read_one(frame, position, by_id) or _read_flexible(frame, position, by_id=by_id)
        return _read_legacy(frame, position)
    except (error, IndexError) as early_end:
        raise MalformedRequest(f"Produce request ends too early: {early_end}") from None


def _read_legacy(frame: memoryview, position: int) -> ProduceRequest:
    size = read_i16(frame, position)[0]
    position += 2
    transactional_id = None
    if size >= 0:
        transactional_id = str(frame[position : position + size], "utf-8", "replace")
        position += size
    end = len(frame)
    acks, timeout_ms, topic_count = _read_acks_timeout_and_count(frame, position)
    position += 10
    if not 0 <= topic_count <= end - position:
        refuse_count(topic_count, end - position)
    left = PARTITION_COUNT_MAX - topic_count
    topics: list[TopicData] = []
    for _ in range(topic_count):
        size = read_i16(frame, position)[0]
        if size < 0:
            raise MalformedRequest("a topic name is null")
        position += 2 + size
        name = bytes(frame[position - size : position])
        partition_count = read_i32(frame, position)[0]
        position += 4
        if not 0 <= partition_count <= end - position:
            refuse_count(partition_count, end - position)
        left -= partition_count
        if left < 0:
            raise MalformedRequest(f"a Produce request names more than {PARTITION_COUNT_MAX} partitions")
        partitions: list[PartitionData] = []
        for _ in range(partition_count):
            index, size = _read_index_and_size(frame, position)
            position += 8
            if size >= 0:
                partitions.append((index, frame[position : position + size]))
                position += size
            elif size == -1:
                partitions.append((index, None))
            else:
                raise MalformedRequest(f"records of size {size}")
        topics.append((name, partitions))
    if position > end:
        raise MalformedRequest("Produce request ends too early")
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


_read_index_and_size = Struct(">ii").unpack_from


_read_one_head = Struct(">BhiB").unpack_from
_read_one_partition = Struct(">BiB").unpack_from
_READ_HEAD_SIZE = 8
_AFTER_TOPIC_LEAST = 9
"""Counts, index and size of the records take six bytes at least, and three empty sections of tags one byte each."""
_ONE_ELEMENT, _NULL = 2, 0
_NO_TAGS_OF_THREE = 3 * NO_TAGS


def _read_one(frame: memoryview, position: int, by_id: bool) -> ProduceRequest | None:
    """Read the most common request, a batch for one partition outside a transaction; return None for any other.

    Reads what `_read_flexible` would read, in half of the time.
    """
    end = len(frame)
    if end - position < _READ_HEAD_SIZE:
        return None
    transactional_id, acks, timeout_ms, topic_count = _read_one_head(frame, position)
    if transactional_id != _NULL or topic_count != _ONE_ELEMENT:
        return None
    position += _READ_HEAD_SIZE
    if by_id:
        after = position + 16
    else:
        if position == end or not 0 < (size := frame[position]) < 0x80:
            return None
        after = position + size
        position += 1
    if end - after < _AFTER_TOPIC_LEAST:
        return None
    partition_count, index, size = _read_one_partition(frame, after)
    start = after + 6
    if size >= 0x80:
        second, third = frame[start], frame[start + 1]
        if second < 0x80:
            size, start = size & 0x7F | second << 7, start + 1
        else:
            size, start = size & 0x7F | (second & 0x7F) << 7 | third << 14, start + 2
            if third >= 0x80:
                return None
    if partition_count != _ONE_ELEMENT or size == _NULL or start + size + 2 != end:
        return None
    if frame[end - 3 :] != _NO_TAGS_OF_THREE:
        return None
    topic = bytes(frame[position:after])
    return ProduceRequest(None, acks, timeout_ms, [(topic, [(index, frame[start : end - 3])])])


def _read_flexible(frame: memoryview, position: int, *, by_id: bool) -> ProduceRequest:
    size, position = read_uvarint(frame, position)
    transactional_id = None
    if size:
        transactional_id = str(frame[position : position + size - 1], "utf-8", "replace")
        position += size - 1
    acks, timeout_ms = _read_acks_and_timeout(frame, position)
    topic_count, position = read_count(frame, position + 6, flexible=True)
    left = PARTITION_COUNT_MAX - topic_count
    topics: list[TopicData] = []
    for _ in range(topic_count):
        if by_id:
            size = 16
        else:
            size, position = read_uvarint(frame, position)
            if size == 0:
                raise MalformedRequest("a topic name is null")
            size -= 1
        topic = bytes(frame[position : position + size])
        partition_count, position = read_count(frame, position + size, flexible=True)
        left -= partition_count
        if left < 0:
            raise MalformedRequest(f"a Produce request names more than {PARTITION_COUNT_MAX} partitions")
        partitions: list[PartitionData] = []
        for _ in range(partition_count):
            index = read_i32(frame, position)[0]
            size, position = read_uvarint(frame, position + 4)
            if size:
                partitions.append((index, frame[position : position + size - 1]))
                position += size - 1
            else:
                partitions.append((index, None))
            position = skip_tags(frame, position)
        topics.append((topic, partitions))
        position = skip_tags(frame, position)
    skip_tags(frame, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


class PartitionResult:
    """The result of appending one partition's records."""

    __slots__ = (
        "base_offset",
        "current_leader",
        "error_code",
        "error_message",
        "index",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        index: int,
        error_code: int = 0,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Sequence[tuple[int, str]] = (),
        error_message: str | None = None,
        current_leader: tuple[int, int] | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.error_message = error_message
        self.current_leader = current_leader


NodeEndpoint = tuple[int, str, int, str | None]
TopicResults = tuple[bytes, list[PartitionResult]]


def write_response(
    version: int,
    correlation_id: int,
    topics: Sequence[TopicResults],
    *,
    throttle_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Return the whole response frame with size prefix and header."""
    if len(topics) == 1 and version >= 5:
        topic, results = topics[0]
        if len(results) == 1 and results[0].error_code == 0:
            return _write_one(version, correlation_id, topic, results[0], throttle_ms)
    flexible = version >= FLEXIBLE_FROM
    parts = [b"", pack_i32(correlation_id)]
    if flexible:
        parts.append(NO_TAGS)
        parts.append(pack_uvarint(len(topics) + 1))
    else:
        parts.append(pack_i32(len(topics)))
    for topic, results in topics:
        if version >= TOPIC_ID_FROM:
            parts.append(topic)
            parts.append(pack_uvarint(len(results) + 1))
        elif flexible:
            parts.append(pack_uvarint(len(topic) + 1) + topic)
            parts.append(pack_uvarint(len(results) + 1))
        else:
            parts.append(pack_i16(len(topic)) + topic)
            parts.append(pack_i32(len(results)))
        for result in results:
            parts.append(_pack_partition(result.index, result.error_code, result.base_offset))
            if version >= 5:
                parts.append(_pack_times_v5(result.log_append_time_ms, result.log_start_offset))
            else:
                parts.append(_pack_times_v2(result.log_append_time_ms))
            if flexible:
                _write_details_flexible(parts, result, version)
            elif version >= 8:
                _write_details_legacy(parts, result)
        if flexible:
            parts.append(NO_TAGS)
    parts.append(pack_i32(throttle_ms))
    if flexible:
        parts.append(write_endpoints_tag(endpoints) if endpoints and version >= 10 else NO_TAGS)
    parts[0] = pack_i32(sum(map(len, parts)))
    return b"".join(parts)


_pack_one_head = Struct(">iiih").pack
_pack_one_head_flexible = Struct(">iiBB").pack
_pack_one = Struct(">iihqqq").pack
_pack_one_flexible = Struct(">Bihqqq").pack
_ONE_HEAD_SIZE = 10  # without the size itself
_ONE_SIZE = 34
_ONE_HEAD_FLEXIBLE_SIZE = 6
_ONE_FLEXIBLE_SIZE = 31


def _write_one(version: int, correlation_id: int, topic: bytes, result: PartitionResult, throttle_ms: int) -> bytes:
    """Write the most common response, for one appended batch: the same bytes as the general path."""
    fields = (result.index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset)
    if version < FLEXIBLE_FROM:
        tail = pack_i32(throttle_ms)
        if version >= 8:
            tail = _NO_DETAILS_LEGACY + tail
        size = _ONE_HEAD_SIZE + len(topic) + _ONE_SIZE + len(tail)
        return _pack_one_head(size, correlation_id, 1, len(topic)) + topic + _pack_one(1, *fields) + tail
    if version < TOPIC_ID_FROM:
        topic = pack_uvarint(len(topic) + 1) + topic
    # After the partition: no details, the end of the topic, the throttle time, the end of the response.
    tail = _NO_DETAILS_FLEXIBLE + NO_TAGS + pack_i32(throttle_ms) + NO_TAGS
    size = _ONE_HEAD_FLEXIBLE_SIZE + len(topic) + _ONE_FLEXIBLE_SIZE + len(tail)
    return _pack_one_head_flexible(size, correlation_id, 0, 2) + topic + _pack_one_flexible(2, *fields) + tail


_NO_DETAILS_FLEXIBLE = b"\x01\x00\x00"  # no record errors, null message, no tags
_NO_DETAILS_LEGACY = b"\x00\x00\x00\x00\xff\xff"


def _write_details_flexible(parts: list[bytes], result: PartitionResult, version: int) -> None:
    if result.error_code == 0:
        parts.append(_NO_DETAILS_FLEXIBLE)
        return
    parts.append(pack_uvarint(len(result.record_errors) + 1))
    for index, message in result.record_errors:
        parts.append(pack_i32(index) + pack_compact_string(message) + NO_TAGS)
    parts.append(NO_TAGS if result.error_message is None else pack_compact_string(clipped(result.error_message)))
    if result.current_leader is not None and version >= 10:
        parts.append(b"\x01" + write_leader_tag(0, *result.current_leader))
    else:
        parts.append(NO_TAGS)


def _write_details_legacy(parts: list[bytes], result: PartitionResult) -> None:
    if result.error_code == 0:
        parts.append(_NO_DETAILS_LEGACY)
        return
    parts.append(pack_i32(len(result.record_errors)))
    for index, message in result.record_errors:
        parts.append(pack_i32(index) + pack_string(message))
    parts.append(b"\xff\xff" if result.error_message is None else pack_string(clipped(result.error_message)))


def write_leader_tag(tag: int, leader: int, epoch: int) -> bytes:
    """Return the tagged field LeaderIdAndEpoch (KIP-951)."""
    return bytes((tag, 9)) + pack_i32(leader) + pack_i32(epoch) + NO_TAGS


def write_endpoints_tag(endpoints: Iterable[NodeEndpoint]) -> bytes:
    """Return a tag section with NodeEndpoints as its only field, tag 0 (KIP-951)."""
    rows = [
        pack_i32(node)
        + pack_compact_string(host)
        + pack_i32(port)
        + (NO_TAGS if rack is None else pack_compact_string(rack))
        + NO_TAGS
        for node, host, port, rack in endpoints
    ]
    body = pack_uvarint(len(rows) + 1) + b"".join(rows)
    return b"\x01\x00" + pack_uvarint(len(body)) + body
