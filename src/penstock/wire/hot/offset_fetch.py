"""OffsetFetch, versions 1-10: request reader and response writer.

One group in versions 1-7, many from 8 on; both are decoded as many. Version notes: 2 null topics
mean all topics, and a top-level error; 3 throttling; 5 the leader epoch; 6 flexible;
7 require stable offsets; 9 the member and its epoch (KIP-848); 10 topic ids.
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple
from uuid import UUID

from penstock.wire.frame import MalformedRequest
from penstock.wire.hot.primitives import NO_TAGS, pack_i16, pack_i32, read_i32, skip_tags
from penstock.wire.hot.texts import (
    ELEMENT_COUNT_MAX,
    pack_count,
    pack_text,
    read_count,
    read_maybe_count,
    read_maybe_text,
    read_text,
)

NULL_TOPICS_FROM: Final = 2
ERROR_FROM: Final = 2
THROTTLE_FROM: Final = 3
LEADER_EPOCH_FROM: Final = 5
FLEXIBLE_FROM: Final = 6
STABLE_FROM: Final = 7
MANY_GROUPS_FROM: Final = 8
MEMBER_FROM: Final = 9
TOPIC_ID_FROM: Final = 10

_pack_offset_v1 = Struct(">iq").pack
_pack_offset_v5 = Struct(">iqi").pack

Topic = str | UUID
Topics = list[tuple[Topic, tuple[int, ...]]]


class GroupRequest(NamedTuple):
    group_id: str
    member_id: str | None
    member_epoch: int
    topics: Topics | None
    """By name, by id from version 10 on; None requests all topics."""


class OffsetFetchRequest(NamedTuple):
    groups: list[GroupRequest]
    require_stable: bool


class _Reader:
    """The position in a request, and how many more array elements it may have."""

    def __init__(self, version: int, data: bytes) -> None:
        self.version = version
        self.flexible = version >= FLEXIBLE_FROM
        self.data = data
        self.position = 0
        self.elements_left = ELEMENT_COUNT_MAX

    def count(self, least_size: int, *, may_be_null: bool = False) -> int:
        read = read_maybe_count if may_be_null else read_count
        count, self.position = read(self.data, self.position, flexible=self.flexible, least_size=least_size)
        self.elements_left -= count
        if self.elements_left < 0:
            raise MalformedRequest("OffsetFetch request has too many array elements")
        return count

    def text(self) -> str:
        text, self.position = read_text(self.data, self.position, flexible=self.flexible)
        return text

    def tags(self) -> None:
        if self.flexible:
            self.position = skip_tags(self.data, self.position)

    def groups(self) -> list[GroupRequest]:
        groups = []
        for _ in range(self.count(3)):
            group_id = self.text()
            member_id, member_epoch = None, -1
            if self.version >= MEMBER_FROM:
                member_id, self.position = read_maybe_text(self.data, self.position, flexible=True)
                member_epoch = read_i32(self.data, self.position)[0]
                self.position += 4
            groups.append(GroupRequest(group_id, member_id, member_epoch, self.topics()))
            self.tags()
        return groups

    def topics(self) -> Topics | None:
        count = self.count(2, may_be_null=self.version >= NULL_TOPICS_FROM)
        if count < 0:
            return None
        topics: Topics = []
        for _ in range(count):
            topic = self.topic_id() if self.version >= TOPIC_ID_FROM else self.text()
            index_count = self.count(4)
            indexes = Struct(f">{index_count}i").unpack_from(self.data, self.position)
            self.position += 4 * index_count
            topics.append((topic, indexes))
            self.tags()
        return topics

    def topic_id(self) -> UUID:
        raw = self.data[self.position : self.position + 16]
        if len(raw) != 16:
            raise MalformedRequest("a topic id ends after the request")
        self.position += 16
        return UUID(bytes=raw)

    def flag(self) -> bool:
        self.position += 1
        return self.data[self.position - 1] != 0


def read_request(version: int, body: bytes | bytearray | memoryview) -> OffsetFetchRequest:
    reader = _Reader(version, bytes(body))
    try:
        if version >= MANY_GROUPS_FROM:
            groups = reader.groups()
        else:
            groups = [GroupRequest(reader.text(), None, -1, reader.topics())]
        require_stable = reader.flag() if version >= STABLE_FROM else False
        reader.tags()
    except (error, IndexError) as early_end:
        raise MalformedRequest(f"OffsetFetch request ends too early: {early_end}") from None
    return OffsetFetchRequest(groups, require_stable)


class PartitionRow(NamedTuple):
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


class GroupResponse(NamedTuple):
    group_id: str
    topics: Sequence[tuple[Topic, Sequence[PartitionRow]]] = ()
    error_code: int = 0


def write_response(
    version: int, correlation_id: int, groups: Sequence[GroupResponse], *, throttle_ms: int = 0
) -> bytes:
    """Return the whole response frame with size prefix and header."""
    flexible = version >= FLEXIBLE_FROM
    parts = [b"", pack_i32(correlation_id)]
    if flexible:
        parts.append(NO_TAGS)
    if version >= THROTTLE_FROM:
        parts.append(pack_i32(throttle_ms))
    if version >= MANY_GROUPS_FROM:
        parts.append(pack_count(len(groups), flexible=True))
        for group in groups:
            parts.append(pack_text(group.group_id, flexible=True))
            _write_topics(version, parts, group)
            parts += (pack_i16(group.error_code), NO_TAGS)
    else:
        (group,) = groups
        _write_topics(version, parts, group)
        if version >= ERROR_FROM:
            parts.append(pack_i16(group.error_code))
    if flexible:
        parts.append(NO_TAGS)
    parts[0] = pack_i32(sum(map(len, parts)))
    return b"".join(parts)


def _write_topics(version: int, parts: list[bytes], group: GroupResponse) -> None:
    flexible = version >= FLEXIBLE_FROM
    end = NO_TAGS if flexible else b""
    null = b"\x00" if flexible else b"\xff\xff"
    parts.append(pack_count(len(group.topics), flexible=flexible))
    for topic, rows in group.topics:
        parts.append(pack_text(topic, flexible=flexible) if isinstance(topic, str) else topic.bytes)
        parts.append(pack_count(len(rows), flexible=flexible))
        for index, offset, epoch, metadata, code in rows:
            parts.append(
                _pack_offset_v5(index, offset, epoch)
                if version >= LEADER_EPOCH_FROM
                else _pack_offset_v1(index, offset)
            )
            parts.append(null if metadata is None else pack_text(metadata, flexible=flexible))
            parts.append(pack_i16(code) + end)
        parts.append(end)
