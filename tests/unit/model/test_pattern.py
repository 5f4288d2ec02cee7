"""Regular expressions of clients have a bounded cost."""

import time

import pytest

from penstock.model.pattern import (
    DOTS_MAX,
    OPERATORS_MAX,
    SHORT_SIZE_MAX,
    SIZE_MAX,
    UNICODE_CLASSES_MAX,
    check,
    compiled,
)

CPU_S_MAX = 0.1
"""An expression takes a few milliseconds; without the limits these take a tenth of a second to twenty seconds."""


def test_a_pattern_matches_whole_names() -> None:
    assert [compiled("a(b|c)+").matches(name) for name in ("ab", "abcb", "a", "xab", "abx")] == [
        True,
        True,
        *[False] * 3,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "(",
        "x" * (SIZE_MAX + 1),
        r"\pL" * (UNICODE_CLASSES_MAX + 1),
        r"\PL{1000}",
        "(.{1000})" * 9,
        "a?" * 9_000,
        "a{1000}" * 2_000,
        "(?i)" + "[a-z]" * 3_000,
        "(?i)" + "k" * SHORT_SIZE_MAX,
        "x" * SHORT_SIZE_MAX + "x+" * 51,
        "." * (DOTS_MAX + 1),
        "é" * (SHORT_SIZE_MAX + 1),
        r"\W" * SHORT_SIZE_MAX,
    ],
)
def test_invalid_and_expensive_expressions_are_refused_at_once(text: str) -> None:
    began = time.thread_time()
    with pytest.raises(ValueError, match=r"missing|too large"):
        check(text)
    assert time.thread_time() - began < CPU_S_MAX


@pytest.mark.parametrize(
    "text", ["(x*)*" * (SHORT_SIZE_MAX // 5), r"(\w+\s*)" * (SHORT_SIZE_MAX // 8), "(" * 400 + "x*" + ")" * 400]
)
def test_groups_cost_nothing(text: str) -> None:
    check(text)
    pattern = compiled(text)
    began = time.thread_time()
    pattern.matches("x" * 249)
    assert time.thread_time() - began < CPU_S_MAX


@pytest.mark.parametrize("text", [r"\pL+-\pN+", "orders|payments|invoices", "(?i)team-[a-z0-9.]{1,60}", ".*"])
def test_ordinary_expressions_are_accepted(text: str) -> None:
    check(text)
    assert compiled(text).instruction_count > 0


@pytest.mark.parametrize("form", ["{}", "({})", "^(?:{})$", "({})-[0-9]+"])
@pytest.mark.parametrize(
    "name", ["{:04d}-" + "x" * 25, "team.{:04d}.orders.of.customers.x", r"{:04d}\.orders\.of\.2024-x"]
)
def test_a_list_of_500_names_is_accepted(form: str, name: str) -> None:
    names = [name.format(number) for number in range(500)]
    text = form.format("|".join(names))
    check(text)
    pattern = compiled(text)
    wanted = names[499].replace("\\", "") + ("-7" if "[" in form else "")
    assert pattern.matches(wanted)
    assert not pattern.matches(wanted + "x")


def test_a_long_expression_may_have_some_operators() -> None:
    text = "x" * SHORT_SIZE_MAX + "[ab]" * OPERATORS_MAX
    check(text)
    assert compiled(text).matches("x" * SHORT_SIZE_MAX + "a" * OPERATORS_MAX)


@pytest.mark.parametrize("text", ["(?i)" + "|".join(f"name-{n}" for n in range(2_000)), r"\pL{7}" * 9])
def test_an_expression_that_was_accepted_earlier_keeps_its_meaning(text: str) -> None:
    with pytest.raises(ValueError, match="too large"):
        check(text)
    assert compiled(text).matches("NAME-1999" if "name" in text else "x" * 63)


def test_matching_many_names_is_fast() -> None:
    text = "(a{0,100}){0,10}"
    check(text)
    pattern = compiled(text)
    began = time.thread_time()
    assert not any(pattern.matches(f"{'a' * 200}-{number}") for number in range(500))
    # Without room for RE2's cache each takes some milliseconds.
    assert time.thread_time() - began < 10 * CPU_S_MAX
