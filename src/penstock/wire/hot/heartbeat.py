"""Heartbeat, versions 0-4: request reader and response writer.

Every member of a classic group sends one every few seconds: they are the main load of a node with
many idle consumers. Version notes: 1 adds throttling, 3 the instance id, 4 is flexible.
"""

from struct import Struct, error
from typing import Final, NamedTuple

from penstock.wire.frame import MalformedRequest
from penstock.wire.hot.primitives import read_i32, skip_tags
from penstock.wire.hot.texts import read_maybe_text, read_text

THROTTLE_FROM: Final = 1
INSTANCE_FROM: Final = 3
FLEXIBLE_FROM: Final = 4

_pack_v0 = Struct(">iih").pack
_pack_v1 = Struct(">iiih").pack
_pack_v4 = Struct(">iiBihB").pack


class HeartbeatRequest(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


def read_request(version: int, body: bytes | bytearray | memoryview) -> HeartbeatRequest:
    data = bytes(body)
    flexible = version >= FLEXIBLE_FROM
    try:
        group_id, position = read_text(data, 0, flexible=flexible)
        generation = read_i32(data, position)[0]
        member_id, position = read_text(data, position + 4, flexible=flexible)
        instance_id = None
        if version >= INSTANCE_FROM:
            instance_id, position = read_maybe_text(data, position, flexible=flexible)
        if flexible:
            skip_tags(data, position)
    except (error, IndexError) as early_end:
        raise MalformedRequest(f"Heartbeat request ends too early: {early_end}") from None
    return HeartbeatRequest(group_id, generation, member_id, instance_id)


def write_response(version: int, correlation_id: int, error_code: int, *, throttle_ms: int = 0) -> bytes:
    """Return the whole response frame with size prefix and header."""
    if version >= FLEXIBLE_FROM:
        return _pack_v4(12, correlation_id, 0, throttle_ms, error_code, 0)
    if version >= THROTTLE_FROM:
        return _pack_v1(10, correlation_id, throttle_ms, error_code)
    return _pack_v0(6, correlation_id, error_code)
