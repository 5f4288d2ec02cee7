"""ConsumerGroupHeartbeat, versions 0-1: request reader and response writer.

Every member of the consumer protocol sends one every few seconds, and nearly all of them carry no change:
they are the main load of a node with many idle consumers. Version notes: 1 adds the regular expression.
"""

from collections.abc import Iterable, Mapping
from struct import Struct, error
from typing import Final, NamedTuple
from uuid import UUID

from penstock.wire.frame import MalformedRequest, clipped
from penstock.wire.hot.primitives import NO_TAGS, pack_compact_string, pack_i32, pack_uvarint, read_i32, skip_tags
from penstock.wire.hot.texts import ELEMENT_COUNT_MAX, read_count, read_maybe_count, read_maybe_text, read_text

REGEX_FROM: Final = 1
NULL_TEXT: Final = b"\x00"
_NO_ASSIGNMENT: Final = b"\xff"
_AN_ASSIGNMENT: Final = b"\x01"
_UUID_SIZE: Final = 16

_pack_head = Struct(">iiBih").pack
_pack_epoch_and_interval = Struct(">ii").pack


class ConsumerGroupHeartbeatRequest(NamedTuple):
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topic_names: tuple[str, ...] | None
    topic_regex: str | None
    server_assignor: str | None
    owned: dict[UUID, frozenset[int]] | None


def read_request(version: int, body: bytes | bytearray | memoryview) -> ConsumerGroupHeartbeatRequest:
    data = bytes(body)
    try:
        group_id, position = read_text(data, 0, flexible=True)
        member_id, position = read_text(data, position, flexible=True)
        member_epoch = read_i32(data, position)[0]
        instance_id, position = read_maybe_text(data, position + 4, flexible=True)
        rack_id, position = read_maybe_text(data, position, flexible=True)
        rebalance_timeout_ms = read_i32(data, position)[0]
        topic_names, position = _read_names(data, position + 4)
        topic_regex = None
        if version >= REGEX_FROM:
            topic_regex, position = read_maybe_text(data, position, flexible=True)
        server_assignor, position = read_maybe_text(data, position, flexible=True)
        owned, position = _read_owned(data, position)
        skip_tags(data, position)
    except (error, IndexError) as early_end:
        raise MalformedRequest(f"ConsumerGroupHeartbeat request ends too early: {early_end}") from None
    return ConsumerGroupHeartbeatRequest(
        group_id,
        member_id,
        member_epoch,
        instance_id,
        rack_id,
        rebalance_timeout_ms,
        topic_names,
        topic_regex,
        server_assignor,
        owned,
    )


def _read_names(data: bytes, position: int) -> tuple[tuple[str, ...] | None, int]:
    count, position = read_maybe_count(data, position, flexible=True, least_size=1)
    if count < 0:
        return None, position
    names = []
    for _ in range(count):
        name, position = read_text(data, position, flexible=True)
        names.append(name)
    return tuple(names), position


def _read_owned(data: bytes, position: int) -> tuple[dict[UUID, frozenset[int]] | None, int]:
    count, position = read_maybe_count(data, position, flexible=True, least_size=_UUID_SIZE + 2)
    if count < 0:
        return None, position
    owned: dict[UUID, frozenset[int]] = {}
    left = ELEMENT_COUNT_MAX
    for _ in range(count):
        raw = data[position : position + _UUID_SIZE]
        if len(raw) != _UUID_SIZE:
            raise MalformedRequest("a topic id ends after the request")
        topic_id = UUID(bytes=raw)
        size, position = read_count(data, position + _UUID_SIZE, flexible=True, least_size=4)
        left -= size
        if left < 0:
            raise MalformedRequest(f"the request has more than {ELEMENT_COUNT_MAX} array elements")
        owned[topic_id] = frozenset(read_i32(data, position + 4 * index)[0] for index in range(size))
        position = skip_tags(data, position + 4 * size)
    return owned, position


def write_response(
    correlation_id: int,
    error_code: int,
    error_message: str | None,
    *,
    member_id: str | None,
    member_epoch: int,
    heartbeat_interval_ms: int,
    assignment: Mapping[UUID, Iterable[int]] | None,
    throttle_ms: int = 0,
) -> bytes:
    """Return the whole response frame with size prefix and header; both versions are alike."""
    rest = b"".join(
        (
            NULL_TEXT if error_message is None else pack_compact_string(clipped(error_message)),
            NULL_TEXT if member_id is None else pack_compact_string(member_id),
            _pack_epoch_and_interval(member_epoch, heartbeat_interval_ms),
            _NO_ASSIGNMENT if assignment is None else _pack_assignment(assignment),
            NO_TAGS,
        )
    )
    return _pack_head(len(rest) + 11, correlation_id, 0, throttle_ms, error_code) + rest


def _pack_assignment(assignment: Mapping[UUID, Iterable[int]]) -> bytes:
    parts = [_AN_ASSIGNMENT, pack_uvarint(len(assignment) + 1)]
    for topic_id, partitions in assignment.items():
        ordered = sorted(partitions)
        parts += [topic_id.bytes, pack_uvarint(len(ordered) + 1), *map(pack_i32, ordered), NO_TAGS]
    parts.append(NO_TAGS)
    return b"".join(parts)
