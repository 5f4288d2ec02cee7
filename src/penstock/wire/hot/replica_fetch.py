"""Fetch requests of a follower, version 17: request writer and response reader.

The counterpart of `fetch.py`. Records stay in the frame: rows hold slices of it. Version 17 has topic ids,
the replica's broker epoch (KIP-903) and diverging epochs; every broker that can be a leader here supports it.
Refuses: MalformedRequest for a response that is cut short.
"""

from collections.abc import Iterable, Sequence
from struct import Struct, error
from typing import Final

from penstock.wire.api import ApiKey
from penstock.wire.frame import MalformedRequest
from penstock.wire.hot.fetch import ONE_REQUEST_FORMAT, ONE_REQUEST_TAIL, ONE_RESPONSE_END, ONE_RESPONSE_FORMAT
from penstock.wire.hot.primitives import NO_TAGS, pack_i32, pack_uvarint, read_count, read_i32, read_uvarint, skip_tags

VERSION: Final = 17
_DIVERGING_TAG: Final = 0

RequestedPartition = tuple[bytes, int, int, int, int, int, int]
"""Topic id, index, leader epoch, fetch offset, epoch of the last batch, log start offset, maximum bytes."""
Row = tuple[bytes, int, int, int, int, tuple[int, int] | None, memoryview | None]
"""Topic id, index, error, high watermark, log start offset, diverging epoch and its end, records."""

_pack_head: Final = Struct(">hhih").pack
_pack_limits: Final = Struct(">iiibii").pack
_pack_partition: Final = Struct(">iiqiqiB").pack
_pack_replica_state: Final = Struct(">BBBiqB").pack
_read_top: Final = Struct(">ihi").unpack_from
_read_partition: Final = Struct(">ihqqq").unpack_from
_read_diverging: Final = Struct(">iq").unpack_from
_REPLICA_STATE_SIZE: Final = 13
# A request that names one partition and forgets none, and its response: most requests are such.
_pack_head_and_size: Final = Struct(">ihhih").pack
_ONE_REQUEST: Final = Struct(">B" + ONE_REQUEST_FORMAT)
_pack_one: Final = _ONE_REQUEST.pack
_ONE_ANSWER: Final = Struct(">" + ONE_RESPONSE_FORMAT)
_ONE_ANSWER_SIZE: Final = _ONE_ANSWER.size
_read_one: Final = _ONE_ANSWER.unpack_from


class Fetch:
    """The fields of one request except its partitions."""

    __slots__ = ("broker_epoch", "max_bytes", "max_wait_ms", "min_bytes", "replica_id", "session_epoch", "session_id")

    def __init__(self, replica_id: int) -> None:
        self.replica_id = replica_id
        self.broker_epoch = -1
        self.max_wait_ms = 0
        self.min_bytes = 1
        self.max_bytes = 0
        self.session_id = 0
        self.session_epoch = 0


def write_request(
    fetch: Fetch,
    correlation_id: int,
    client_id: bytes,
    partitions: Sequence[RequestedPartition],
    forgotten: Sequence[tuple[bytes, int]] = (),
) -> bytes:
    """Return the whole frame with its size. Partitions of one topic must be adjacent."""
    if len(partitions) == 1 and not forgotten:
        return _write_one(fetch, correlation_id, client_id, partitions[0])
    parts = [
        b"",
        _pack_head(ApiKey.FETCH, VERSION, correlation_id, len(client_id)),
        client_id,
        NO_TAGS,
        _pack_limits(fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, 0, fetch.session_id, fetch.session_epoch),
    ]
    topics = _grouped(partitions)
    parts.append(pack_uvarint(len(topics) + 1))
    for topic, rows in topics:
        parts.append(topic)
        parts.append(pack_uvarint(len(rows) + 1))
        parts.extend([_pack_partition(*row[1:], 0) for row in rows])
        parts.append(NO_TAGS)
    gone = _grouped(forgotten)
    parts.append(pack_uvarint(len(gone) + 1))
    for topic, indexes in gone:
        parts.append(topic)
        parts.append(pack_uvarint(len(indexes) + 1))
        parts.extend([pack_i32(row[1]) for row in indexes])
        parts.append(NO_TAGS)
    # An empty rack, then the replica state as the only tagged field.
    parts.append(b"\x01")
    parts.append(_pack_replica_state(1, 1, _REPLICA_STATE_SIZE, fetch.replica_id, fetch.broker_epoch, 0))
    parts[0] = pack_i32(sum(map(len, parts)))
    return b"".join(parts)


def _write_one(fetch: Fetch, correlation_id: int, client_id: bytes, partition: RequestedPartition) -> bytes:
    """Write a request for one partition: the same bytes as the general path."""
    head = _pack_head_and_size(
        10 + len(client_id) + _ONE_REQUEST.size, ApiKey.FETCH, VERSION, correlation_id, len(client_id)
    )
    topic, index, leader_epoch, offset, epoch, start, size = partition
    return head + client_id + _pack_one(
        0, fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, 0, fetch.session_id, fetch.session_epoch,
        2, topic, 2, index, leader_epoch, offset, epoch, start, size,
        ONE_REQUEST_TAIL, fetch.replica_id, fetch.broker_epoch, 0,
    )  # fmt: skip


def _grouped(
    rows: Iterable[tuple[bytes, ...]] | Sequence[RequestedPartition] | Sequence[tuple[bytes, int]],
) -> list[tuple[bytes, list[tuple[bytes, int]]]]:
    topics: dict[bytes, list[tuple[bytes, int]]] = {}
    for row in rows:
        topics.setdefault(row[0], []).append(row)  # type: ignore[arg-type]
    return list(topics.items())


class Answer:
    """One response: a top-level error, or rows."""

    __slots__ = ("error_code", "rows", "session_id", "throttle_ms")

    def __init__(self, throttle_ms: int, error_code: int, session_id: int, rows: list[Row]) -> None:
        self.throttle_ms = throttle_ms
        self.error_code = error_code
        self.session_id = session_id
        self.rows = rows


def read_response(frame: memoryview) -> tuple[int, Answer]:
    """Decode a response; return the correlation id and the answer. Its records are valid as long as the frame."""
    if len(frame) > _ONE_ANSWER_SIZE and (one := _read_one_row(frame)) is not None:
        return one
    try:
        correlation_id: int = read_i32(frame, 0)[0]
        position = skip_tags(frame, 4)
        throttle_ms, error_code, session_id = _read_top(frame, position)
        rows: list[Row] = []
        topic_count, position = read_count(frame, position + 10, flexible=True)
        for _ in range(topic_count):
            topic = bytes(frame[position : position + 16])
            partition_count, position = read_count(frame, position + 16, flexible=True)
            for _ in range(partition_count):
                position = _read_row(frame, position, topic, rows)
            position = skip_tags(frame, position)
        return correlation_id, Answer(throttle_ms, error_code, session_id, rows)
    except (error, IndexError) as early_end:
        raise MalformedRequest(f"Fetch response ends too early: {early_end}") from None


def _read_one_row(frame: memoryview) -> tuple[int, Answer] | None:
    """Decode a response with records of one partition and nothing else; return None for any other response."""
    (
        correlation_id, tags, throttle_ms, error_code, session_id, topics, topic, rows,
        index, code, mark, _, start, aborted, _,
    ) = _read_one(frame, 0)  # fmt: skip
    if topics != 2 or rows != 2 or tags or aborted:
        return None
    size, position = read_uvarint(frame, _ONE_ANSWER_SIZE)
    end = position + size - 1
    if size < 2 or bytes(frame[end:]) != ONE_RESPONSE_END:
        return None
    row = (topic, index, code, mark, start, None, frame[position:end])
    return correlation_id, Answer(throttle_ms, error_code, session_id, [row])


def _read_row(frame: memoryview, position: int, topic: bytes, rows: list[Row]) -> int:
    index, code, mark, _, start = _read_partition(frame, position)
    count, position = read_uvarint(frame, position + 30)
    for _ in range(count - 1):
        position = skip_tags(frame, position + 16)
    # The preferred read replica is for consumers.
    size, position = read_uvarint(frame, position + 4)
    records = None
    if size > 1:
        records = frame[position : position + size - 1]
        if len(records) != size - 1:
            raise MalformedRequest("Fetch response ends inside the records")
        position += size - 1
    diverging = None
    if frame[position]:
        diverging, position = _read_tags(frame, position)
    else:
        position += 1
    rows.append((topic, index, code, mark, start, diverging, records))
    return position


def _read_tags(frame: memoryview, position: int) -> tuple[tuple[int, int] | None, int]:
    diverging = None
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        if tag == _DIVERGING_TAG:
            diverging = _read_diverging(frame, position)
        position += size
    return diverging, position
