"""Our readers and writers against kio's, for every supported version of every API.

kio only gets bytes that kio or our writers have produced: others may end the process.
"""

import contextlib
import io
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader as kio_reader
from kio.serial import entity_writer as kio_writer

from penstock.wire import codec
from penstock.wire.api import APIS
from penstock.wire.codec import read_request, request_class, response_class, seen_request_class, write_response
from penstock.wire.frame import MalformedRequest
from penstock.wire.reader import Body, entity_reader
from penstock.wire.schema import FieldShape, shape_of
from penstock.wire.writer import CannotWrite, entity_writer
from tests.oracle.entities import entities

VERSIONS = [
    (api.key, version)
    for api in APIS.values()
    for version in range(max(api.min_version, api.accepted_from), api.max_version + 1)
]
COLD_VERSIONS = [(key, version) for key, version in VERSIONS if not APIS[key].hot and not APIS[key].hand_written]
UPGRADES = codec._UPGRADES

few = settings(max_examples=3, suppress_health_check=list(HealthCheck))


def kio_bytes(entity: Any) -> bytes:
    out = io.BytesIO()
    kio_writer(type(entity))(out, entity)
    return out.getvalue()


def our_bytes(layout: type[Any], entity: Any) -> bytes:
    out = bytearray()
    entity_writer(layout, type(entity))(out, entity)
    return bytes(out)


def assert_shared_fields_agree(one: Any, other: Any, *, path: str = "") -> None:
    """Assert that fields of both classes are equal and that fields of only `one`'s class have their defaults."""
    if one is None or other is None:
        assert one is other, path
        return
    other_shape = shape_of(type(other))
    shape = shape_of(type(one))
    for field in (*shape.plain, *shape.tagged):
        value = getattr(one, field.name)
        if other_shape.find(field.name) is None:
            assert value == field.default, f"{path}.{field.name}"
        else:
            assert_values_agree(field, value, getattr(other, field.name), f"{path}.{field.name}")


def assert_values_agree(field: FieldShape, one: Any, other: Any, path: str) -> None:
    if field.entity is None:
        assert one == other, path
    elif field.repeated:
        assert (one is None) == (other is None), path
        for left, right in zip(one or (), other or (), strict=True):
            assert_shared_fields_agree(left, right, path=path)
    else:
        assert_shared_fields_agree(one, other, path=path)


@pytest.mark.parametrize("load", [request_class, response_class])
@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@few
@given(data=st.data())
def test_bytes_and_entities_are_those_of_kio(load: Any, api_key: int, version: int, data: st.DataObject) -> None:
    layout = load(api_key, version)
    entity = data.draw(entities(layout))
    written = kio_bytes(entity)
    assert our_bytes(layout, entity) == written
    ours, position = entity_reader(layout, layout)(Body(written), 0)
    kios, size = kio_reader(layout)(written, 0)
    assert ours == kios == entity
    assert position == size == len(written)


@pytest.mark.parametrize(("api_key", "version"), COLD_VERSIONS)
@few
@given(data=st.data())
def test_any_request_becomes_the_one_that_handlers_see(api_key: int, version: int, data: st.DataObject) -> None:
    old = data.draw(entities(request_class(api_key, version)))
    request = read_request(api_key, version, kio_bytes(old))
    seen = seen_request_class(api_key)
    assert isinstance(request, seen)
    # A handler gets only values that kio accepts in that version.
    assert kio_reader(seen)(kio_bytes(request), 0)[0] == request
    # The unit tests cover the versions that use other fields one by one.
    if (api_key, version) not in UPGRADES:
        assert_shared_fields_agree(request, old)


@pytest.mark.parametrize(("api_key", "version"), COLD_VERSIONS)
@few
@given(data=st.data())
def test_the_latest_response_is_written_in_an_older_version(api_key: int, version: int, data: st.DataObject) -> None:
    latest = data.draw(entities(response_class(api_key, APIS[api_key].max_version)))
    try:
        written = write_response(api_key, version, latest)
    except CannotWrite as refusal:
        assert "null" in str(refusal)
        assume(False)
    old, size = kio_reader(response_class(api_key, version))(written, 0)
    assert size == len(written)
    assert_shared_fields_agree(old, latest)


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(key_and_version=st.sampled_from(VERSIONS), data=st.data())
def test_a_mutated_request_is_read_or_malformed(key_and_version: tuple[int, int], data: st.DataObject) -> None:
    body = bytearray(kio_bytes(data.draw(entities(request_class(*key_and_version)))))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(body)))
        body[start : start + data.draw(st.integers(0, 4))] = data.draw(
            st.binary(max_size=5) | st.sampled_from([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff" * 8])
        )
    with contextlib.suppress(MalformedRequest):
        read_request(*key_and_version, body)
