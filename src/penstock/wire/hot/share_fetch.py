"""ShareFetch, versions 1-2: the writer of responses, whose records are slices of files."""

from collections.abc import Sequence
from struct import Struct
from typing import Protocol

from penstock.ports.network import FileSlice, Part
from penstock.wire.hot.primitives import NO_TAGS, pack_i16, pack_i32, pack_uvarint
from penstock.wire.hot.produce import NodeEndpoint

_pack_range = Struct(">qqhB").pack
_pack_leader = Struct(">iiB").pack


class Range(Protocol):
    """Acquired offsets and their delivery count."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def delivery_count(self) -> int: ...


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
        self.acquired: Sequence[Range] = ()


def write_response(
    correlation_id: int,
    answers: Sequence[ShareAnswer],
    *,
    error_code: int = 0,
    error_message: str | None = None,
    lock_timeout_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Part]:
    """Return the whole response frame as parts; the answers of one topic must follow each other."""
    head = buffer = bytearray(4)
    parts: list[Part] = [buffer]
    sent = 0
    buffer += pack_i32(correlation_id) + NO_TAGS
    buffer += pack_i32(0) + pack_i16(error_code) + _text(error_message) + pack_i32(lock_timeout_ms)
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
            for each in answer.acquired:
                buffer += _pack_range(each.first, each.last, each.delivery_count, 0)
            buffer += NO_TAGS
        buffer += NO_TAGS
    buffer += pack_uvarint(len(endpoints) + 1)
    for node_id, host, port, rack in endpoints:
        buffer += pack_i32(node_id) + _text(host) + pack_i32(port) + _text(rack) + NO_TAGS
    buffer += NO_TAGS
    sent += len(buffer)
    head[:4] = pack_i32(sent - 4)
    return parts


def _text(text: str | None) -> bytes:
    if text is None:
        return b"\x00"
    encoded = text.encode()
    return pack_uvarint(len(encoded) + 1) + encoded
