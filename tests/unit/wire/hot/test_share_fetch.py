"""Tests of the reader of common ShareFetch requests and of the writer of the most common response."""

import uuid
from datetime import timedelta
from typing import Any

import pytest

from penstock.handlers import share_fetch as handler
from penstock.ports.network import FileSlice
from penstock.shares.states import AcquiredRange
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import parse_response_header
from penstock.wire.hot import share_fetch
from penstock.wire.hot.share_fetch import ShareAnswer
from penstock.wire.reader import Body
from penstock_sim.disk import SimDisk
from tests.differential.entities import request_frame

TOPIC_ID = uuid.UUID(int=77)
ACCEPTED = {"first_offset": 5, "last_offset": 9, "acknowledge_types": [1]}
PARTITION = {"partition_index": 3, "acknowledgement_batches": []}
HEADER_SIZE = 4 + 10 + len("differential") + 1


def topic(*batches: dict[str, Any]) -> dict[str, Any]:
    return {"topic_id": TOPIC_ID, "partitions": [{"partition_index": 3, "acknowledgement_batches": list(batches)}]}


def body(version: int, **fields: Any) -> bytes:
    given: dict[str, Any] = {
        "group_id": "jobs",
        "member_id": "worker-é",
        "share_session_epoch": 7,
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 100,
        "batch_size": 50,
        "share_acquire_mode": 1,
        "topics": [],
        "forgotten_topics_data": [],
    }
    return request_frame("share_fetch", version, {**given, **fields})[HEADER_SIZE:]


def by_schema(version: int, data: bytes) -> Any:
    layout = codec.request_class(ApiKey.SHARE_FETCH, version)
    return codec._read(layout, codec.seen_request_class(ApiKey.SHARE_FETCH), Body(data))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("topics", [[], [topic()], [topic(ACCEPTED)], [topic({**ACCEPTED, "acknowledge_types": [3]})]])
@pytest.mark.parametrize("skipped", [0, 5])
def test_a_common_request_is_read_like_by_the_schema(version: int, topics: list[Any], skipped: int) -> None:
    data = body(version, topics=topics)
    found = share_fetch.read_common(version, memoryview(b"x" * skipped + data), skipped)
    expected = handler._read(by_schema(version, data))
    assert found is not None and found == expected
    assert (found.max_wait_ms, found.acquire_mode) == (500, version - 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"topics": [topic(), topic()]},
        {"topics": [{"topic_id": TOPIC_ID, "partitions": [PARTITION, PARTITION]}]},
        {"topics": [{"topic_id": TOPIC_ID, "partitions": []}]},
        {"topics": [topic(ACCEPTED, ACCEPTED)]},
        {"topics": [topic({**ACCEPTED, "acknowledge_types": [1, 2]})]},
        {"topics": [topic({**ACCEPTED, "acknowledge_types": []})]},
        {"topics": [{**topic(ACCEPTED), "topic_id": uuid.UUID(int=0)}]},
        {"forgotten_topics_data": [{"topic_id": TOPIC_ID, "partitions": [1]}]},
        {"group_id": "g" * 200},
        {"member_id": "m" * 200},
    ],
)
def test_other_requests_are_left_to_the_schema(fields: dict[str, Any]) -> None:
    data = body(2, **fields)
    assert share_fetch.read_common(2, data) is None
    assert codec.read_request(ApiKey.SHARE_FETCH, 2, data) == by_schema(2, data)


def test_a_request_that_ends_too_early_or_has_null_ids_is_left_to_the_schema() -> None:
    data = body(2, topics=[topic(ACCEPTED)])
    assert all(share_fetch.read_common(2, data[:size]) is None for size in range(len(data)))
    assert share_fetch.read_common(2, b"\0" + data[1:]) is None
    assert share_fetch.read_common(2, body(2, member_id=None, topics=[topic(ACCEPTED)])) is None


def test_the_same_partition_is_the_same_object() -> None:
    first, second = (share_fetch.read_common(2, body(2, topics=[topic()])) for _ in range(2))
    assert first is not None and second is not None
    assert first.added is second.added


@pytest.mark.parametrize("size", [100, 300])
def test_the_response_with_records_of_one_partition_is_the_same_as_by_the_general_writer(size: int) -> None:
    file = SimDisk().open("/log", create=True)
    file.write([b"r" * size], 0)
    answer = ShareAnswer(TOPIC_ID.bytes, 3)
    answer.records, answer.acquired = FileSlice(file, 0, size), [AcquiredRange(5, 9, 1), AcquiredRange(11, 11, 2)]
    parts = share_fetch.write_response(8, [answer], lock_timeout_ms=30_000)
    frame = memoryview(
        b"".join(part.file.read(part.size, part.position) if isinstance(part, FileSlice) else part for part in parts)
    )
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, position = parse_response_header(ApiKey.SHARE_FETCH, 2, frame[4:])
    reply = codec.read_response(ApiKey.SHARE_FETCH, 2, frame[4 + position :])
    (found,) = reply.responses[0].partitions
    assert (header, reply.acquisition_lock_timeout, reply.node_endpoints) == (8, timedelta(seconds=30), ())
    assert (reply.responses[0].topic_id, found.partition_index, found.error_code) == (TOPIC_ID, 3, 0)
    ranges = [(each.first_offset, each.last_offset, each.delivery_count) for each in found.acquired_records]
    assert ranges == [(5, 9, 1), (11, 11, 2)]
    assert bytes(found.records) == b"r" * size
