import json

import pytest

from penstock_console.errors import ApiError
from penstock_console.json_content import encode, parse_object


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**63 - 1, -(2**63), 10**30])
def test_an_integer_that_a_browser_would_round_is_a_string(number: int) -> None:
    assert json.loads(encode({"n": [number]})) == {"n": [str(number)]}


@pytest.mark.parametrize("number", [0, 2**53 - 1, -(2**53 - 1)])
def test_other_integers_are_numbers(number: int) -> None:
    assert json.loads(encode(number)) == number


def test_nothing_makes_the_encoding_fail() -> None:
    content = {"a": float("nan"), "b": float("inf"), "c": "\ud800", "d": {1: (True, None)}, "e": object}
    assert json.loads(encode(content))["d"] == {"1": [True, None]}


def test_a_body_must_be_an_object() -> None:
    assert parse_object(b'{"a": 1}') == {"a": 1}
    for body in (b"", b"[]", b"null", b"{", b"\xff\xff"):
        with pytest.raises(ApiError):
            parse_object(body)
