"""Our codecs of both heartbeats, OffsetCommit and OffsetFetch against kio's, over every version."""

from datetime import timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from penstock.wire.api import APIS, ApiKey
from penstock.wire.codec import read_request, request_class, response_class
from penstock.wire.frame import MalformedRequest, parse_response_header
from penstock.wire.hot import consumer_group_heartbeat, heartbeat, offset_commit, offset_fetch
from penstock.wire.hot.primitives import pack_compact_string, pack_i32, pack_i64
from penstock.wire.hot.texts import ELEMENT_COUNT_MAX
from tests.oracle.entities import entities

HAND_READ = [
    (api.key, version)
    for api in APIS.values()
    if api.hand_written
    for version in range(api.min_version, api.max_version + 1)
]
NO_ID = UUID(int=0)
names = st.text(max_size=20) | st.just("long " * 40)
codes = st.sampled_from([0, 3, 22, 25, 27, 100, 113])
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


def kio_bytes(entity: Any) -> bytes:
    out = BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def kio_response(api_key: int, version: int, frame: bytes) -> Any:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, position = parse_response_header(api_key, version, memoryview(frame)[4:])
    assert correlation_id == 7
    body = frame[4 + position :]
    entity, size = entity_reader(response_class(api_key, version))(body, 0)
    assert size == len(body)
    return entity


def topic_of(entity: Any) -> Any:
    return entity.name if hasattr(entity, "name") else entity.topic_id or NO_ID


# -- requests --------------------------------------------------------------------------------


@given(st.sampled_from([pair for pair in HAND_READ if pair[0] == ApiKey.HEARTBEAT]), st.data())
def test_a_heartbeat_is_read_as_kio_wrote_it(key_and_version: tuple[int, int], data: st.DataObject) -> None:
    entity = data.draw(entities(request_class(*key_and_version)))
    assert read_request(*key_and_version, kio_bytes(entity)) == (
        entity.group_id,
        entity.generation_id,
        entity.member_id,
        getattr(entity, "group_instance_id", None),
    )


@given(st.sampled_from([pair for pair in HAND_READ if pair[0] == ApiKey.CONSUMER_GROUP_HEARTBEAT]), st.data())
def test_a_heartbeat_of_the_consumer_protocol_is_read_as_kio_wrote_it(
    key_and_version: tuple[int, int], data: st.DataObject
) -> None:
    entity = data.draw(entities(request_class(*key_and_version)))
    request = read_request(*key_and_version, kio_bytes(entity))
    assert request[:5] == (
        entity.group_id,
        entity.member_id,
        entity.member_epoch,
        entity.instance_id,
        entity.rack_id,
    )
    assert timedelta(milliseconds=request.rebalance_timeout_ms) == entity.rebalance_timeout
    assert request[6:9] == (
        entity.subscribed_topic_names,
        getattr(entity, "subscribed_topic_regex", None),
        entity.server_assignor,
    )
    owned = entity.topic_partitions
    assert request.owned == (
        None if owned is None else {topic.topic_id or NO_ID: frozenset(topic.partitions) for topic in owned}
    )


@given(st.sampled_from([pair for pair in HAND_READ if pair[0] == ApiKey.OFFSET_COMMIT]), st.data())
def test_a_commit_is_read_as_kio_wrote_it(key_and_version: tuple[int, int], data: st.DataObject) -> None:
    entity = data.draw(entities(request_class(*key_and_version)))
    request = read_request(*key_and_version, memoryview(kio_bytes(entity)))
    assert request[:4] == (
        entity.group_id,
        entity.generation_id_or_member_epoch,
        entity.member_id,
        getattr(entity, "group_instance_id", None),
    )
    retention = getattr(entity, "retention_time", timedelta(milliseconds=-1))
    assert timedelta(milliseconds=request.retention_ms) == retention
    assert request.topics == [
        (
            topic_of(topic),
            [
                (
                    partition.partition_index,
                    partition.committed_offset,
                    getattr(partition, "committed_leader_epoch", -1),
                    partition.committed_metadata,
                )
                for partition in topic.partitions
            ],
        )
        for topic in entity.topics
    ]


small_texts = st.text(max_size=5) | st.text(min_size=100, max_size=140)


@given(st.integers(8, 10), small_texts, small_texts, st.none() | small_texts, st.none() | small_texts, st.data())
def test_the_fast_path_reads_a_commit_like_the_general_one(
    version: int, group_id: str, member_id: str, instance_id: str | None, metadata: str | None, data: st.DataObject
) -> None:
    name, row = data.draw(small_texts), (data.draw(int32), data.draw(int64), data.draw(int32))
    written = bytearray().join(
        (
            pack_compact_string(group_id),
            pack_i32(data.draw(int32)),
            pack_compact_string(member_id),
            b"\0" if instance_id is None else pack_compact_string(instance_id),
            b"\2",
            data.draw(st.uuids()).bytes if version >= 10 else pack_compact_string(name),
            b"\2",
            pack_i32(row[0]) + pack_i64(row[1]) + pack_i32(row[2]),
            b"\0" if metadata is None else pack_compact_string(metadata),
            bytes(3),
        )
    )
    request = offset_commit.read_any(version, bytes(written))
    assert request.topics[0][1] == [(*row, metadata)]
    texts = [group_id, member_id, instance_id or "", metadata or "", "" if version >= 10 else name]
    is_short = all(len(text.encode()) < 0x7F for text in texts)
    assert offset_commit.read_one(version, bytes(written)) == (request if is_short else None)
    written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    del written[data.draw(st.integers(0, len(written))) :]
    damaged = offset_commit.read_one(version, bytes(written))
    assert damaged is None or damaged == offset_commit.read_any(version, bytes(written))


@given(st.sampled_from([pair for pair in HAND_READ if pair[0] == ApiKey.OFFSET_FETCH]), st.data())
def test_a_fetch_of_offsets_is_read_as_kio_wrote_it(key_and_version: tuple[int, int], data: st.DataObject) -> None:
    entity = data.draw(entities(request_class(*key_and_version)))
    request = read_request(*key_and_version, kio_bytes(entity))
    assert request.require_stable == getattr(entity, "require_stable", False)
    assert request.groups == [
        (
            group.group_id,
            getattr(group, "member_id", None),
            getattr(group, "member_epoch", -1),
            None
            if group.topics is None
            else [(topic_of(topic), tuple(topic.partition_indexes)) for topic in group.topics],
        )
        for group in getattr(entity, "groups", [entity])
    ]


@given(st.sampled_from(HAND_READ), st.data())
def test_a_request_that_ends_early_is_malformed(key_and_version: tuple[int, int], data: st.DataObject) -> None:
    body = kio_bytes(data.draw(entities(request_class(*key_and_version))))
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(MalformedRequest):
        read_request(*key_and_version, body[:cut])


COUNT_MOST = b"\x7f\xff\xff\xff"
COMPACT_COUNT_MOST = b"\xff\xff\xff\xff\x0f"


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (ApiKey.OFFSET_COMMIT, 7, b"\x00\x01g\x00\x00\x00\x00\x00\x00\xff\xff" + COUNT_MOST),
        (ApiKey.OFFSET_COMMIT, 9, b"\x02g\x00\x00\x00\x00\x01\x00" + COMPACT_COUNT_MOST),
        (ApiKey.OFFSET_COMMIT, 9, b"\x02g\x00\x00\x00\x00\x01\x00\x02\x02t" + COMPACT_COUNT_MOST),
        (ApiKey.OFFSET_FETCH, 1, b"\x00\x01g" + COUNT_MOST),
        (ApiKey.OFFSET_FETCH, 1, b"\x00\x01g\xff\xff\xff\xff"),
        (ApiKey.OFFSET_FETCH, 2, b"\x00\x01g\xff\xff\xff\xfe"),
        (ApiKey.OFFSET_FETCH, 9, COMPACT_COUNT_MOST),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, b"\x02g\x02m" + bytes(10) + COMPACT_COUNT_MOST),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, b"\x02g\x02m" + bytes(13) + COMPACT_COUNT_MOST),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, b"\x02g\x02m" + bytes(13) + b"\x02" + bytes(16) + COMPACT_COUNT_MOST),
        # The third of three topics lacks the end of its id; the topics before it have a partition more than needed.
        (
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            0,
            b"\x02g\x02m"
            + bytes(4)
            + b"\x00\x00"
            + bytes(4)
            + b"\x00\x00\x04"
            + (bytes(16) + b"\x02" + bytes(4) + b"\x00") * 2
            + bytes(11),
        ),
        (ApiKey.HEARTBEAT, 0, b"\xff\xff\x00\x00\x00\x00\x00\x00"),
        (ApiKey.HEARTBEAT, 0, b"\xff\xfe\x00\x00\x00\x00\x00\x00"),
    ],
)
def test_impossible_values_are_malformed(api_key: int, version: int, body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_request(api_key, version, body)


def test_too_many_elements_are_malformed() -> None:
    many = (ELEMENT_COUNT_MAX // 2 + 1).to_bytes(4, "big")
    partitions = many + bytes(4) * (ELEMENT_COUNT_MAX // 2 + 1)
    body = b"\x00\x01g\x00\x00\x00\x02" + 2 * (b"\x00\x01t" + partitions)
    with pytest.raises(MalformedRequest, match="array elements"):
        read_request(ApiKey.OFFSET_FETCH, 1, body)


# -- responses -------------------------------------------------------------------------------


@given(st.integers(0, 4), codes, st.integers(0, 5000))
def test_kio_reads_our_response_to_a_heartbeat(version: int, code: int, throttle_ms: int) -> None:
    frame = heartbeat.write_response(version, 7, code, throttle_ms=throttle_ms)
    response = kio_response(ApiKey.HEARTBEAT, version, frame)
    assert response.error_code == code
    if version >= 1:
        assert response.throttle_time == timedelta(milliseconds=throttle_ms)


assignments = st.dictionaries(st.uuids(), st.frozensets(st.integers(0, 2**31 - 1), max_size=4), max_size=3)


@given(st.integers(0, 1), codes, st.none() | names, st.none() | names, int32, st.none() | assignments)
def test_kio_reads_our_response_to_a_heartbeat_of_the_consumer_protocol(
    version: int, code: int, message: str | None, member_id: str | None, epoch: int, assignment: Any
) -> None:
    frame = consumer_group_heartbeat.write_response(
        7, code, message, member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=5000, assignment=assignment
    )
    response = kio_response(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, frame)
    assert (response.error_code, response.error_message, response.member_id) == (code, message, member_id)
    assert (response.member_epoch, response.heartbeat_interval) == (epoch, timedelta(seconds=5))
    given = response.assignment
    assert assignment == (
        None
        if given is None
        else {topic.topic_id or NO_ID: frozenset(topic.partitions) for topic in given.topic_partitions}
    )


rows = st.lists(st.tuples(int32, codes), max_size=3)


@given(st.integers(2, 10), st.lists(st.tuples(names, st.uuids(), rows), max_size=3), st.integers(0, 5000))
def test_kio_reads_our_response_to_a_commit(version: int, topics: Any, throttle_ms: int) -> None:
    named = [(topic_id if version >= 10 else name, results) for name, topic_id, results in topics]
    frame = offset_commit.write_response(version, 7, named, throttle_ms=throttle_ms)
    response = kio_response(ApiKey.OFFSET_COMMIT, version, frame)
    assert [
        (topic_of(topic), [(part.partition_index, part.error_code) for part in topic.partitions])
        for topic in response.topics
    ] == named
    if version >= 3:
        assert response.throttle_time == timedelta(milliseconds=throttle_ms)


partition_rows = st.lists(
    st.builds(offset_fetch.PartitionRow, int32, int64, int32, st.none() | names, codes), max_size=3
)
fetched = st.lists(st.tuples(names, st.uuids(), partition_rows), max_size=2)


@given(st.integers(1, 10), st.lists(st.tuples(names, fetched, codes), min_size=1, max_size=3), st.integers(0, 5000))
def test_kio_reads_our_response_to_a_fetch_of_offsets(version: int, groups: Any, throttle_ms: int) -> None:
    if version < 8:
        del groups[1:]
    wanted = [
        offset_fetch.GroupResponse(
            group_id, [(topic_id if version >= 10 else name, results) for name, topic_id, results in topics], code
        )
        for group_id, topics, code in groups
    ]
    frame = offset_fetch.write_response(version, 7, wanted, throttle_ms=throttle_ms)
    response = kio_response(ApiKey.OFFSET_FETCH, version, frame)
    for group, seen in zip(wanted, getattr(response, "groups", [response]), strict=True):
        assert getattr(seen, "group_id", group.group_id) == group.group_id
        assert getattr(seen, "error_code", group.error_code) == group.error_code
        assert [
            (
                topic_of(topic),
                [
                    (
                        part.partition_index,
                        part.committed_offset,
                        getattr(part, "committed_leader_epoch", row.leader_epoch),
                        part.metadata,
                        part.error_code,
                    )
                    for part, row in zip(topic.partitions, results, strict=True)
                ],
            )
            for topic, (_, results) in zip(seen.topics, group.topics, strict=True)
        ] == [(topic, list(map(tuple, results))) for topic, results in group.topics]
