"""Existing names that are similar to an unknown one: topics, groups, users and topic settings."""

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Final

from penstock.actions.connection import Connection
from penstock.actions.errors import UNKNOWN_SHARE_GROUP, UNKNOWN_USER, ActionError, ActionErrors
from penstock.actions.names import group_names, share_group_names, topic_names, user_names

NAMES_BY_ERROR: Final[dict[str, Callable[[Connection], Iterable[str]]]] = {
    "UNKNOWN_TOPIC_OR_PART": topic_names,
    "_UNKNOWN_TOPIC": topic_names,
    "UNKNOWN_TOPIC_OR_PARTITION": topic_names,
    "GROUP_ID_NOT_FOUND": group_names,
    UNKNOWN_SHARE_GROUP: share_group_names,
    UNKNOWN_USER: user_names,
}
# The words of Kafka and of Penstock.
_UNKNOWN_SETTING: Final = re.compile(r"Unknown topic config name: ([\w.-]+)")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the most similar name; nothing if none is similar."""
    from penstock_client.errors import nearest  # needed only for an error

    return nearest(name, (each for each in known if each != name)).lstrip()


def add_suggestion(error: ActionError, connection: Connection) -> None:
    """Add the most similar name to an error about an unknown topic, group, user or topic setting."""
    if isinstance(error, ActionErrors):
        for each in error.errors:
            add_suggestion(each, connection)
    elif error.code in NAMES_BY_ERROR and error.about:
        _add(error, error.about, lambda: NAMES_BY_ERROR[error.code](connection))
    elif found := _UNKNOWN_SETTING.search(str(error)):
        from penstock.config.topic import TOPIC

        _add(error, found[1].rstrip("."), lambda: TOPIC)


def _add(error: ActionError, name: str, known: Callable[[], Iterable[str]]) -> None:
    # The error to report is the first one, not that of the search for names.
    with contextlib.suppress(Exception):
        error.suggestion = did_you_mean(name, known())
