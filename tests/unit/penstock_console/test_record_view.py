import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.actions.record_format import LineRecord
from penstock_console.binary_formats import hex_dump, render_protobuf
from penstock_console.json_content import encode
from penstock_console.record_view import ROW_TEXT_MAX, all_formats, field_view, record_row


@pytest.mark.parametrize(
    ("data", "format", "text"),
    [
        (None, "null", "null"),
        (b"", "empty", ""),
        (b"hello", "text", "hello"),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
        ("\u202eevil".encode(), "text", "\u202eevil"),
        (b'{"id": 9223372036854775807}', "json", '{"id": 9223372036854775807}'),
        (b"[1]", "json", "[1]"),
        (b"42", "text", "42"),
        (b"{not json", "text", "{not json"),
        (b"\xff\xfe\x00", "hex", "ff fe 00"),
        (b"\x00\x00\x00\x00\x07abc", "registry", "schema 7, 3 bytes: 61 62 63"),
        (b"\x08\x96\x01", "protobuf", '{\n  "1": 150\n}'),
    ],
)
def test_the_format_of_a_field_is_found(data: bytes | None, format: str, text: str) -> None:
    view = field_view(data, ROW_TEXT_MAX)
    assert (view["format"], view["text"]) == (format, text)
    assert view["size"] == len(data or b"")
    assert not view["cut"]


@given(st.binary(max_size=2000))
def test_any_bytes_have_a_view_of_bounded_size(data: bytes) -> None:
    row = record_row(LineRecord(data, data, [("h", data)], 0, 0, 0), with_cells=True)
    assert len(row["value"]["text"]) <= ROW_TEXT_MAX
    json.loads(encode(row))
    json.loads(encode(all_formats(data)))


def test_a_large_value_is_cut() -> None:
    view = field_view(b'{"a": "' + b"x" * 18_000_000 + b'"}', ROW_TEXT_MAX)
    assert (view["format"], view["cut"], view["size"]) == ("json", True, 18_000_009)
    assert len(view["text"]) == ROW_TEXT_MAX


def test_a_character_at_the_cut_is_not_damaged() -> None:
    for extra in range(4):
        view = field_view(b"x" * extra + "é€😀".encode() * 20_000, ROW_TEXT_MAX)
        assert view["format"] == "text"
        assert "\ufffd" not in view["text"]


def test_the_fields_of_json_are_cells_with_their_digits() -> None:
    record = LineRecord(None, b'{"id": 9223372036854775807, "price": 1.10, "name": "Zo\\u00eb", "in": {"a": [1]}}')
    assert record_row(record, with_cells=True)["cells"] == {
        "id": "9223372036854775807",
        "price": "1.10",
        "name": "Zoë",
        "in": '{"a": [1]}',
    }


def test_a_value_that_is_no_object_has_no_cells() -> None:
    for value in (None, b"", b"[1]", b"text", b"\xff"):
        assert record_row(LineRecord(None, value), with_cells=True)["cells"] == {}


def test_every_format_of_a_value_is_offered() -> None:
    assert all_formats(b'{"a":1}').keys() == {"text", "json", "hex"}
    assert all_formats(b"plain").keys() == {"text", "hex"}
    assert all_formats(b"\xff").keys() == {"hex"}
    assert all_formats(None) == {}


def test_a_hex_dump_has_offsets_and_letters() -> None:
    assert hex_dump(b"0123456789abcdef\x00A").splitlines() == [
        "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef",
        "00000010  00 41                                            .A",
    ]


def test_a_nested_protobuf_message_is_rendered_by_field_numbers() -> None:
    inner = b"\x08\x01\x10\x02"
    message = b"\x0a\x03abc" + b"\x12" + bytes([len(inner)]) + inner + b"\x19" + (2**63 - 1).to_bytes(8, "little")
    assert json.loads(render_protobuf(message) or "") == {"1": "abc", "2": {"1": 1, "2": 2}, "3": 2**63 - 1}


def test_a_repeated_protobuf_field_is_a_list() -> None:
    assert json.loads(render_protobuf(b"\x08\x01\x08\x02\x08\x03") or "") == {"1": [1, 2, 3]}


@given(st.binary(max_size=500))
def test_no_bytes_make_the_protobuf_reader_fail(data: bytes) -> None:
    render_protobuf(data)
