"""OffsetCommit, versions 2-10: request reader and response writer.

Version notes: 2-4 carry a retention time, 3 adds throttling, 6 the leader epoch, 7 the instance
id, 8 is flexible, 10 names topics by id (KIP-848).
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple
from uuid import UUID

from penstock.wire.frame import MalformedRequest
from penstock.wire.hot.primitives import NO_TAGS, pack_i32, read_i32, skip_tags
from penstock.wire.hot.texts import ELEMENT_COUNT_MAX, pack_count, pack_text, read_count, read_maybe_text, read_text

RETENTION_UNTIL: Final = 4
THROTTLE_FROM: Final = 3
LEADER_EPOCH_FROM: Final = 6
INSTANCE_FROM: Final = 7
FLEXIBLE_FROM: Final = 8
TOPIC_ID_FROM: Final = 10

_read_i64 = Struct(">q").unpack_from
_read_offset_v2 = Struct(">iq").unpack_from
_read_offset_v6 = Struct(">iqi").unpack_from
_pack_result = Struct(">ih").pack
_pack_result_v8 = Struct(">ihB").pack

REPEATED_END: Final = 16
"""The bytes at the end in which two commits of a consumer for one partition differ, without commit metadata."""
NO_METADATA: Final[dict[bytes, str | None]] = {b"\1\0\0\0": "", b"\0\0\0\0": None}
"""The last four of them: commit metadata that is empty or null, and no tags of partition, topic and request."""
read_repeated_end = Struct(">qi4s").unpack_from
"""The offset, the leader epoch, and what must be one of `NO_METADATA`."""

_ONE_ELEMENT: Final = 2
"""A count of one, encoded plus one."""
_NO_TAGS_THRICE: Final = NO_TAGS * 3
"""No tags of the last partition, its topic and the request."""

Committed = tuple[int, int, int, str | None]
"""A partition, its offset, the leader epoch (-1 for none), and the commit metadata."""
Topic = str | UUID


class OffsetCommitRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    topics: list[tuple[Topic, list[Committed]]]
    """By name, by id from version 10 on."""


def read_request(version: int, body: bytes | bytearray | memoryview) -> OffsetCommitRequest:
    data = bytes(body)
    one = read_one(version, data) if version >= FLEXIBLE_FROM else None
    return one or read_any(version, data)


def read_any(version: int, data: bytes) -> OffsetCommitRequest:
    """Decode a request of any form."""
    flexible = version >= FLEXIBLE_FROM
    try:
        group_id, position = read_text(data, 0, flexible=flexible)
        generation = read_i32(data, position)[0]
        member_id, position = read_text(data, position + 4, flexible=flexible)
        instance_id = None
        if version >= INSTANCE_FROM:
            instance_id, position = read_maybe_text(data, position, flexible=flexible)
        retention_ms = -1
        if version <= RETENTION_UNTIL:
            retention_ms = _read_i64(data, position)[0]
            position += 8
        topics = _read_topics(version, data, position)
    except (error, IndexError) as early_end:
        raise MalformedRequest(f"OffsetCommit request ends too early: {early_end}") from None
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, retention_ms, topics)


def read_one(version: int, data: bytes) -> OffsetCommitRequest | None:
    """Decode the most common request: one partition, and strings whose sizes take one byte.

    Return None for any other request, valid or not: `read_any` then decodes it or reports the error. A size is encoded
    plus one, so a string ends that far behind its size. A field that ends after the request fails the last comparison.
    """
    try:
        if not 0 < (size := data[0]) < 0x80:
            return None
        group_id = data[1:size].decode()
        generation = read_i32(data, size)[0]
        start = size + 4
        if not 0 < (size := data[start]) < 0x80:
            return None
        position = start + size
        member_id = data[start + 1 : position].decode()
        instance_id = None
        if not (size := data[position]):
            position += 1
        else:
            start, position = position, position + size
            instance_id = data[start + 1 : position].decode()
        if size > 0x7F or data[position] != _ONE_ELEMENT:
            return None
        position += 1
        topic: Topic
        if version >= TOPIC_ID_FROM:
            topic = UUID(bytes=data[position : position + 16])
            position += 16
        else:
            if not 0 < (size := data[position]) < 0x80:
                return None
            start, position = position, position + size
            topic = data[start + 1 : position].decode()
        if data[position] != _ONE_ELEMENT:
            return None
        index, offset, epoch = _read_offset_v6(data, position + 1)
        start = position + 17
        size = data[start]
        position = start + (size or 1)
        metadata = data[start + 1 : position].decode() if size else None
    except (error, IndexError, ValueError):
        return None
    if size > 0x7F or data[position:] != _NO_TAGS_THRICE:
        return None
    row = (index, offset, epoch, metadata)
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, -1, [(topic, [row])])


def _read_topics(version: int, data: bytes, position: int) -> list[tuple[Topic, list[Committed]]]:
    flexible = version >= FLEXIBLE_FROM
    topic_count, position = read_count(data, position, flexible=flexible, least_size=2)
    left = ELEMENT_COUNT_MAX - topic_count
    topics: list[tuple[Topic, list[Committed]]] = []
    for _ in range(topic_count):
        topic: Topic
        if version >= TOPIC_ID_FROM:
            topic = UUID(bytes=_exactly(data, position, 16))
            position += 16
        else:
            topic, position = read_text(data, position, flexible=flexible)
        count, position = read_count(data, position, flexible=flexible, least_size=13)
        left -= count
        if left < 0:
            raise MalformedRequest("OffsetCommit request has too many array elements")
        partitions: list[Committed] = []
        for _ in range(count):
            if version >= LEADER_EPOCH_FROM:
                index, offset, epoch = _read_offset_v6(data, position)
                position += 16
            else:
                index, offset = _read_offset_v2(data, position)
                epoch = -1
                position += 12
            metadata, position = read_maybe_text(data, position, flexible=flexible)
            partitions.append((index, offset, epoch, metadata))
            if flexible:
                position = skip_tags(data, position)
        topics.append((topic, partitions))
        if flexible:
            position = skip_tags(data, position)
    if flexible:
        skip_tags(data, position)
    return topics


def _exactly(data: bytes, position: int, size: int) -> bytes:
    taken = data[position : position + size]
    if len(taken) != size:
        raise MalformedRequest("a topic id ends after the request")
    return taken


def write_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[Topic, Sequence[tuple[int, int]]]],
    *,
    throttle_ms: int = 0,
) -> bytes:
    """Return the whole response frame with size prefix and header. A row is a partition and its error code."""
    flexible = version >= FLEXIBLE_FROM
    parts = [b"", pack_i32(correlation_id)]
    if flexible:
        parts.append(NO_TAGS)
    if version >= THROTTLE_FROM:
        parts.append(pack_i32(throttle_ms))
    parts.append(pack_count(len(topics), flexible=flexible))
    for topic, results in topics:
        parts.append(pack_text(topic, flexible=flexible) if isinstance(topic, str) else topic.bytes)
        parts.append(pack_count(len(results), flexible=flexible))
        if flexible:
            parts += [_pack_result_v8(index, code, 0) for index, code in results]
            parts.append(NO_TAGS)
        else:
            parts += [_pack_result(index, code) for index, code in results]
    if flexible:
        parts.append(NO_TAGS)
    parts[0] = pack_i32(sum(map(len, parts)))
    return b"".join(parts)


class PreparedResponse:
    """A response that is complete except for the correlation id."""

    __slots__ = ("_rest", "_size")

    def __init__(self, version: int, topics: Sequence[tuple[Topic, Sequence[tuple[int, int]]]]) -> None:
        whole = write_response(version, 0, topics)
        self._size, self._rest = whole[:4], whole[8:]

    def to(self, correlation_id: int) -> bytes:
        return self._size + pack_i32(correlation_id) + self._rest
