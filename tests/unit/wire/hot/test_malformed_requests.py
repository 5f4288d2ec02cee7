"""Requests that no client may send are rejected with the reason, before anything is allocated for them."""

from struct import pack

import pytest

from penstock.wire.frame import MalformedRequest
from penstock.wire.hot import consumer_group_heartbeat, fetch, offset_commit, offset_fetch, produce, replica_fetch
from penstock.wire.hot.primitives import pack_uvarint
from penstock.wire.hot.texts import ELEMENT_COUNT_MAX

PRODUCE_HEAD = pack(">hhi", -1, -1, 30_000)
"""No transactional id, acks and timeout."""
PRODUCE_HEAD_FLEXIBLE = b"\x00" + PRODUCE_HEAD[2:]
FETCH_HEAD = pack(">iiiib", -1, 500, 1, 1000, 0)
"""A consumer, the longest wait, sizes and the isolation level."""
FETCH_HEAD_V7 = FETCH_HEAD + pack(">ii", 0, -1)
ID = bytes(16)


@pytest.mark.parametrize(
    ("version", "body", "why"),
    [
        (3, PRODUCE_HEAD + pack(">ih", 1, -1) + bytes(4), "a topic name is null"),
        (9, PRODUCE_HEAD_FLEXIBLE + b"\x02\x00\x01\x00\x00", "a topic name is null"),
        (3, PRODUCE_HEAD + pack(">i", -1), "an array is null"),
        (9, PRODUCE_HEAD_FLEXIBLE + b"\x00", "an array is null"),
        (3, PRODUCE_HEAD + pack(">ih1siii", 1, 1, b"t", 1, 0, -2), "records of size -2"),
        (3, PRODUCE_HEAD + pack(">ih1siii", 1, 1, b"t", 1, 0, 5) + b"abc", "ends too early"),
        (9, PRODUCE_HEAD_FLEXIBLE + b"\x02\x02t\x02" + bytes(4) + b"\x09abc", "the frame ends"),
        (3, PRODUCE_HEAD + pack(">ih1si", 1, 1, b"t", 10_000) + bytes(80_000), "more than 10000 partitions"),
        (13, PRODUCE_HEAD_FLEXIBLE + b"\x02" + ID + pack_uvarint(10_001) + bytes(60_000), "more than 10000 partitions"),
    ],
)
def test_a_malformed_produce_request_is_rejected(version: int, body: bytes, why: str) -> None:
    with pytest.raises(MalformedRequest, match=why):
        produce.read_request(memoryview(body), 0, version)


@pytest.mark.parametrize(
    ("version", "body", "why"),
    [
        (4, FETCH_HEAD + pack(">ih", 1, -1) + bytes(4), "a topic name is null"),
        (12, FETCH_HEAD_V7 + b"\x02\x00\x01\x00\x01\x01\x00", "a topic name is null"),
        (4, FETCH_HEAD + pack(">i", -1), "an array is null"),
        (11, FETCH_HEAD_V7 + pack(">iih", 0, 0, -1), "a string is null"),
        (12, FETCH_HEAD_V7 + b"\x01\x01\x00\x00", "a string is null"),
        (11, FETCH_HEAD_V7 + pack(">iih", 0, 0, 9) + b"rack", "ends too early"),
        (4, FETCH_HEAD + pack(">ih1si", 1, 1, b"t", 10_000) + bytes(10_000), "more than 10000 partitions"),
    ],
)
def test_a_malformed_fetch_request_is_rejected(version: int, body: bytes, why: str) -> None:
    with pytest.raises(MalformedRequest, match=why):
        fetch.read_request(memoryview(body), 0, version)


def test_unknown_tags_of_a_fetch_request_are_skipped() -> None:
    tags = b"\x02" + b"\x07\x03abc" + b"\x01\x0d" + pack(">iq", 3, 9) + b"\x00"
    request = fetch.read_request(memoryview(FETCH_HEAD_V7[4:] + b"\x01\x01\x01" + tags), 0, 17)
    assert (request.replica_id, request.replica_epoch) == (3, 9)


def test_an_offset_commit_with_a_cut_topic_id_is_rejected() -> None:
    head = b"\x02g" + pack(">i", 1) + b"\x02m\x00"
    with pytest.raises(MalformedRequest, match="a topic id ends after the request"):
        offset_commit.read_request(10, head + b"\x02" + ID[:9])


def test_an_offset_commit_of_too_many_partitions_is_rejected() -> None:
    topic = b"\x02t" + pack_uvarint(ELEMENT_COUNT_MAX + 1)
    body = b"\x02g" + pack(">i", 1) + b"\x02m\x00" + b"\x02" + topic + bytes(18 * ELEMENT_COUNT_MAX)
    with pytest.raises(MalformedRequest, match="too many array elements"):
        offset_commit.read_request(9, body)


def test_an_offset_fetch_with_a_cut_topic_id_is_rejected() -> None:
    group = b"\x02g" + b"\x00" + pack(">i", -1)
    with pytest.raises(MalformedRequest, match="a topic id ends after the request"):
        offset_fetch.read_request(10, b"\x02" + group + b"\x02" + ID[:9])


def test_a_heartbeat_that_owns_too_many_partitions_is_rejected() -> None:
    count = ELEMENT_COUNT_MAX // 2 + 1
    owned = b"\x03" + 2 * (ID + pack_uvarint(count + 1) + bytes(4 * count) + b"\x00")
    head = b"\x02g\x02m" + pack(">i", 1) + b"\x00\x00" + pack(">i", -1) + b"\x00\x00\x00"
    with pytest.raises(MalformedRequest, match="more than 10000 array elements"):
        consumer_group_heartbeat.read_request(1, head + owned + b"\x00")


ROW = pack(">ihqqq", 0, 0, 5, 5, 0)
"""Partition, error code, high watermark, last stable offset and log start offset of a follower's partition."""


def fetched(row: bytes) -> bytes:
    return pack(">ibihi", 7, 0, 0, 0, 0) + b"\x02" + ID + b"\x02" + row + b"\x00\x00"


def test_a_follower_skips_aborted_transactions() -> None:
    aborted = b"\x02" + pack(">qq", 4, 2) + b"\x00"
    correlation_id, answer = replica_fetch.read_response(
        memoryview(fetched(ROW + aborted + pack(">i", -1) + b"\x04abc" + b"\x00"))
    )
    assert correlation_id == 7
    assert [(row[1], bytes(row[6] or b"")) for row in answer.rows] == [(0, b"abc")]


def test_a_response_that_ends_inside_the_records_is_rejected_by_the_follower() -> None:
    with pytest.raises(MalformedRequest, match="inside the records"):
        replica_fetch.read_response(memoryview(fetched(ROW + b"\x01" + pack(">i", -1) + b"\x40abc")))
