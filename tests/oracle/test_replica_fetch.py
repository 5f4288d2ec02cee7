"""The follower's side of Fetch against the leader's codec, which is tested against kio."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.fetch.v17.request import FetchRequest as KioRequest
from kio.serial import entity_reader

from penstock.wire.api import ApiKey
from penstock.wire.frame import parse_header
from penstock.wire.hot.fetch import PartitionAnswer, read_request, write_response
from penstock.wire.hot.replica_fetch import VERSION, Fetch, read_response, write_request

int32s = st.integers(-1, 2**31 - 1)
int64s = st.integers(-1, 2**63 - 1)
topics = st.sampled_from([UUID(int=each).bytes for each in (1, 2, 3)])
requested = st.tuples(topics, st.integers(0, 300), int32s, int64s, int32s, int64s, int32s)


def fetch(broker_epoch: int = 12, session_epoch: int = 3) -> Fetch:
    made = Fetch(7)
    made.broker_epoch, made.session_id, made.session_epoch = broker_epoch, 99, session_epoch
    made.max_wait_ms, made.min_bytes, made.max_bytes = 500, 1, 10_000_000
    return made


@given(st.lists(requested, max_size=5), st.lists(st.tuples(topics, st.integers(0, 9)), max_size=3), int64s)
def test_a_leader_reads_what_a_follower_writes(
    rows: list[tuple[bytes, int, int, int, int, int, int]], gone: list[tuple[bytes, int]], broker_epoch: int
) -> None:
    frame = memoryview(write_request(fetch(broker_epoch), 55, b"broker-7", rows, gone))[4:]
    header = parse_header(frame)
    assert (header.api_key, header.version, header.correlation_id) == (ApiKey.FETCH, VERSION, 55)
    request = read_request(frame, header.body_position, header.version)
    assert (request.replica_id, request.replica_epoch) == (7, broker_epoch)
    assert (request.session_id, request.session_epoch, request.max_wait_ms) == (99, 3, 500)
    read = [
        (each.topic, each.index, each.current_leader_epoch, each.offset, each.last_fetched_epoch,
         each.log_start_offset, each.max_bytes)
        for each in request.partitions
    ]  # fmt: skip
    assert sorted(read) == sorted(rows)
    assert sorted(request.forgotten) == sorted(gone)


@pytest.mark.parametrize("gone", [[], [(UUID(int=6).bytes, 1)]])
def test_kio_reads_what_a_follower_writes(gone: list[tuple[bytes, int]]) -> None:
    row = (UUID(int=5).bytes, 3, 4, 100, 2, 10, 1 << 20)
    frame = memoryview(write_request(fetch(), 55, b"broker-7", [row], gone))[4:]
    header = parse_header(frame)
    entity, _ = entity_reader(KioRequest)(frame, header.body_position)
    assert (entity.replica_state.replica_id, entity.replica_state.replica_epoch) == (7, 12)
    partition = entity.topics[0].partitions[0]
    assert (partition.partition, partition.fetch_offset, partition.last_fetched_epoch) == (3, 100, 2)
    assert [each.partitions for each in entity.forgotten_topics_data] == [(1,) for _ in gone]


def test_another_request_with_the_length_of_the_fast_path_is_read_correctly() -> None:
    row = (UUID(int=5).bytes, 3, 4, 100, 2, 10, 1 << 20)
    frame = bytearray(write_request(fetch(), 55, b"broker-7", [row])[4:])
    header = parse_header(memoryview(frame))
    # In place of an empty rack and the replica state: a rack, no tagged field, and two bytes that are ignored.
    frame[-17:] = b"\x0e" + b"r" * 13 + b"\x00" + frame[-2:]
    request = read_request(memoryview(frame), header.body_position, header.version)
    assert (request.rack, request.replica_id, request.partitions[0].offset) == ("r" * 13, -1, 100)


answers = st.builds(
    PartitionAnswer,
    topics,
    st.integers(0, 300),
    st.sampled_from([0, 6, 74]),
    int64s,
    int64s,
    int64s,
)


@given(
    st.lists(st.tuples(answers, st.none() | st.binary(min_size=1, max_size=99), st.none() | st.tuples(int32s, int64s))),
    int32s,
)
def test_a_follower_reads_what_a_leader_writes(
    made: list[tuple[PartitionAnswer, bytes | None, tuple[int, int] | None]], session_id: int
) -> None:
    expected = []
    for answer, records, diverging in made:
        if records is not None:
            answer.records, answer.size = records, len(records)
        answer.diverging = diverging
        answer.current_leader = (4, 9) if answer.error_code else None
        expected.append(
            (answer.topic, answer.index, answer.error_code, answer.high_watermark, answer.log_start_offset,
             diverging, records)
        )  # fmt: skip
    parts = write_response(VERSION, 77, [answer for answer, _, _ in made], session_id=session_id)
    frame = memoryview(b"".join(bytes(part) for part in parts))[4:]  # type: ignore[arg-type]
    correlation_id, response = read_response(frame)
    assert (correlation_id, response.session_id, response.error_code) == (77, session_id, 0)
    assert [(*row[:6], None if row[6] is None else bytes(row[6])) for row in response.rows] == expected
