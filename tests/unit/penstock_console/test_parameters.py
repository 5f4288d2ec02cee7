"""Parameters and arguments of requests: a wrong one is rejected with its name and what is expected."""

from typing import Any

import pytest

from penstock_console.errors import ApiError
from penstock_console.parameters import TEXT_SIZE_MAX, Arguments, Parameter, parse_query

PARAMETERS = (
    Parameter(name="search", default="", doc=""),
    Parameter(name="size", default=50, doc="", least=1, most=500),
    Parameter(name="order", default="asc", doc="", choices=("asc", "desc")),
    Parameter(name="follow", default=False, doc=""),
    Parameter(name="series", default=(), doc="", repeated=True),
)


def test_parameters_have_the_type_of_their_default() -> None:
    given = {"search": ["a b"], "size": ["7"], "order": ["desc"], "follow": ["true"], "series": ["x", "y"]}
    assert parse_query(PARAMETERS, given) == {
        "search": "a b",
        "size": 7,
        "order": "desc",
        "follow": True,
        "series": ["x", "y"],
    }
    defaults = parse_query(PARAMETERS, {"size": [""]})
    assert defaults == {"search": "", "size": 50, "order": "asc", "follow": False, "series": []}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"serach": ["a"]}, "Unknown parameter 'serach': the parameters are follow, order, search, series, size."),
        ({"search": ["a", "b"]}, "Parameter 'search' is given more than once."),
        ({"search": ["x" * (TEXT_SIZE_MAX + 1)]}, f"Parameter 'search' is longer than {TEXT_SIZE_MAX} characters."),
        ({"size": ["many"]}, "Invalid size 'many': expected an integer from 1 to 500."),
        ({"size": ["0"]}, "Invalid size '0': expected an integer from 1 to 500."),
        ({"size": ["9" * 30]}, f"Invalid size '{'9' * 30}': expected an integer from 1 to 500."),
        ({"order": ["up"]}, "Invalid order 'up': expected one of asc, desc."),
        ({"follow": ["yes"]}, "Invalid follow 'yes': expected true or false."),
    ],
)
def test_a_wrong_parameter_is_rejected(given: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse_query(PARAMETERS, given)
    assert (refused.value.status, str(refused.value)) == (400, message)


@pytest.mark.parametrize(
    ("method", "value", "expected"),
    [
        ("text", 7, "text"),
        ("text", "", "text"),
        ("text", None, "text"),
        ("optional_text", ["a"], "text"),
        ("integer", None, "an integer from 0 to 9223372036854775807"),
        ("integer", True, "an integer from 0 to 9223372036854775807"),
        ("integer", -1, "an integer from 0 to 9223372036854775807"),
        ("integer", 1.5, "an integer from 0 to 9223372036854775807"),
        ("number", 0, "a positive number"),
        ("number", True, "a positive number"),
        ("number", "1", "a positive number"),
        ("flag", "true", "true or false"),
        ("texts", "a", "a list of texts"),
        ("texts", ["a", ""], "a list of texts"),
        ("items", {"a": 1}, "a list"),
        ("mapping", ["a"], "an object"),
    ],
)
def test_an_argument_of_another_type_is_rejected(method: str, value: Any, expected: str) -> None:
    with pytest.raises(ApiError) as refused:
        getattr(Arguments({"x": value}, ["x"]), method)("x")
    assert str(refused.value) == f"Invalid or missing argument 'x': expected {expected}."


@pytest.mark.parametrize(
    ("method", "value", "found"),
    [
        ("text", "a", "a"),
        ("optional_text", "", None),
        ("optional_integer", "", None),
        ("integer", "12", 12),
        ("number", None, None),
        ("number", 2, 2.0),
        ("flag", True, True),
        ("texts", None, []),
        ("items", [1], [1]),
        ("mapping", {"a": 1}, {"a": 1}),
        ("value", {"a": 1}, {"a": 1}),
    ],
)
def test_an_argument_is_read(method: str, value: Any, found: Any) -> None:
    assert getattr(Arguments({"x": value}, ["x"]), method)("x") == found


def test_an_unknown_argument_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ApiError, match="Unknown argument 'y': the arguments are x"):
        Arguments({"y": 1}, ["x"])
    assert Arguments({}, []).text("x", "default") == "default"
