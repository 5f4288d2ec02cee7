"""Subscriptions by regular expression: checked on arrival, matched against whole topic names.

The syntax is RE2's, as in Kafka. RE2 matches in linear time, so no member can stall the
coordinator with an expression. Refuses: InvalidRegularExpression.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

from penstock.model.errors import InvalidRegularExpression


def check_regex(regex: str) -> None:
    try:
        _compile(regex)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}."
        ) from None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that the whole expression matches."""
    try:
        matches = _compile(regex).fullmatch
    except re2.error:
        # Accepted by a release with other rules. It matches nothing until the member sends another one.
        return frozenset()
    return frozenset(name for name in names if matches(name))


@lru_cache(maxsize=256)
def _compile(regex: str) -> Any:
    options = re2.Options()
    # Otherwise the library logs each invalid expression to stderr.
    options.log_errors = False
    return re2.compile(regex, options)
