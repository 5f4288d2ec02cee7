import pytest

from penstock.actions.record_format import LineRecord, TextLayout
from penstock.cli.consume import choose_rendering, next_offsets
from penstock.cli.errors import CommandError

RECORD = LineRecord(b"\x1b", b"\xff", [("h\x07", b"\x00")], 0, 1, 2, "t")
ALL = TextLayout(keys=True, headers=True, timestamps=True, offsets=True)


def test_a_pipe_gets_the_bytes_unchanged() -> None:
    assert choose_rendering("text", ALL, is_terminal=False)(RECORD).endswith(b"h\x07=\x00\t\x1b\t\xff\n")
    assert choose_rendering("%k%s", TextLayout(), is_terminal=False)(RECORD) == b"\x1b\xff"


def test_a_terminal_gets_no_byte_that_it_would_interpret() -> None:
    assert choose_rendering("text", ALL, is_terminal=True)(RECORD).endswith(rb"h\x07=\x00" + b"\t\\x1b\t\\xff\n")
    assert choose_rendering("%k%s%h", TextLayout(), is_terminal=True)(RECORD) == rb"\x1b\xffh\x07=\x00"
    printed = choose_rendering("json", TextLayout(), is_terminal=True)(LineRecord(None, b"\x7f"))
    assert b'"value": "\\u007f"' in printed


def test_a_word_that_is_no_format_is_rejected_with_a_hint() -> None:
    with pytest.raises(CommandError, match="use --follow"):
        choose_rendering("-n", TextLayout(), is_terminal=False)


def test_a_format_string_is_not_combined_with_fields() -> None:
    with pytest.raises(CommandError, match="cannot be combined"):
        choose_rendering("%s", TextLayout(keys=True), is_terminal=False)


def test_the_next_offset_of_each_partition_follows_its_last_record() -> None:
    records = [LineRecord(None, b"", partition=index, offset=offset) for index, offset in ((0, 4), (1, 9), (0, 5))]
    assert next_offsets(records) == {0: 6, 1: 10}
