"""Completion of names in a shell: topics, groups, users, tokens. `penstock --install-completion` sets it up.

A shell waits for the answer, and anything on the terminal would disturb the line: an unreachable cluster or any other
error completes nothing.
"""

from collections.abc import Callable
from typing import Any

import typer

from penstock.actions.connection import Connection
from penstock.actions.names import group_names, share_group_names, token_ids, topic_names, user_names
from penstock.cli import connection_options

Complete = Callable[[typer.Context, str], list[str]]


def _completing(list_names: Callable[[Connection], list[str]]) -> Complete:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        given = set(_words(ctx.params))
        try:
            names = list_names(connection_options.connection_of(ctx))
        except Exception:
            return []
        return [
            name for name in names if name.startswith(incomplete) and name not in given and _is_shown(name, incomplete)
        ]

    return complete


complete_topic = _completing(topic_names)
complete_group = _completing(group_names)
complete_share_group = _completing(share_group_names)
complete_user = _completing(user_names)
complete_token = _completing(token_ids)


def _is_shown(name: str, incomplete: str) -> bool:
    """Leave internal names out until they are asked for."""
    return not name.startswith("__") or incomplete.startswith("_")


def _words(params: dict[str, Any]) -> list[str]:
    """Return the arguments that are complete already: a list of topics does not repeat one."""
    return [
        word for value in params.values() if isinstance(value, list | tuple) for word in value if isinstance(word, str)
    ]
