"""Existing names that are similar to an unknown one: topics, groups, users and topic settings."""

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Final

from penstock.actions.connection import Connection
from penstock.actions.errors import UNKNOWN_SHARE_GROUP, UNKNOWN_USER, ActionError, ActionErrors
from penstock.actions.names import group_names, share_group_names, topic_names, user_names

_UNKNOWN_TOPIC: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PARTITION"})
_UNKNOWN_GROUP: Final = frozenset({"GROUP_ID_NOT_FOUND"})
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
    elif error.code in _UNKNOWN_TOPIC and error.about:
        _add(error, error.about, lambda: topic_names(connection))
    elif error.code in _UNKNOWN_GROUP and error.about:
        _add(error, error.about, lambda: group_names(connection))
    elif error.code == UNKNOWN_SHARE_GROUP:
        _add(error, error.about, lambda: share_group_names(connection))
    elif error.code == UNKNOWN_USER:
        _add(error, error.about, lambda: user_names(connection))
    elif found := _UNKNOWN_SETTING.search(str(error)):
        from penstock.config.topic import TOPIC

        _add(error, found[1].rstrip("."), lambda: TOPIC)


def _add(error: ActionError, name: str, known: Callable[[], Iterable[str]]) -> None:
    # The error to report is the first one, not that of the search for names.
    with contextlib.suppress(Exception):
        error.suggestion = did_you_mean(name, known())
