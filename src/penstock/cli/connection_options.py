"""The options of commands that connect to a cluster: --bootstrap, --command-config and -X.

A command declares a parameter of type `Connection`; `add_to` replaces it by the three options and passes the value.
A command that runs a pipeline declares a `PipelineConnection`, because the spec of a pipeline has its own default.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from penstock.actions.addresses import DEFAULT_BOOTSTRAP
from penstock.actions.client_properties import RESERVED, read_properties_file
from penstock.actions.connection import Connection
from penstock.cli.arguments import parse_pairs
from penstock.cli.errors import CommandError

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="PENSTOCK_BOOTSTRAP",
        help="Comma-separated broker addresses.",
    ),
]
PipelineBootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="PENSTOCK_BOOTSTRAP",
        help="Comma-separated broker addresses; overrides the pipeline's.",
    ),
]
CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="PENSTOCK_COMMAND_CONFIG",
        help="File of client properties, in the format of Kafka's tools.",
    ),
]
PropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "-X", "--client-property", metavar="NAME=VALUE", help="Client property; overrides the file. Repeatable."
    ),
]


class PipelineConnection(NamedTuple):
    """Connection options of a pipeline command; no bootstrap means the pipeline's own."""

    bootstrap: str | None
    properties: Mapping[str, str]


def add_to(app: typer.Typer) -> None:
    """Add the options to every command of the tree that takes a connection."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _with_options(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_to(group.typer_instance)


def read_properties(file: Path | None, pairs: list[str]) -> dict[str, str]:
    """Return the properties of a file, overridden by those of the command line.

    Reserved properties in a file are ignored: the file may belong to another program.
    """
    from_file = {} if file is None else read_properties_file(file)
    own = parse_pairs(pairs, example="-X security.protocol=SSL")
    for name in own:
        if name in RESERVED:
            raise CommandError(f"Cannot set client property '{name}': the command sets it. See its other options.")
    return {**{name: value for name, value in from_file.items() if name not in RESERVED}, **own}


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    types = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    found = [(name, kind) for name, kind in types.items() if kind in (Connection, PipelineConnection)]
    if not found:
        return function
    ((target, kind),) = found

    @functools.wraps(function)
    def command(
        *, bootstrap: Any, command_config: Path | None = None, client_property: list[str] | None = None, **named: Any
    ) -> Any:
        return function(**named, **{target: kind(bootstrap, read_properties(command_config, client_property or []))})

    options: list[tuple[str, Any, Any]] = [
        ("bootstrap", BootstrapOption, DEFAULT_BOOTSTRAP)
        if kind is Connection
        else ("bootstrap", PipelineBootstrapOption, None),
        ("command_config", CommandConfigOption, None),
        ("client_property", PropertyOption, None),
    ]
    kept = [parameter for name, parameter in signature.parameters.items() if name != target]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in options
    ]
    command.__annotations__ = {each.name: each.annotation for each in (*kept, *added)}
    command.__signature__ = signature.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
    return command
