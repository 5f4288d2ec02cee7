"""Handlers see one version of each API; clients use any version."""

import contextlib
import struct
import sys
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from penstock.model.errors import UnsupportedVersion
from penstock.wire.api import APIS, ApiKey
from penstock.wire.codec import (
    REQUEST_SIZE_MAX,
    read_request,
    read_response,
    request_class,
    response_class,
    seen_request_class,
    write_error,
    write_request,
    write_response,
)
from penstock.wire.frame import MalformedRequest
from penstock.wire.hot.primitives import pack_uvarint
from penstock.wire.reader import ELEMENT_COUNT_MAX
from penstock.wire.schema import default_entity, shape_of
from penstock.wire.writer import CannotWrite

VERSIONS = [
    (api.key, version)
    for api in APIS.values()
    for version in range(max(api.min_version, api.accepted_from), api.max_version + 1)
]

TRANSACTION_FIELDS = ("transactional_id", "producer_id", "producer_epoch", "topics")


def has_own_codec(api_key: int) -> bool:
    """Return whether bodies of the API stay in their own version."""
    return APIS[api_key].hot or APIS[api_key].hand_written


def latest_response(api_key: int) -> type[Any]:
    return response_class(api_key, APIS[api_key].max_version)


def element(entity: type[Any], name: str) -> type[Any]:
    field = shape_of(entity).find(name)
    assert field is not None and field.entity is not None
    return field.entity


def field_paths(entity: type[Any], prefix: str = "") -> set[str]:
    shape = shape_of(entity)
    paths = set()
    for field in (*shape.plain, *shape.tagged):
        paths.add(prefix + field.name)
        if field.entity is not None:
            paths |= field_paths(field.entity, f"{prefix}{field.name}.")
    return paths


def test_an_empty_list_means_all_topics_in_old_metadata_requests_and_null_in_new_ones() -> None:
    assert read_request(ApiKey.METADATA, 0, struct.pack(">i", 0)).topics is None
    assert read_request(ApiKey.METADATA, 1, struct.pack(">i", 0)).topics == ()
    assert read_request(ApiKey.METADATA, 1, struct.pack(">i", -1)).topics is None
    named = read_request(ApiKey.METADATA, 0, struct.pack(">ih2s", 1, 2, b"ab"))
    assert [topic.name for topic in named.topics] == ["ab"]
    assert named.allow_auto_topic_creation is True


def test_names_to_delete_become_topics_to_delete() -> None:
    for version in range(1, 6):
        old = request_class(ApiKey.DELETE_TOPICS, version)(topic_names=("a", "b"), timeout=timedelta(seconds=3))
        request = read_request(ApiKey.DELETE_TOPICS, version, write_request(ApiKey.DELETE_TOPICS, version, old))
        assert [(topic.name, topic.topic_id) for topic in request.topics] == [("a", None), ("b", None)]
        assert request.timeout == timedelta(seconds=3)


@pytest.mark.parametrize(("allow_downgrade", "upgrade_type"), [(False, 1), (True, 2)])
def test_the_flag_of_an_old_feature_update_becomes_a_type(allow_downgrade: bool, upgrade_type: int) -> None:
    old_class = request_class(ApiKey.UPDATE_FEATURES, 0)
    update = element(old_class, "feature_updates")(
        feature="metadata.version", max_version_level=7, allow_downgrade=allow_downgrade
    )
    old = old_class(timeout=timedelta(0), feature_updates=(update,))
    request = read_request(ApiKey.UPDATE_FEATURES, 0, write_request(ApiKey.UPDATE_FEATURES, 0, old))
    assert [update.upgrade_type for update in request.feature_updates] == [upgrade_type]


def test_old_feature_updates_are_answered_with_an_entity_of_their_own_version() -> None:
    old_class = response_class(ApiKey.UPDATE_FEATURES, 1)
    result = element(old_class, "results")(feature="f", error_code=ErrorCode.none, error_message=None)
    answer = old_class(throttle_time=timedelta(0), error_code=ErrorCode.none, error_message=None, results=(result,))
    with_results = write_response(ApiKey.UPDATE_FEATURES, 1, answer)
    assert b"\x02f" in with_results
    assert len(write_response(ApiKey.UPDATE_FEATURES, 2, answer)) < len(with_results)


def test_list_config_resources_version_0_lists_client_metrics() -> None:
    assert read_request(ApiKey.LIST_CONFIG_RESOURCES, 0, b"\x00").resource_types == (16,)
    assert read_request(ApiKey.LIST_CONFIG_RESOURCES, 1, b"\x01\x00").resource_types == ()


def test_the_single_key_of_an_old_find_coordinator_becomes_a_list() -> None:
    request = read_request(ApiKey.FIND_COORDINATOR, 0, b"\x00\x01g")
    assert request.coordinator_keys == ("g",)
    assert request.key_type == 0


def test_the_single_member_of_an_old_leave_group_becomes_a_list() -> None:
    for version in range(3):
        request = read_request(ApiKey.LEAVE_GROUP, version, b"\x00\x01g\x00\x01m")
        assert [(member.member_id, member.group_instance_id) for member in request.members] == [("m", None)]


@pytest.mark.parametrize("version", range(4))
def test_old_clients_add_partitions_to_one_transaction(version: int) -> None:
    layout = request_class(ApiKey.ADD_PARTITIONS_TO_TXN, version)
    topic = element(layout, "v3_and_below_topics")(name="t", partitions=(0, 2))
    old = layout(
        **dict(zip([f"v3_and_below_{name}" for name in TRANSACTION_FIELDS], ("x", 7, 3, (topic,)), strict=True))
    )
    written = write_request(ApiKey.ADD_PARTITIONS_TO_TXN, version, old)
    (only,) = read_request(ApiKey.ADD_PARTITIONS_TO_TXN, version, written).transactions
    assert (only.transactional_id, only.producer_id, only.producer_epoch, only.verify_only) == ("x", 7, 3, False)
    assert [(each.name, each.partitions) for each in only.topics] == [("t", (0, 2))]


def test_the_fields_that_request_classes_of_handlers_lack_are_known() -> None:
    """List the fields that are lost. A new one needs an upgrade in codec.py, or a reason why it may be dropped."""
    lost = {
        (api_key, path)
        for api_key, version in VERSIONS
        if not has_own_codec(api_key)
        for path in field_paths(request_class(api_key, version)) - field_paths(seen_request_class(api_key))
    }
    assert {(key, path) for key, path in lost if "v3_and_below_topics." not in path} == {
        *((ApiKey.ADD_PARTITIONS_TO_TXN, f"v3_and_below_{name}") for name in TRANSACTION_FIELDS),
        (ApiKey.DELETE_TOPICS, "topic_names"),
        (ApiKey.FIND_COORDINATOR, "key"),
        (ApiKey.LEAVE_GROUP, "member_id"),
        (ApiKey.UPDATE_FEATURES, "feature_updates.allow_downgrade"),
        (ApiKey.END_QUORUM_EPOCH, "topics.partitions.preferred_successors"),
        (ApiKey.ALTER_PARTITION, "topics.partitions.new_isr"),
    }


def test_the_fields_that_the_latest_responses_lack_are_known() -> None:
    lost = {
        (api_key, path)
        for api_key, version in VERSIONS
        if not has_own_codec(api_key)
        for path in field_paths(response_class(api_key, version)) - field_paths(latest_response(api_key))
    }
    assert {(key, path) for key, path in lost if "." not in path} == {
        (ApiKey.METADATA, "cluster_authorized_operations"),
        (ApiKey.UPDATE_FEATURES, "results"),
        (ApiKey.ADD_PARTITIONS_TO_TXN, "results_by_topic_v3_and_below"),
        # A single result: the handler returns an entity of the version of the request.
        *((ApiKey.FIND_COORDINATOR, name) for name in ("error_code", "error_message", "node_id", "host", "port")),
    }


def test_fields_that_an_old_request_lacks_take_the_schemas_defaults() -> None:
    request = read_request(ApiKey.INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 60_000))
    assert (request.producer_id, request.producer_epoch) == (-1, -1)
    assert request.transactional_id is None
    assert request.transaction_timeout == timedelta(minutes=1)


def test_fields_that_an_old_response_lacks_are_dropped() -> None:
    topic_class = element(latest_response(ApiKey.METADATA), "topics")
    topic = topic_class(error_code=ErrorCode.none, name="t", topic_id=UUID(int=1), partitions=())
    answer = latest_response(ApiKey.METADATA)(
        throttle_time=timedelta(0), brokers=(), cluster_id="c", topics=(topic,), error_code=ErrorCode.none
    )
    assert write_response(ApiKey.METADATA, 0, answer) == struct.pack(">iihh1si", 0, 1, 0, 1, b"t", 0)


def test_a_null_that_an_old_version_forbids_is_not_written() -> None:
    topic_class = element(latest_response(ApiKey.METADATA), "topics")
    topic = topic_class(error_code=ErrorCode.unknown_topic_id, name=None, topic_id=UUID(int=1), partitions=())
    answer = latest_response(ApiKey.METADATA)(
        throttle_time=timedelta(0), brokers=(), topics=(topic,), error_code=ErrorCode.none
    )
    assert write_response(ApiKey.METADATA, 12, answer)
    with pytest.raises(CannotWrite, match="name may not be null"):
        write_response(ApiKey.METADATA, 11, answer)


@pytest.mark.parametrize("wrong", [2**31, None, "seven"])
def test_a_value_that_does_not_fit_its_field_is_not_written(wrong: Any) -> None:
    answer = default_entity(latest_response(ApiKey.DESCRIBE_CLUSTER))
    object.__setattr__(
        changed := type(answer)(**{field.name: getattr(answer, field.name) for field in shape_of(type(answer)).plain}),
        "controller_id",
        wrong,
    )
    with pytest.raises(CannotWrite):
        write_response(ApiKey.DESCRIBE_CLUSTER, 0, changed)


def test_a_name_too_long_for_the_old_string_is_not_written() -> None:
    old = request_class(ApiKey.DELETE_TOPICS, 1)(topic_names=("x" * 40_000,), timeout=timedelta(0))
    with pytest.raises(CannotWrite, match="32767"):
        write_request(ApiKey.DELETE_TOPICS, 1, old)


@pytest.mark.parametrize(("api_key", "version"), [(3, 14), (3, -1), (0, 2), (0, 14), (1, 3), (8, 1), (999, 0)])
def test_unsupported_versions_are_neither_read_nor_written(api_key: int, version: int) -> None:
    for call in (read_request, read_response, write_request, write_response):
        with pytest.raises(UnsupportedVersion):
            call(api_key, version, b"")


def test_produce_and_fetch_stay_in_their_own_version() -> None:
    for api_key, version in VERSIONS:
        if APIS[api_key].hot and not APIS[api_key].hand_written:
            entity = default_entity(request_class(api_key, version))
            assert read_request(api_key, version, write_request(api_key, version, entity)) == entity


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_every_version_of_every_api_is_read_and_written(api_key: int, version: int) -> None:
    api = APIS[api_key]
    target = version if has_own_codec(api_key) else api.max_version
    request_type = request_class(api_key, version) if has_own_codec(api_key) else seen_request_class(api_key)
    request = read_request(api_key, version, write_request(api_key, version, default_entity(request_type)))
    assert type(request).__name__ == request_type.__name__
    assert isinstance(request, request_type) or api.hand_written
    response = default_entity(response_class(api_key, target))
    assert isinstance(read_response(api_key, version, write_response(api_key, version, response)), type(response))


COUNT_MOST = struct.pack(">i", 2**31 - 1)
COMPACT_COUNT_MOST = b"\xff\xff\xff\xff\x0f"


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (ApiKey.METADATA, 1, COUNT_MOST + b"0123456789"),
        (ApiKey.METADATA, 12, COMPACT_COUNT_MOST + b"0123456789"),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, COUNT_MOST),
        (ApiKey.ALTER_CONFIGS, 0, COUNT_MOST),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, COMPACT_COUNT_MOST),
        (ApiKey.LIST_CONFIG_RESOURCES, 1, COMPACT_COUNT_MOST),
        # One topic with a wrong count of partitions.
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, struct.pack(">i", 1) + b"\x02\x02t" + COMPACT_COUNT_MOST),
        # A tagged field with a wrong size, and a wrong count of them.
        (ApiKey.METADATA, 12, b"\x00\x01\x01\x01\x63" + COMPACT_COUNT_MOST),
        (ApiKey.METADATA, 12, b"\x00\x01\x01" + COMPACT_COUNT_MOST),
    ],
)
def test_wrong_counts_are_malformed_and_nothing_is_allocated(api_key: int, version: int, body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_request(api_key, version, memoryview(bytearray(body)))


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (ApiKey.METADATA, 0, struct.pack(">i", -1)),
        (ApiKey.METADATA, 1, struct.pack(">i", -2)),
        (ApiKey.METADATA, 1, struct.pack(">ih", 1, -1)),
        (ApiKey.METADATA, 1, struct.pack(">ih", 1, -7)),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, b"\x00"),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, b"\x01\x00\x00\x00\x01\x05"),  # A cursor marked neither -1 nor 1.
    ],
)
def test_null_where_the_schema_forbids_it_is_malformed(api_key: int, version: int, body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_request(api_key, version, body)


def test_a_structure_may_be_null_where_the_schema_allows_it() -> None:
    body = b"\x01" + struct.pack(">i", 10)
    assert read_request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body + b"\xff\x00").cursor is None
    cursor = read_request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body + b"\x01\x02t\x00\x00\x00\x05\x00\x00").cursor
    assert (cursor.topic_name, cursor.partition_index) == ("t", 5)


def test_unknown_tagged_fields_and_bytes_behind_the_body_are_ignored() -> None:
    body = b"\x00\x01\x01\x02\x63\x03abc\x64\x00"
    assert read_request(ApiKey.METADATA, 12, body + b"trailing") == read_request(
        ApiKey.METADATA, 12, b"\x00\x01\x01\x00"
    )


def test_a_tagged_field_of_the_wrong_size_is_malformed() -> None:
    # Tag 0 of ApiVersionsResponse v3 is an array: empty in one byte, with a size of two here.
    body = struct.pack(">h", 0) + b"\x01" + struct.pack(">i", 0) + b"\x01\x00\x02\x01\x00"
    with pytest.raises(MalformedRequest, match="supported_features"):
        read_response(ApiKey.API_VERSIONS, 3, body)


def test_invalid_utf8_is_replaced_so_that_the_name_can_be_refused() -> None:
    request = read_request(ApiKey.METADATA, 1, struct.pack(">ih3s", 1, 3, b"a\xff\xfe"))
    assert request.topics[0].name == "a��"


@pytest.mark.parametrize("letter", [b"x", b"\xff"])
@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT])
def test_a_string_too_long_for_any_record_is_malformed(key: int, letter: bytes) -> None:
    version = 1 if key == ApiKey.CONSUMER_GROUP_HEARTBEAT else 9
    body = write_request(key, version, default_entity(request_class(key, version)))
    assert body[0] == 1, "the body begins with an empty group id"
    for size, is_read in ((2**15 - 1, letter == b"x"), (2**15, False)):
        name = pack_uvarint(size + 1) + letter * size
        with contextlib.nullcontext() if is_read else pytest.raises(MalformedRequest, match="too long"):
            read_request(key, version, name + body[1:])


def test_a_huge_cold_request_is_rejected() -> None:
    with pytest.raises(MalformedRequest, match="too large"):
        read_request(ApiKey.METADATA, 1, bytes(REQUEST_SIZE_MAX + 1))


def test_a_request_with_too_many_elements_is_rejected() -> None:
    def resources(count: int) -> bytes:
        return struct.pack(">i", count) + b"\x02\x00\x00\x00\x00\x00\x00" * count + b"\x00"

    assert len(read_request(ApiKey.DESCRIBE_CONFIGS, 1, resources(1000)).resources) == 1000
    with pytest.raises(MalformedRequest, match="elements"):
        read_request(ApiKey.DESCRIBE_CONFIGS, 1, resources(ELEMENT_COUNT_MAX + 1))
    # The elements of inner arrays count too.
    keys = struct.pack(">ibhi", 1, 2, 0, ELEMENT_COUNT_MAX) + bytes(2 * ELEMENT_COUNT_MAX) + b"\x00"
    with pytest.raises(MalformedRequest, match="elements"):
        read_request(ApiKey.DESCRIBE_CONFIGS, 1, keys)


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_a_request_cut_at_any_position_is_malformed(api_key: int, version: int) -> None:
    body = write_request(api_key, version, default_entity(request_class(api_key, version)))
    for cut in range(len(body)):
        with pytest.raises(MalformedRequest):
            read_request(api_key, version, body[:cut])


@given(
    key_and_version=st.sampled_from(VERSIONS),
    pieces=st.lists(st.binary(max_size=12) | st.sampled_from([COUNT_MOST, COMPACT_COUNT_MOST, bytes(8)]), max_size=8),
)
def test_random_bytes_raise_no_other_error(key_and_version: tuple[int, int], pieces: list[bytes]) -> None:
    with contextlib.suppress(MalformedRequest):
        assert read_request(*key_and_version, b"".join(pieces)) is not None


@pytest.mark.parametrize(
    ("api_key", "version", "fields"),
    [
        (ApiKey.API_VERSIONS, 0, ("error_code",)),
        (ApiKey.SASL_AUTHENTICATE, 0, ("error_code", "error_message")),
        (ApiKey.DESCRIBE_CLUSTER, 0, ("error_code", "error_message")),
    ],
)
def test_an_error_is_written_with_its_message_if_the_response_has_one(
    api_key: int, version: int, fields: tuple[str, ...]
) -> None:
    body = write_error(api_key, version, 34, "log in first")
    assert body is not None
    answer = read_response(api_key, version, body)
    expected = {"error_code": ErrorCode.illegal_sasl_state, "error_message": "log in first"}
    assert {name: getattr(answer, name) for name in fields} == {name: expected[name] for name in fields}


@pytest.mark.parametrize("api_key", (ApiKey.DELETE_TOPICS, ApiKey.CREATE_TOPICS, ApiKey.PRODUCE))
def test_an_api_that_has_errors_only_for_items_has_no_response_for_all(api_key: int) -> None:
    assert write_error(api_key, APIS[api_key].max_version, 34, "log in first") is None


def test_a_request_with_too_many_tagged_fields_is_rejected() -> None:
    body = b"\x00\x01\x01" + pack_uvarint(ELEMENT_COUNT_MAX + 1) + b"\x63\x00" * (ELEMENT_COUNT_MAX + 1)
    with pytest.raises(MalformedRequest, match="too many tagged fields"):
        read_request(ApiKey.METADATA, 12, body)


def test_an_array_that_a_version_may_not_leave_out_is_not_written_as_null() -> None:
    answer = latest_response(ApiKey.LIST_GROUPS)(throttle_time=timedelta(0), error_code=ErrorCode.none, groups=None)
    with pytest.raises(CannotWrite, match="groups may not be null in this version"):
        write_response(ApiKey.LIST_GROUPS, 4, answer)


def test_successors_without_directories_become_candidates() -> None:
    """EndQuorumEpoch v0 names nodes only by their ids."""
    layout = request_class(ApiKey.END_QUORUM_EPOCH, 0)
    module = sys.modules[layout.__module__]
    partition = module.PartitionData(partition_index=0, leader_id=1, leader_epoch=3, preferred_successors=(2, 3))
    old = layout(cluster_id=None, topics=(module.TopicData(topic_name="__cluster_metadata", partitions=(partition,)),))
    seen = read_request(ApiKey.END_QUORUM_EPOCH, 0, write_request(ApiKey.END_QUORUM_EPOCH, 0, old))
    assert [each.candidate_id for each in seen.topics[0].partitions[0].preferred_candidates] == [2, 3]
