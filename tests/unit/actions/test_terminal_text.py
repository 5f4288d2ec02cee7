import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.actions.record_format import LineRecord, render_json_line
from penstock.actions.terminal_text import escape_for_terminal, escape_json_for_terminal


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain text", b"plain text"),
        ("Zürich\t日本\n".encode(), "Zürich\t日本\n".encode()),
        (b"\x1b[31mred", rb"\x1b[31mred"),
        (b"over\rwritten", rb"over\x0dwritten"),
        (b"\xff\x00\x7f", rb"\xff\x00\x7f"),
        ("\x9b31m".encode(), rb"\xc2\x9b31m"),
        ("a\u202eb".encode(), rb"a\xe2\x80\xaeb"),
    ],
)
def test_bytes_that_a_terminal_would_interpret_are_escaped(data: bytes, shown: bytes) -> None:
    assert escape_for_terminal(data) == shown


@given(st.binary(max_size=60))
def test_nothing_unprintable_is_left(data: bytes) -> None:
    shown = escape_for_terminal(data).decode()
    assert not any((ord(each) < 32 and each not in "\t\n") or 0x7F <= ord(each) <= 0x9F for each in shown)


@given(st.text(max_size=40))
def test_escaped_json_means_the_same(text: str) -> None:
    encoded = text.encode("utf-8", "replace")
    line = escape_json_for_terminal(render_json_line(LineRecord(None, encoded)))
    assert json.loads(line)["value"] == encoded.decode()
    assert b"\x7f" not in line and "\x9b".encode() not in line
