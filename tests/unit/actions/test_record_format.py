import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.actions.errors import ActionError
from penstock.actions.record_format import (
    LineRecord,
    TextLayout,
    parse_json_line,
    parse_text_line,
    render_json_line,
    render_text_line,
    render_timestamp,
)

optional_bytes = st.none() | st.binary(max_size=40)


def test_a_line_is_a_value_without_a_key() -> None:
    assert parse_text_line(b"hello", key_separator=None) == LineRecord(None, b"hello")


def test_only_the_first_separator_ends_the_key() -> None:
    assert parse_text_line(b"k:a:b", key_separator=b":") == LineRecord(b"k", b"a:b")


def test_a_line_without_its_separator_is_named_in_the_error() -> None:
    with pytest.raises(ActionError, match="'hello' has no key separator ':'"):
        parse_text_line(b"hello", key_separator=b":")


def test_bytes_that_are_not_text_do_not_break_the_error() -> None:
    with pytest.raises(ActionError, match="has no key separator"):
        parse_text_line(b"\xff\xfe", key_separator=b":")


@given(
    key=optional_bytes,
    value=optional_bytes,
    headers=st.lists(st.tuples(st.text(max_size=8), optional_bytes), max_size=3),
    timestamp_ms=st.none() | st.integers(0, 2**50),
    partition=st.none() | st.integers(0, 1000),
)
def test_what_consume_prints_as_json_produce_reads_back(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp_ms: int | None,
    partition: int | None,
) -> None:
    record = LineRecord(key, value, headers, timestamp_ms, partition, offset=7, topic="orders")
    line = render_json_line(record)
    assert line.count(b"\n") == 1
    assert parse_json_line(line) == record._replace(offset=None, topic=None)


def test_other_json_is_a_value_as_it_stands() -> None:
    assert parse_json_line(b'{"value": {"id": 7}}').value == b'{"id": 7}'


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "is not valid JSON"),
        (b"[1]", 'is not an object with a "value"'),
        (b"{}", 'is not an object with a "value"'),
        (b'{"value": "a", "headers": {"a": "b"}}', "Invalid headers"),
        (b'{"value": "a", "headers": [["a"]]}', "Invalid headers"),
        (b'{"value": "a", "timestamp": "now"}', "Invalid timestamp .*: expected an integer"),
        (b'{"value": {"base64": "*"}}', "base64"),
    ],
)
def test_an_invalid_line_is_rejected(line: bytes, complaint: str) -> None:
    with pytest.raises(ActionError, match=complaint):
        parse_json_line(line)


def test_text_has_the_fields_of_the_layout() -> None:
    record = LineRecord(b"k", b"v", [("a", b"1"), ("b", None)], 0, 3, 42, "orders")
    assert render_text_line(record, TextLayout()) == b"v\n"
    assert render_text_line(record, TextLayout(keys=True, key_separator="=")) == b"k=v\n"
    everything = TextLayout(keys=True, headers=True, timestamps=True, offsets=True)
    assert render_text_line(record, everything) == b"1970-01-01T00:00:00.000Z\t3:42\ta=1,b=null\tk\tv\n"


def test_a_tombstone_is_rendered_as_null() -> None:
    assert render_text_line(LineRecord(None, None), TextLayout(keys=True)) == b"null\tnull\n"
    assert json.loads(render_json_line(LineRecord(None, None)))["value"] is None


def test_a_timestamp_outside_the_calendar_is_rendered_as_a_number() -> None:
    assert render_timestamp(2**62) == str(2**62)
    assert render_timestamp(None) == "-"
