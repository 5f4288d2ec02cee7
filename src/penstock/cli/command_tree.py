"""The commands under `penstock`, each imported when it is used.

A module of this package that is named in `COMMANDS` has either an `app` with subcommands or a function of its own name.
A broker that starts, or a command that takes a moment, does not wait for the modules of all the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from penstock.cli import connection_options

if TYPE_CHECKING:
    from typer._click import Command, Context

COMMANDS: Final = (
    "start",
    "topic",
    "produce",
    "consume",
    "cluster",
    "group",
    "queue",
    "dlq",
    "txn",
    "config",
    "quota",
    "profile",
    "user",
    "acl",
    "token",
    "cert",
    "log",
    "pipeline",
    "demo",
    "sql",
    "console",
    "bench",
    "doctor",
)
"""In the order in which the help lists them."""


class CommandTree(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(MutableMapping[str, "Command"], _Commands())

    def list_commands(self, ctx: Context) -> list[str]:
        return list(COMMANDS)


class _Commands(Mapping[str, "Command"]):
    def __getitem__(self, name: str) -> Command:
        if name not in COMMANDS:
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _load(name: str) -> Command:
    module = import_module(f"penstock.cli.{name}")
    if hasattr(module, "app"):
        connection_options.add_to(module.app)
        group = get_group(module.app)
        group.name = name
        return group
    app = typer.Typer(add_completion=False)
    settings = getattr(module, "CONTEXT_SETTINGS", None)
    app.command(name, epilog=module.EXAMPLE, context_settings=settings)(getattr(module, name))
    connection_options.add_to(app)
    return get_command(app)
