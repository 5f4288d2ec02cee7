"""Our Fetch codec against kio's, over every version."""

from datetime import timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from penstock.ports.network import FileSlice
from penstock.wire.frame import MalformedRequest
from penstock.wire.hot.fetch import FLEXIBLE_FROM, TOPIC_ID_FROM, PartitionAnswer, read_request, write_response

FETCH = 1
versions = st.integers(4, 18)
names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30)
ids = st.uuids(version=4)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
positive = st.integers(0, 2**31 - 1)
requested = st.fixed_dictionaries(
    {
        "partition": int32,
        "current_leader_epoch": int32,
        "fetch_offset": int64,
        "last_fetched_epoch": int32,
        "log_start_offset": int64,
        "partition_max_bytes": int32,
    }
)
topics = st.lists(st.tuples(names, ids, st.lists(requested, max_size=3)), max_size=3)
forgotten = st.lists(st.tuples(names, ids, st.lists(int32, max_size=3)), max_size=2)
racks = st.just("") | names
requests = st.tuples(int32, positive, int32, int32, st.sampled_from([0, 1]), int32, int32, topics, forgotten, racks)
one_partition = st.lists(st.tuples(names, ids, st.lists(requested, min_size=1, max_size=1)), min_size=1, max_size=1)
requests_of_consumers = st.tuples(
    st.just(-1), positive, int32, int32, st.sampled_from([0, 1]), int32, int32, one_partition, st.just([]), racks
)


def fields_of(entity_type: Any) -> Any:
    return entity_type.__dataclass_fields__


def only_known(entity_type: Any, values: dict[str, Any]) -> Any:
    return entity_type(**{name: value for name, value in values.items() if name in fields_of(entity_type)})


def item_type(entity_type: Any, field: str) -> Any:
    return fields_of(entity_type)[field].type.__args__[0]


def encoded_by_kio(version: int, wanted: Any) -> bytes:
    replica, wait, least, most, isolation, session, epoch, requested_topics, gone, rack = wanted
    schema = load_request_schema(FETCH, version)
    topic_type = item_type(schema, "topics")
    values: dict[str, Any] = {
        "replica_id": replica,
        "max_wait": timedelta(milliseconds=wait),
        "min_bytes": least,
        "max_bytes": most,
        "isolation_level": isolation,
        "session_id": session,
        "session_epoch": epoch,
        "rack_id": rack,
        "topics": tuple(
            only_known(
                topic_type,
                {
                    "topic": name,
                    "topic_id": topic_id,
                    "partitions": tuple(only_known(item_type(topic_type, "partitions"), row) for row in rows),
                },
            )
            for name, topic_id, rows in requested_topics
        ),
    }
    if version >= 7:
        gone_type = item_type(schema, "forgotten_topics_data")
        values["forgotten_topics_data"] = tuple(
            only_known(gone_type, {"topic": name, "topic_id": topic_id, "partitions": tuple(rows)})
            for name, topic_id, rows in gone
        )
    if version >= 15 and replica >= 0:
        state_type = fields_of(schema)["replica_state"].type
        values["replica_state"] = state_type(replica_id=replica, replica_epoch=77)
    buffer = BytesIO()
    entity_writer(schema)(buffer, only_known(schema, values))
    return buffer.getvalue()


@given(versions, requests | requests_of_consumers)
def test_requests_are_read_as_kio_wrote_them(version: int, wanted: Any) -> None:
    replica, wait, least, most, isolation, session, epoch, requested_topics, gone, rack = wanted
    request = read_request(memoryview(b"head" + encoded_by_kio(version, wanted)), 4, version)
    assert request.replica_id == (replica if version < 15 or replica >= 0 else -1)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (wait, least, most)
    assert request.isolation_level == isolation
    if version >= 7:
        assert (request.session_id, request.session_epoch) == (session, epoch)
        assert request.forgotten == [
            (topic_id.bytes if version >= TOPIC_ID_FROM else name.encode(), index)
            for name, topic_id, rows in gone
            for index in rows
        ]
    if version >= 11:
        assert request.rack == rack
    expected = [
        (
            topic_id.bytes if version >= TOPIC_ID_FROM else name.encode(),
            row["partition"],
            row["current_leader_epoch"] if version >= 9 else -1,
            row["fetch_offset"],
            row["last_fetched_epoch"] if version >= 12 else -1,
            row["log_start_offset"] if version >= 5 else -1,
            row["partition_max_bytes"],
        )
        for name, topic_id, rows in requested_topics
        for row in rows
    ]
    assert [
        (
            row.topic,
            row.index,
            row.current_leader_epoch,
            row.offset,
            row.last_fetched_epoch,
            row.log_start_offset,
            row.max_bytes,
        )
        for row in request.partitions
    ] == expected


@given(versions, requests | requests_of_consumers, st.data())
def test_a_request_that_ends_early_is_malformed(version: int, wanted: Any, data: st.DataObject) -> None:
    body = encoded_by_kio(version, wanted)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(MalformedRequest):
        read_request(memoryview(body[:cut]), 0, version)


class BytesFile:
    """Stands in for a file: a slice of it is a slice of bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, size: int, position: int) -> bytes:
        return self.data[position : position + size]


def joined(parts: Any) -> bytes:
    return b"".join(
        part.file.read(part.size, part.position) if isinstance(part, FileSlice) else bytes(part) for part in parts
    )


answers = st.fixed_dictionaries(
    {
        "index": int32,
        "error": st.sampled_from([0, 1, 3, 6, 74]),
        "marks": st.tuples(int64, int64, int64),
        "records": st.none() | st.binary(min_size=1, max_size=300),
        "in_memory": st.booleans(),
        "aborted": st.none() | st.lists(st.tuples(int64, int64), max_size=2),
        "preferred": int32,
        "diverging": st.none() | st.tuples(int32, int64),
        "leader": st.none() | st.tuples(int32, int32),
    }
)

answered = st.tuples(names, ids, st.lists(answers, min_size=1, max_size=3))


@given(
    versions,
    int32,
    positive,
    st.sampled_from([0, 70]),
    st.lists(answered, max_size=3, unique_by=lambda row: row[0]),
)
def test_kio_reads_the_responses_that_we_write(
    version: int, correlation_id: int, session_id: int, error: int, wanted: list[tuple[str, UUID, list[Any]]]
) -> None:
    rows = []
    for name, topic_id, partitions in wanted:
        for row in partitions:
            records = row["records"]
            slice_ = None if records is None else FileSlice(BytesFile(b"ab" + records), 2, len(records))  # type: ignore[arg-type]
            answer = PartitionAnswer(
                topic_id.bytes if version >= TOPIC_ID_FROM else name.encode(),
                row["index"],
                row["error"],
                row["marks"][0],
                row["marks"][1],
                row["marks"][2],
                records if row["in_memory"] else slice_,
            )
            answer.aborted = row["aborted"]
            answer.preferred_read_replica = row["preferred"]
            answer.diverging = row["diverging"]
            answer.current_leader = row["leader"]
            rows.append(answer)
    frame = joined(write_response(version, correlation_id, rows, session_id=session_id, error_code=error))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert int.from_bytes(frame[4:8], "big", signed=True) == correlation_id
    body = frame[9:] if version >= FLEXIBLE_FROM else frame[8:]
    schema: Any = load_response_schema(FETCH, version)
    response, size = entity_reader(schema)(body, 0)
    assert size == len(body)
    if version >= 7:
        assert (response.session_id, int(response.error_code)) == (session_id, error)
    for (name, topic_id, partitions), topic in zip(wanted, response.responses, strict=True):
        assert (topic.topic_id == topic_id) if version >= TOPIC_ID_FROM else (topic.topic == name)
        for row, seen in zip(partitions, topic.partitions, strict=True):
            check_partition(row, seen, version)


def check_partition(row: Any, seen: Any, version: int) -> None:
    assert (seen.partition_index, int(seen.error_code)) == (row["index"], row["error"])
    assert (seen.high_watermark, seen.last_stable_offset) == row["marks"][:2]
    assert bytes(seen.records or b"") == (row["records"] or b"")
    if row["aborted"] is None:
        assert not seen.aborted_transactions
    else:
        assert [(entry.producer_id, entry.first_offset) for entry in seen.aborted_transactions] == row["aborted"]
    if version >= 11:
        assert seen.preferred_read_replica == row["preferred"]
    if version >= FLEXIBLE_FROM:
        if row["diverging"] is not None:
            assert (seen.diverging_epoch.epoch, seen.diverging_epoch.end_offset) == row["diverging"]
        if row["leader"] is not None:
            assert (seen.current_leader.leader_id, seen.current_leader.leader_epoch) == row["leader"]
