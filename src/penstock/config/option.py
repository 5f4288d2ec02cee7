"""The declaration of one option, and the conversion between its text and its value.

Owns parsing, rendering and the limits of a single value; rules that involve several options are in
settings.py. Error messages use Kafka's wording, because people and tools search for it. A bad
value raises InvalidConfig.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import isinf
from typing import Any, Final, Literal

from penstock.model.errors import InvalidConfig

Kind = Literal["boolean", "string", "int", "short", "long", "double", "list", "class", "password"]
Scope = Literal["read-only", "per-broker", "cluster-wide"]
Value = bool | int | float | str | tuple[str, ...] | None
Check = Callable[[str, Value], None]

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
SECOND_MS: Final = 1000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

HIDDEN: Final = "[hidden]"
"""Replaces the value of a password in messages."""

_INTEGER_LIMITS: Final = {
    "short": (-(2**15), 2**15 - 1, "SHORT"),
    "int": (-(2**31), INT_MAX, "INT"),
    "long": (-(2**63), LONG_MAX, "LONG"),
}
# int() alone would accept underscores and the digits of other scripts, which Kafka rejects.
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The declaration of one option.

    `name` is the broker-level name, `topic` the topic-level name if topics have the option. `fallbacks`
    are broker options that apply, in this order, if this one is not set; the last word of their name is
    their unit. `topic_least` is a minimum that applies only to topics, `at_broker` is false for options
    that exist only for topics or groups, `own` marks options that Kafka does not have.
    """

    name: str
    kind: Kind
    default: Value
    doc: str
    topic: str | None = None
    least: float | None = None
    most: float | None = None
    topic_least: float | None = None
    choices: tuple[str, ...] = ()
    scope: Scope = "read-only"
    fallbacks: tuple[str, ...] = ()
    check: Check | None = None
    allow_empty: bool = True
    internal: bool = False
    at_broker: bool = True
    own: bool = False

    @property
    def sensitive(self) -> bool:
        return self.kind == "password"

    @property
    def live(self) -> bool:
        return self.scope != "read-only"


def declare(kind: Kind, name: str, default: Value, doc: str, **rest: Any) -> Option:
    """Return an option; the short form used in the long tables."""
    return Option(name=name, kind=kind, default=default, doc=doc, **rest)


def invalid(name: str, value: object, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {value} for configuration {name}: {why}")


def parse(option: Option, text: str, *, name: str | None = None) -> Value:
    """Return the value of a text, checked against the limits of the option.

    `name` is the name used where the text was written, such as the topic-level name.
    """
    called = name or option.name
    value = _convert(option.kind, text.strip() if option.kind != "password" else text, called)
    if option.choices:
        _check_choice(option, value, called)
    elif option.kind == "list" and not option.allow_empty and not value:
        raise InvalidConfig(f"Configuration '{called}' values must not be empty.")
    if isinstance(value, int | float) and not isinstance(value, bool):
        least = option.topic_least if called == option.topic and option.topic_least is not None else option.least
        if least is not None and value < least:
            raise invalid(called, render(option, value), f"Value must be at least {_plain(least)}")
        if option.most is not None and value > option.most:
            raise invalid(called, render(option, value), f"Value must be no more than {_plain(option.most)}")
    if option.check is not None:
        try:
            option.check(called, value)
        except InvalidConfig as problem:
            if option.sensitive and text:
                raise InvalidConfig(problem.message.replace(text, HIDDEN)) from None
            raise
    return value


def render(option: Option, value: Value) -> str | None:
    """Return the text of a value as DescribeConfigs returns it, or None if there is no value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if option.kind == "double" and not isinstance(value, str):
        return _java_double(float(value))
    return str(value)


def _java_double(value: float) -> str:
    """Format a number as Java does: 1.0E7 where Python has 10000000.0."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "options are finite"
    mantissa = f"{digits[0]}.{''.join(map(str, digits[1:])) or '0'}"
    return f"{'-' * sign}{mantissa}E{exponent + len(digits) - 1}"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


def _convert(kind: Kind, text: str, name: str) -> Value:
    if kind in _INTEGER_LIMITS:
        low, high, spelled = _INTEGER_LIMITS[kind]
        if not _INTEGER.fullmatch(text) or len(text) > 20 or not low <= int(text) <= high:
            raise invalid(name, text, f"Not a number of type {spelled}")
        return int(text)
    if kind == "boolean":
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise invalid(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if kind == "double":
        # A number that is too large would become infinite.
        if not _NUMBER.fullmatch(text) or isinf(float(text)):
            raise invalid(name, text, "Not a number of type DOUBLE")
        return float(text)
    if kind == "list":
        return tuple(dict.fromkeys(word.strip() for word in text.split(","))) if text else ()
    return text


def _check_choice(option: Option, value: Value, name: str) -> None:
    listed = ", ".join(option.choices)
    if not isinstance(value, tuple):
        if value not in option.choices:
            raise invalid(name, value, f"String must be one of: {listed}")
        return
    if not value and not option.allow_empty:
        raise InvalidConfig(f"Configuration '{name}' must not be empty. Valid values include: [{listed}]")
    if "" in value:
        raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
    for word in value:
        if word not in option.choices:
            raise invalid(name, word, f"String must be one of: {listed}")
