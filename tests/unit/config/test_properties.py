"""Tests that properties files are parsed as Java parses them."""

import pytest

from penstock.config.properties import parse_properties
from penstock.model.errors import StartupError


def test_a_line_is_a_name_and_a_value_with_one_of_three_separators() -> None:
    assert parse_properties("a=1\nb : 2\n  c   3\nd\ne=\nf = x = y\n") == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "",
        "e": "",
        "f": "x = y",
    }


def test_comments_and_empty_lines_are_ignored() -> None:
    assert parse_properties("# a=1\n   ! b=2\n\n\r\nc=3 # not a comment\r\n") == {"c": "3 # not a comment"}


def test_a_backslash_at_the_end_joins_lines() -> None:
    assert parse_properties("listeners=A://:1,\\\n    B://:2\nx=1\\\\\ny=2") == {
        "listeners": "A://:1,B://:2",
        "x": "1\\",
        "y": "2",
    }


def test_escapes_are_replaced_by_their_characters() -> None:
    assert parse_properties(r"a\=b=c\td\u0041\q") == {"a=b": "c\tdAq"}


def test_the_last_of_duplicate_names_wins() -> None:
    assert parse_properties("a=1\na=2") == {"a": "2"}


def test_a_malformed_escape_is_rejected() -> None:
    with pytest.raises(StartupError):
        parse_properties(r"a=\u12")


def test_a_backslash_at_the_end_of_the_file_joins_nothing() -> None:
    assert parse_properties("a=1\\") == {"a": "1"}
    assert parse_properties("a=1\n\\") == {"a": "1"}
