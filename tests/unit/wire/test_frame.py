"""Request headers of both kinds are decoded, and a bad one raises nothing but MalformedRequest."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import (
    CLIENT_ID_SIZE_MAX,
    TAGGED_FIELDS_MAX,
    Header,
    MalformedRequest,
    has_flexible_response_header,
    parse_header,
    parse_response_header,
    read_uvarint,
    request_head,
    response_head,
    skip_tagged_fields,
)


def header_of(frame: bytes) -> Header:
    return parse_header(memoryview(bytearray(frame)))


def fixed(api_key: int, version: int, client_id: bytes | None = b"me") -> bytes:
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", api_key, version, 42, size) + (client_id or b"")


def test_an_old_header_ends_with_the_client_id() -> None:
    header = header_of(fixed(ApiKey.METADATA, 8) + b"body")
    assert (header.api_key, header.version, header.correlation_id, header.client_id) == (3, 8, 42, "me")
    assert header.body_position == 12


def test_a_flexible_header_has_tagged_fields_that_are_skipped() -> None:
    assert header_of(fixed(ApiKey.METADATA, 9) + b"\x00body").body_position == 13
    tags = b"\x02\x00\x03abc\x63\x00"
    assert header_of(fixed(ApiKey.METADATA, 9) + tags + b"body").body_position == 12 + len(tags)


def test_a_null_client_id_becomes_an_empty_one() -> None:
    assert header_of(fixed(ApiKey.FETCH, 11, None)).client_id == ""
    assert header_of(fixed(ApiKey.FETCH, 11, b"")).client_id == ""
    assert header_of(fixed(ApiKey.FETCH, 11, None)).body_position == 10


def test_invalid_utf8_in_a_client_id_is_replaced() -> None:
    assert header_of(fixed(ApiKey.FETCH, 11, b"a\xff\xfeb")).client_id == "a��b"


def test_a_long_client_id_is_cut_where_it_is_used_as_a_prefix() -> None:
    header = header_of(fixed(ApiKey.FETCH, 11, b"x" * 5000) + b"body")
    assert header.client_id == "x" * CLIENT_ID_SIZE_MAX
    assert header.body_position == 10 + 5000


def test_an_unknown_version_is_left_to_the_dispatcher() -> None:
    assert header_of(fixed(ApiKey.API_VERSIONS, 99) + b"\x00").version == 99
    assert header_of(fixed(ApiKey.METADATA, -1)).version == -1


@pytest.mark.parametrize("size", range(10))
def test_a_frame_too_short_for_a_header_is_malformed(size: int) -> None:
    with pytest.raises(MalformedRequest):
        header_of(fixed(ApiKey.FETCH, 4)[:size])


@pytest.mark.parametrize(
    "frame",
    [
        fixed(4, 0),  # LeaderAndIsr was removed.
        fixed(-1, 0),
        fixed(999, 0),
        struct.pack(">hhih", 3, 1, 0, -2),
        struct.pack(">hhih", 3, 1, 0, 5) + b"four",
        struct.pack(">hhih", 3, 1, 0, 32767),
        fixed(ApiKey.METADATA, 9),  # No tagged fields where they must be.
        fixed(ApiKey.METADATA, 9) + b"\x80",
        fixed(ApiKey.METADATA, 9) + b"\xff\xff\xff\xff\xff\x01",
        fixed(ApiKey.METADATA, 9) + b"\xff\xff\xff\xff\x1f",
        fixed(ApiKey.METADATA, 9) + b"\xff\xff\xff\xff\x07",  # 2147483647 tagged fields.
        fixed(ApiKey.METADATA, 9) + b"\x01\x00\x05abc",
        fixed(ApiKey.METADATA, 9) + b"\x01\x00\xff\xff\xff\xff\x0f",
        fixed(ApiKey.METADATA, 9) + b"\x02\x00\x00",
    ],
)
def test_a_contradictory_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedRequest):
        header_of(frame)


def test_more_tagged_fields_than_any_client_sends_are_malformed() -> None:
    def tags(count: int) -> bytes:
        return bytes((count & 0x7F | 0x80, count >> 7)) + b"\x63\x00" * count

    position = 12 + len(tags(TAGGED_FIELDS_MAX))
    assert header_of(fixed(ApiKey.METADATA, 9) + tags(TAGGED_FIELDS_MAX) + b"body").body_position == position
    with pytest.raises(MalformedRequest, match="257 tagged fields"):
        header_of(fixed(ApiKey.METADATA, 9) + tags(TAGGED_FIELDS_MAX + 1) + b"body")


@given(frame=st.binary(max_size=60), api_key=st.sampled_from(sorted(APIS)), version=st.integers(-2, 20))
def test_random_frames_raise_no_other_error(frame: bytes, api_key: int, version: int) -> None:
    for data in (frame, struct.pack(">hh", api_key, version) + frame):
        with contextlib.suppress(MalformedRequest):
            header = header_of(data)
            assert header.body_position <= len(data)


def test_request_headers_are_read_back() -> None:
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            for client_id in (None, "", "añb"):
                head = request_head(api.key, version, 7, client_id, body_size=3)
                assert int.from_bytes(head[:4], "big") == len(head) - 4 + 3
                header = header_of(head[4:] + b"xyz")
                assert (header.api_key, header.version, header.correlation_id) == (api.key, version, 7)
                assert header.client_id == (client_id or "")
                assert header.body_position == len(head) - 4


def test_responses_have_their_size_and_the_header_of_their_version() -> None:
    assert response_head(ApiKey.METADATA, 8, 7, body_size=10) == struct.pack(">ii", 14, 7)
    assert response_head(ApiKey.METADATA, 9, 7, body_size=10) == struct.pack(">iiB", 15, 7, 0)


def test_api_versions_responses_always_have_the_old_header() -> None:
    for version in (0, 3, 4, 99):
        assert not has_flexible_response_header(ApiKey.API_VERSIONS, version)
        assert response_head(ApiKey.API_VERSIONS, version, 7, body_size=1) == struct.pack(">ii", 5, 7)


def test_response_headers_are_read_back() -> None:
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            head = response_head(api.key, version, -5, body_size=0)
            frame = memoryview(head)[4:]
            assert parse_response_header(api.key, version, frame) == (-5, len(frame))
    with pytest.raises(MalformedRequest):
        parse_response_header(ApiKey.FETCH, 4, memoryview(b"abc"))


def test_varints_are_read_up_to_32_bits() -> None:
    assert read_uvarint(b"\xff\xff\xff\xff\x0f", 0) == (2**32 - 1, 5)
    assert read_uvarint(b"..\x96\x01", 2) == (150, 4)
    assert skip_tagged_fields(b"\x00", 0) == 1


def test_the_repr_of_a_header_has_what_a_log_line_needs() -> None:
    assert repr(header_of(fixed(ApiKey.FETCH, 11))) == "Header(Fetch v11, correlation_id=42, client_id='me')"
