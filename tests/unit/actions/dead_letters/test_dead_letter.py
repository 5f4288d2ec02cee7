import json

import pytest

from penstock.actions.dead_letters.dead_letter import (
    DeadLetter,
    Filter,
    dead_letter_row,
    parse_dead_letter,
    render_json,
    render_text,
)
from penstock.actions.record_format import LineRecord
from penstock.worker import Record, dead_letter

OWN = [("trace", b"1")]


def letter(error: Exception, *, key: bytes | None = b"k", value: bytes | None = b"v", offset: int = 4) -> DeadLetter:
    source = Record(topic="orders", partition=2, offset=41, headers=OWN)
    death = dead_letter.describe(source, error, attempts=3, first_failure_ms=0, last_failure_ms=1000, group="billing")
    written = dead_letter.write(OWN, death)
    headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in written]
    return parse_dead_letter(LineRecord(key, value, headers, 9, 0, offset, "orders.dlq"))


STRANGER = parse_dead_letter(LineRecord(None, b"hello", [("a", b"b")], 1, 0, 0, "orders.dlq"))


def test_a_dead_letter_has_its_original_headers() -> None:
    assert list(letter(ValueError()).record.headers) == OWN


def test_a_record_without_a_death_is_rendered_unchanged() -> None:
    assert STRANGER.death is None
    assert dead_letter_row(STRANGER) == {"partition": 0, "offset": 0, "key": None}
    assert json.loads(render_json(STRANGER))["death"] is None
    assert "hello" in render_text(STRANGER)


def test_a_row_has_the_source_and_the_error() -> None:
    row = dead_letter_row(letter(ValueError("no\nprice")))
    assert (row["source"], row["error"], row["message"]) == ("orders-2@41", "ValueError", "no price")
    assert (row["failed"], row["attempts"]) == ("1970-01-01T00:00:01.000Z", 3)


def test_json_has_the_record_and_its_death() -> None:
    read = json.loads(render_json(letter(ValueError("no price"))))
    assert (read["key"], read["value"], read["headers"]) == ("k", "v", [["trace", "1"]])
    assert (read["death"]["topic"], read["death"]["error_message"]) == ("orders", "no price")


def test_the_full_text_has_the_trace() -> None:
    text = render_text(letter(ValueError("no price")))
    assert "  error     ValueError: no price" in text
    assert "  | ValueError: no price" in text
    assert "  header    trace=1" in text


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        (Filter(), True),
        (Filter(error="JSONDecodeError"), True),
        (Filter(error="json.decoder.JSONDecodeError"), True),
        (Filter(error="decoder.JSONDecodeError"), False),
        (Filter(key="k"), True),
        (Filter(key="z"), False),
        (Filter(contains="Expecting"), True),
        (Filter(contains="{bad"), True),
        (Filter(contains="good"), False),
        (Filter(offsets=(4, 5)), True),
        (Filter(offsets=(5,)), False),
    ],
)
def test_a_filter_matches_its_conditions(wanted: Filter, passes: bool) -> None:
    error = json.JSONDecodeError("Expecting value", "{bad", 0)
    assert wanted.matches(letter(error, value=b"{bad")) is passes


def test_a_record_without_a_death_matches_no_error() -> None:
    assert not Filter(error="ValueError").matches(STRANGER)
    assert Filter().matches_all
    assert not Filter(key="").matches_all
