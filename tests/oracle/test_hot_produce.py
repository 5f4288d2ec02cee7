"""Our Produce codec against kio's, over every version."""

from datetime import timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from penstock.wire.frame import MalformedRequest
from penstock.wire.hot import produce
from penstock.wire.hot.produce import FLEXIBLE_FROM, TOPIC_ID_FROM, PartitionResult, read_request, write_response

PRODUCE = 0
versions = st.integers(3, 13)
names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
ids = st.uuids(version=4)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
zeros = st.integers(0, 40_000).map(bytes)
partitions = st.lists(st.tuples(int32, st.none() | st.binary(max_size=300)), max_size=3)
requests = st.tuples(
    st.none() | st.text(max_size=20),
    st.sampled_from([-1, 0, 1, 7]),
    st.integers(0, 2**31 - 1),
    st.lists(st.tuples(names, ids, partitions), max_size=3),
)


def encoded_by_kio(version: int, wanted: Any) -> bytes:
    transactional_id, acks, timeout_ms, topics = wanted
    schema: Any = load_request_schema(PRODUCE, version)
    fields = schema.__dataclass_fields__
    topic_type = fields["topic_data"].type.__args__[0]
    partition_type = topic_type.__dataclass_fields__["partition_data"].type.__args__[0]
    entity = schema(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=tuple(
            topic_type(
                **({"topic_id": topic_id} if version >= TOPIC_ID_FROM else {"name": name}),
                partition_data=tuple(partition_type(index=index, records=records) for index, records in rows),
            )
            for name, topic_id, rows in topics
        ),
    )
    buffer = BytesIO()
    entity_writer(schema)(buffer, entity)
    return buffer.getvalue()


@given(versions, requests)
def test_requests_are_read_as_kio_wrote_them(version: int, wanted: Any) -> None:
    body = encoded_by_kio(version, wanted)
    request = read_request(memoryview(bytearray(b"head" + body)), 4, version)
    transactional_id, acks, timeout_ms, topics = wanted
    assert (request.transactional_id, request.acks, request.timeout_ms) == (transactional_id, acks, timeout_ms)
    seen = [
        (topic, [(index, None if records is None else bytes(records)) for index, records in rows])
        for topic, rows in request.topics
    ]
    assert seen == [
        (topic_id.bytes if version >= TOPIC_ID_FROM else name.encode(), rows) for name, topic_id, rows in topics
    ]


one_batch = st.tuples(
    st.none(),
    st.sampled_from([-1, 0, 1]),
    st.integers(0, 2**31 - 1),
    st.lists(
        st.tuples(names, ids, st.lists(st.tuples(int32, st.binary(max_size=300) | zeros), min_size=1, max_size=1)),
        min_size=1,
        max_size=1,
    ),
)


@given(st.integers(FLEXIBLE_FROM, 13), one_batch, st.data())
def test_the_quick_reader_of_one_batch_reads_what_the_general_one_reads(
    version: int, wanted: Any, data: st.DataObject
) -> None:
    body = bytearray(encoded_by_kio(version, wanted))
    by_id = version >= TOPIC_ID_FROM
    quick = produce._read_one(memoryview(body), 0, by_id)
    assert fields_of(quick) == fields_of(produce._read_flexible(memoryview(body), 0, by_id=by_id))
    for _ in range(data.draw(st.integers(1, 3))):
        # Counts, sizes and tags are at both ends.
        at = data.draw(st.integers(0, min(len(body), 50) - 1) | st.integers(max(len(body) - 4, 0), len(body) - 1))
        body[at] = data.draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF]) | st.integers(0, 255))
    changed = bytes(body[: data.draw(st.just(len(body)) | st.integers(0, len(body)))])
    quick = produce._read_one(memoryview(changed), 0, by_id)
    assert quick is None or fields_of(quick) == fields_of(produce._read_flexible(memoryview(changed), 0, by_id=by_id))


def fields_of(request: produce.ProduceRequest | None) -> tuple[Any, ...] | None:
    if request is None:
        return None
    topics = [(name, [(index, bytes(records or b"")) for index, records in rows]) for name, rows in request.topics]
    return request.transactional_id, request.acks, request.timeout_ms, topics


@given(versions, requests, st.data())
def test_a_request_that_ends_early_is_malformed(version: int, wanted: Any, data: st.DataObject) -> None:
    body = encoded_by_kio(version, wanted)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(MalformedRequest):
        read_request(memoryview(bytearray(body[:cut])), 0, version)


def test_a_wrong_count_is_malformed() -> None:
    legacy = b"\xff\xff" + b"\x00\x01" + b"\x00\x00\x00\x00" + b"\x7f\xff\xff\xff"
    with pytest.raises(MalformedRequest):
        read_request(memoryview(legacy), 0, 3)
    flexible = b"\x00" + b"\x00\x01" + b"\x00\x00\x00\x00" + b"\xff\xff\xff\xff\x07"
    with pytest.raises(MalformedRequest):
        read_request(memoryview(flexible), 0, 9)


errors = st.sampled_from([0, 0, 2, 3, 6, 87])
details = st.lists(st.tuples(st.integers(0, 100), st.text(max_size=10)), max_size=2)
messages = st.none() | st.text(max_size=20)
results = st.lists(st.tuples(int32, errors, int64, st.just(-1), int64, details, messages), max_size=3)


def one_success(topics: Any) -> bool:
    """Return whether the response takes the fast path, which has no leader."""
    return len(topics) == 1 and len(topics[0][2]) == 1 and topics[0][2][0][1] == 0


@given(st.integers(5, 13), int32, names, ids, int32, st.tuples(int64, int64, int64), st.integers(0, 5000))
def test_the_fast_path_writes_the_bytes_of_the_general_one(
    version: int, correlation_id: int, name: str, topic_id: UUID, index: int, offsets: Any, throttle_ms: int
) -> None:
    key = topic_id.bytes if version >= TOPIC_ID_FROM else name.encode()
    one = (key, [PartitionResult(index, 0, *offsets)])
    short = write_response(version, correlation_id, [one], throttle_ms=throttle_ms)
    # Two topics take the general path; the bytes of the second are cut out again.
    flexible = version >= FLEXIBLE_FROM
    long = write_response(version, correlation_id, [one, (key, [])], throttle_ms=throttle_ms)
    empty_topic = len(long) - len(short)
    tail = 5 if flexible else 4
    count_at = 9 if flexible else 11
    joined = bytearray(long[: len(long) - tail - empty_topic] + long[len(long) - tail :])
    joined[:4] = (len(joined) - 4).to_bytes(4, "big")
    joined[count_at] -= 1
    assert short == bytes(joined)


def made(row: Any, leader: tuple[int, int] | None) -> PartitionResult:
    result = PartitionResult(*row)
    result.current_leader = leader
    return result


@given(versions, int32, st.integers(0, 5000), st.lists(st.tuples(names, ids, results), max_size=3), st.booleans())
def test_kio_reads_the_responses_that_we_write(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    topics: list[tuple[str, UUID, list[Any]]],
    with_leader: bool,
) -> None:
    endpoints = [(1, "localhost", 9092, "rack-a")] if with_leader else []
    frame = write_response(
        version,
        correlation_id,
        [
            (
                topic_id.bytes if version >= TOPIC_ID_FROM else name.encode(),
                [made(row, (1, 5) if with_leader else None) for row in rows],
            )
            for name, topic_id, rows in topics
        ],
        throttle_ms=throttle_ms,
        endpoints=endpoints,
    )
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert int.from_bytes(frame[4:8], "big", signed=True) == correlation_id
    body = frame[9:] if version >= FLEXIBLE_FROM else frame[8:]
    schema: Any = load_response_schema(PRODUCE, version)
    response, size = entity_reader(schema)(body, 0)
    assert size == len(body)
    assert response.throttle_time == timedelta(milliseconds=throttle_ms)
    for (name, topic_id, rows), seen_topic in zip(topics, response.responses, strict=True):
        assert (seen_topic.topic_id == topic_id) if version >= TOPIC_ID_FROM else (seen_topic.name == name)
        for row, seen in zip(rows, seen_topic.partition_responses, strict=True):
            index, code, base_offset, _, log_start, record_errors, message = row
            assert (seen.index, int(seen.error_code), seen.base_offset) == (index, code, base_offset)
            if version >= 5:
                assert seen.log_start_offset == log_start
            if version >= 8 and code:
                shown = [(error.batch_index, error.batch_index_error_message) for error in seen.record_errors]
                assert (shown, seen.error_message) == (record_errors, message)
            if version >= 10 and code and with_leader:
                assert (seen.current_leader.leader_id, seen.current_leader.leader_epoch) == (1, 5)
    if version >= 10 and with_leader and not one_success(topics):
        assert [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints] == endpoints
