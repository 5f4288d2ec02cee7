"""Subscriptions by regular expression: checked when they arrive, matched against whole topic names.

The expressions are RE2's, as in Kafka: they run in time linear in the name, so no member can
stall the coordinator with one. Refuses: InvalidRegularExpression.
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
    """The names that the expression matches from end to end."""
    try:
        matches = _compile(regex).fullmatch
    except re2.error:
        # It was accepted by a release with other rules. It matches nothing until the member brings another.
        return frozenset()
    return frozenset(name for name in names if matches(name))


@lru_cache(maxsize=256)
def _compile(regex: str) -> Any:
    options = re2.Options()
    # The library would write about each bad expression to the standard error output.
    options.log_errors = False
    return re2.compile(regex, options)
