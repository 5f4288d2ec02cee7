"""Subscriptions by regular expression: checked on arrival, matched against whole topic names.

The syntax is RE2's, as in Kafka; model/pattern.py limits what an expression may cost. Refuses:
InvalidRegularExpression.
"""

from collections.abc import Iterable

from penstock.model.errors import InvalidRegularExpression
from penstock.model.pattern import check, compiled


def check_regex(regex: str) -> None:
    try:
        check(regex)
    except ValueError as error:
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        ) from None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that the whole expression matches."""
    try:
        matches = compiled(regex).matches
    except ValueError:
        # Accepted by a release with another library. It matches nothing until the member sends another one.
        return frozenset()
    return frozenset(name for name in names if matches(name))
