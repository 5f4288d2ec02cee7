"""Reading and writing in slices has the same results as in one step, which is tested against kio."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.model.job import Job, finish
from penstock.wire import codec
from penstock.wire.api import APIS, Api, ApiKey
from penstock.wire.frame import MalformedRequest
from penstock.wire.schema import default_entity, shape_of
from penstock.wire.sliced import BYTES_PER_SLICE
from penstock.wire.writer import CannotWrite
from tests.oracle.entities import entities

COLD = [api for api in APIS.values() if not api.hot]
BY_SCHEMA = [api for api in COLD if not api.hand_written]
FEW = settings(deadline=None, max_examples=3, suppress_health_check=list(HealthCheck))


def steps_of(job: Job[Any]) -> tuple[int, Any]:
    steps = 0
    while True:
        try:
            next(job)
        except StopIteration as end:
            return steps, end.value
        steps += 1


def versions(api: Api) -> st.SearchStrategy[int]:
    return st.integers(max(api.min_version, api.accepted_from), api.max_version)


@pytest.mark.parametrize("api", BY_SCHEMA, ids=lambda api: api.name)
@FEW
@given(data=st.data())
def test_requests_are_read_alike(api: Api, data: st.DataObject) -> None:
    version = data.draw(versions(api))
    body = codec.write_request(api.key, version, data.draw(entities(codec.request_class(api.key, version))))
    assert finish(codec.reading_request(api.key, version, body)) == codec.read_request(api.key, version, body)


@pytest.mark.parametrize("api", BY_SCHEMA, ids=lambda api: api.name)
@FEW
@given(data=st.data())
def test_responses_are_written_alike(api: Api, data: st.DataObject) -> None:
    version = data.draw(versions(api))
    entity = data.draw(entities(codec.response_class(api.key, api.max_version)))
    try:
        expected = codec.write_response(api.key, version, entity)
    except CannotWrite:
        with pytest.raises(CannotWrite):
            finish(codec.writing_response(api.key, version, entity))
        return
    assert finish(codec.writing_response(api.key, version, entity)) == expected


def test_many_elements_are_read_in_many_steps() -> None:
    request = codec.request_class(ApiKey.DESCRIBE_GROUPS, 5)
    body = codec.write_request(
        ApiKey.DESCRIBE_GROUPS, 5, request(groups=("g",) * 5_000, include_authorized_operations=False)
    )
    steps, entity = steps_of(codec.reading_request(ApiKey.DESCRIBE_GROUPS, 5, body))
    assert len(entity.groups) == 5_000
    assert steps >= 20


def test_many_elements_are_written_in_many_steps() -> None:
    response = codec.response_class(ApiKey.DESCRIBE_GROUPS, 6)
    groups = shape_of(response).find("groups")
    assert groups is not None and groups.entity is not None
    group = default_entity(groups.entity)
    members = shape_of(groups.entity).find("members")
    assert members is not None and members.entity is not None
    # Both levels can be long.
    for entity in (
        replace(default_entity(response), groups=(group,) * 5_000),
        replace(default_entity(response), groups=(replace(group, members=(default_entity(members.entity),) * 5_000),)),
    ):
        steps, written = steps_of(codec.writing_response(ApiKey.DESCRIBE_GROUPS, 6, entity))
        assert steps >= 20
        assert written == codec.write_response(ApiKey.DESCRIBE_GROUPS, 6, entity)


def test_requests_that_never_have_many_elements_are_rejected_with_many() -> None:
    request = codec.request_class(ApiKey.LIST_GROUPS, 4)
    body = codec.write_request(ApiKey.LIST_GROUPS, 4, request(states_filter=("x",) * (codec.FEW_ELEMENTS + 1)))
    with pytest.raises(MalformedRequest):
        codec.read_request(ApiKey.LIST_GROUPS, 4, body)
    with pytest.raises(MalformedRequest):
        finish(codec.reading_request(ApiKey.LIST_GROUPS, 4, body))


def test_long_values_are_read_in_many_steps() -> None:
    request = codec.request_class(ApiKey.DESCRIBE_GROUPS, 5)
    body = codec.write_request(
        ApiKey.DESCRIBE_GROUPS, 5, request(groups=("g" * 30_000,) * 150, include_authorized_operations=False)
    )
    steps, entity = steps_of(codec.reading_request(ApiKey.DESCRIBE_GROUPS, 5, memoryview(body)))
    assert entity == codec.read_request(ApiKey.DESCRIBE_GROUPS, 5, body)
    # Its bytes are copied in slices, then decoded in slices.
    assert steps >= 2 * len(body) // BYTES_PER_SLICE - 2


def test_long_values_are_written_in_many_steps() -> None:
    response = codec.response_class(ApiKey.DESCRIBE_GROUPS, 6)
    groups = shape_of(response).find("groups")
    assert groups is not None and groups.entity is not None
    group = replace(default_entity(groups.entity), group_id="g" * 30_000)
    entity = replace(default_entity(response), groups=(group,) * 150)
    steps, written = steps_of(codec.writing_response(ApiKey.DESCRIBE_GROUPS, 6, entity))
    assert written == codec.write_response(ApiKey.DESCRIBE_GROUPS, 6, entity)
    # Whether a slice has ended is checked every few elements.
    assert steps >= len(written) // (2 * BYTES_PER_SLICE)


def test_bytes_of_a_large_request_are_read_as_bytes() -> None:
    request = codec.request_class(ApiKey.SYNC_GROUP, 5)
    assignments = shape_of(request).find("assignments")
    assert assignments is not None and assignments.entity is not None
    assignment = replace(default_entity(assignments.entity), assignment=bytes(range(256)) * 8_000)
    body = codec.write_request(ApiKey.SYNC_GROUP, 5, replace(default_entity(request), assignments=(assignment,)))
    read = finish(codec.reading_request(ApiKey.SYNC_GROUP, 5, memoryview(bytearray(body))))
    assert read == codec.read_request(ApiKey.SYNC_GROUP, 5, body)
    assert type(read.assignments[0].assignment) is bytes


@pytest.mark.parametrize("api_key", codec.REQUEST_SIZES_MAX)
def test_requests_for_more_than_a_group_can_store_are_rejected(api_key: int) -> None:
    body = bytes(codec.REQUEST_SIZES_MAX[api_key] + 1)
    with pytest.raises(MalformedRequest, match="too large"):
        codec.read_request(api_key, 5, body)
    with pytest.raises(MalformedRequest, match="too large"):
        finish(codec.reading_request(api_key, 5, body))
