"""The options of commands that connect to a cluster: --bootstrap, --profile, --command-config and -X.

A command declares a parameter of type `Connection`; `add_to` replaces it by the options and passes the value.
A command that runs a pipeline declares a `PipelineConnection`, because the spec of a pipeline has its own default.

The address is that of the first of these that is given: --bootstrap, the profile of --profile, PENSTOCK_BOOTSTRAP, the
profile of PENSTOCK_PROFILE, the profile of `penstock profile use`, localhost:9092. With an address of --bootstrap or
PENSTOCK_BOOTSTRAP, no profile is used unless --profile names one: the passwords of one cluster must not be sent to
another.
"""

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from penstock.actions import profiles
from penstock.actions.addresses import DEFAULT_BOOTSTRAP
from penstock.actions.client_properties import RESERVED, read_properties_file
from penstock.actions.connection import Connection
from penstock.actions.errors import CONNECTION_REFUSED, TRANSPORT, UNKNOWN_HOST, ActionError
from penstock.actions.profiles import Profile, Profiles
from penstock.cli.arguments import parse_pairs
from penstock.cli.errors import CommandError
from penstock.cli.suggestions import add_suggestion, did_you_mean

BOOTSTRAP_ENV: Final = "PENSTOCK_BOOTSTRAP"
PROFILE_ENV: Final = "PENSTOCK_PROFILE"
COMMAND_CONFIG_ENV: Final = "PENSTOCK_COMMAND_CONFIG"

_BOOTSTRAP_HELP: Final = "Comma-separated broker addresses"


def load_profiles() -> Profiles:
    return profiles.load(profiles.config_path(os.environ))


def complete_profile(incomplete: str) -> list[str]:
    """Return the profiles whose names begin like this; none if they cannot be read."""
    try:
        return [name for name in load_profiles().by_name if name.startswith(incomplete)]
    except ActionError:
        return []


BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar=BOOTSTRAP_ENV,
        help=f"{_BOOTSTRAP_HELP}.",
        show_default=DEFAULT_BOOTSTRAP,
    ),
]
PipelineBootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar=BOOTSTRAP_ENV,
        help=f"{_BOOTSTRAP_HELP}; overrides the pipeline's.",
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        envvar=PROFILE_ENV,
        help="Profile with the cluster's address and client properties; see 'penstock profile'.",
        autocompletion=complete_profile,
    ),
]
CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar=COMMAND_CONFIG_ENV,
        help="File of client properties, in the format of Kafka's tools.",
    ),
]
PropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "-X", "--client-property", metavar="NAME=VALUE", help="Client property; overrides the file. Repeatable."
    ),
]
OPTION_NAMES: Final = ("bootstrap", "profile", "command_config", "client_property")


class PipelineConnection(NamedTuple):
    """Connection options of a pipeline command; no bootstrap means the pipeline's own."""

    bootstrap: str | None
    properties: Mapping[str, str]


class Given(NamedTuple):
    """The connection options of a command, and which of them are on the command line and not in the environment."""

    bootstrap: str | None = None
    profile: str | None = None
    command_config: Path | None = None
    client_property: tuple[str, ...] = ()
    on_command_line: frozenset[str] = frozenset()


class Chosen(NamedTuple):
    """The cluster that a command connects to."""

    bootstrap: str | None
    properties: Mapping[str, str]
    profile: str | None
    """The profile that the address is from."""


def add_to(app: typer.Typer) -> None:
    """Add the options to every command of the tree that takes a connection."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _with_options(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_to(group.typer_instance)


def connection_of(context: typer.Context) -> Connection:
    """Return the connection of a command whose line is being completed."""
    chosen = choose(_given(context, context.params), load_profiles)
    return Connection(chosen.bootstrap or DEFAULT_BOOTSTRAP, chosen.properties)


def choose(given: Given, load: Callable[[], Profiles], *, uses_current: bool = True) -> Chosen:
    """Decide which cluster to connect to, and with which properties."""
    profile = _choose_profile(given, load, uses_current=uses_current)
    if profile is None:
        properties = read_properties(given.command_config, list(given.client_property))
        return Chosen(
            given.bootstrap or (_address_in(given.command_config) if uses_current else None), properties, None
        )
    own_address = "bootstrap" in given.on_command_line or profile.bootstrap is None
    own_file = "command_config" in given.on_command_line or profile.command_config is None
    properties = read_properties(
        given.command_config if own_file else profile.command_config, list(given.client_property), profile.properties
    )
    return Chosen(
        given.bootstrap if own_address else profile.bootstrap, properties, None if own_address else profile.name
    )


def _address_in(file: Path | None) -> str | None:
    """Return the address in a file of client properties, if it has one."""
    return None if file is None else read_properties_file(file).get("bootstrap.servers")


def _choose_profile(given: Given, load: Callable[[], Profiles], *, uses_current: bool) -> Profile | None:
    if given.bootstrap is not None and "profile" not in given.on_command_line:
        return None
    if given.profile is None and not uses_current:
        return None
    known = load()
    name = given.profile or known.current
    if name is None:
        return None
    try:
        return known.get(name)
    except ActionError as error:
        error.suggestion = did_you_mean(name, known.by_name)
        raise


def read_properties(file: Path | None, pairs: list[str], profile: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the properties of a file, overridden by those of a profile and of the command line.

    Reserved properties in a file are ignored: the file may belong to another program.
    """
    from_file = {} if file is None else read_properties_file(file)
    own = parse_properties(pairs)
    inherited = {**from_file, **(profile or {})}
    return {**{name: value for name, value in inherited.items() if name not in RESERVED}, **own}


def parse_properties(pairs: list[str]) -> dict[str, str]:
    """Parse the client properties of the command line."""
    own = parse_pairs(pairs, example="-X security.protocol=SSL")
    for name in own:
        if name in RESERVED:
            raise CommandError(f"Cannot set client property '{name}': the command sets it. See its other options.")
    return own


def _given(context: typer.Context, values: Mapping[str, Any]) -> Given:
    sources = {name: context.get_parameter_source(name) for name in OPTION_NAMES}
    return Given(
        bootstrap=values.get("bootstrap"),
        profile=values.get("profile"),
        command_config=values.get("command_config"),
        client_property=tuple(values.get("client_property") or ()),
        on_command_line=frozenset(
            name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"
        ),
    )


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    types = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    found = [(name, kind) for name, kind in types.items() if kind in (Connection, PipelineConnection)]
    if not found:
        return function
    ((target, kind),) = found

    @functools.wraps(function)
    def command(*, context: typer.Context, **named: Any) -> Any:
        given = _given(context, {name: named.pop(name) for name in OPTION_NAMES})
        if kind is PipelineConnection:
            chosen = choose(given, load_profiles, uses_current=False)
            return function(**named, **{target: PipelineConnection(chosen.bootstrap, chosen.properties)})
        chosen = choose(given, load_profiles)
        connection = Connection(chosen.bootstrap or DEFAULT_BOOTSTRAP, chosen.properties)
        try:
            return function(**named, **{target: connection})
        except ActionError as error:
            add_suggestion(error, connection)
            if chosen.profile and error.code in (CONNECTION_REFUSED, UNKNOWN_HOST, TRANSPORT):
                error.suggestion = f"The address is that of profile '{chosen.profile}'."
            raise

    options: list[tuple[str, Any]] = [
        ("bootstrap", BootstrapOption if kind is Connection else PipelineBootstrapOption),
        ("profile", ProfileOption),
        ("command_config", CommandConfigOption),
        ("client_property", PropertyOption),
    ]
    kept = [parameter for name, parameter in signature.parameters.items() if name != target]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in options
    ]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    command.__annotations__ = {each.name: each.annotation for each in (*kept, *added, context)}
    command.__signature__ = signature.replace(parameters=[*kept, *added, context])  # type: ignore[attr-defined]
    return command
