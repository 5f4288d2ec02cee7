"""penstock profile: name clusters, and choose the one that commands connect to."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.actions import profiles as actions
from penstock.actions.addresses import parse_addresses
from penstock.actions.client_properties import read_properties_file
from penstock.actions.errors import ActionError
from penstock.actions.profiles import Profile, Profiles, is_secret
from penstock.cli.connection_options import complete_profile, load_profiles, parse_properties
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show
from penstock.cli.suggestions import did_you_mean

app = typer.Typer(
    help="Name clusters, and choose the one that commands connect to.",
    epilog="Example: penstock profile use prod",
    no_args_is_help=True,
)

NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Profile name.", show_default=False, autocompletion=complete_profile),
]


@app.command("list", epilog="Example: penstock profile list")
def list_command(format: FormatOption = Format.TABLE) -> None:
    """List profiles. The current one is used by commands without --profile and --bootstrap."""
    found = load_profiles()
    rows = [{**_row(profile), "current": name == found.current} for name, profile in sorted(found.by_name.items())]
    show(rows, ["profile", "current", "bootstrap", "command_config", "properties"], format)


@app.command("show", epilog="Example: penstock profile show prod")
def show_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Profile name; the current one by default.",
            show_default=False,
            autocompletion=complete_profile,
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show the settings of a profile. Passwords are hidden."""
    found = load_profiles()
    chosen = name or os.environ.get("PENSTOCK_PROFILE") or found.current
    if chosen is None:
        raise CommandError(
            "No profile is in use. Run 'penstock profile use NAME', or pass the name of a profile; "
            "'penstock profile list' lists them."
        )
    profile = _get(found, chosen)
    row = _row(profile)
    settings = {"bootstrap": row["bootstrap"], "command-config": row["command_config"]}
    settings |= {key: "(hidden)" if is_secret(key) else value for key, value in sorted(profile.properties.items())}
    rows = [{"profile": chosen, "setting": key, "value": value} for key, value in settings.items() if value is not None]
    show(rows, ["profile", "setting", "value"], format)


@app.command("use", epilog="Example: penstock profile use prod")
def use(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Profile name.", show_default=False, autocompletion=complete_profile),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Use no profile.")] = False,
) -> None:
    """Choose the profile of all commands without --profile and --bootstrap."""
    if (name is None) is not none:
        raise CommandError("Pass the name of a profile, or --none.")
    found = load_profiles()
    if name is not None:
        _get(found, name)
    actions.save(_path(), found.using(name))
    print(f"using profile {name}" if name else "using no profile")


@app.command("set", epilog="Example: penstock profile set prod --bootstrap kafka.example:9093 -X security.protocol=SSL")
def set_command(
    name: NameArgument,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="Comma-separated broker addresses.")
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config", metavar="FILE", help="File of client properties, in the format of Kafka's tools."
        ),
    ] = None,
    client_property: Annotated[
        list[str] | None,
        typer.Option(
            "-X",
            "--client-property",
            metavar="NAME=VALUE",
            help="Client property; an empty value removes it. Repeatable.",
        ),
    ] = None,
) -> None:
    """Create a profile, or change the given settings of one."""
    if bootstrap is None and command_config is None and not client_property:
        raise CommandError("Nothing to set. Pass --bootstrap, --command-config or -X.")
    if not name.strip():
        raise CommandError("The name of a profile must not be empty.")
    found = load_profiles()
    old = found.by_name.get(name, Profile(name))
    if bootstrap is not None:
        parse_addresses(bootstrap)
    if command_config is not None:
        # Reports a wrong path now and not when the profile is used.
        read_properties_file(command_config)
    properties = {**old.properties, **parse_properties(client_property or [])}
    new = Profile(
        name,
        old.bootstrap if bootstrap is None else bootstrap,
        old.command_config if command_config is None else command_config.absolute(),
        {key: value for key, value in properties.items() if value},
    )
    actions.save(_path(), found.with_profile(new))
    print(f"{'changed' if name in found.by_name else 'created'} profile {name} in {_path()}")


@app.command("remove", epilog="Example: penstock profile remove prod")
def remove(name: NameArgument) -> None:
    """Remove a profile."""
    found = load_profiles()
    _get(found, name)
    actions.save(_path(), found.without(name))
    print(f"removed profile {name}")


def _path() -> Path:
    return actions.config_path(os.environ)


def _get(found: Profiles, name: str) -> Profile:
    try:
        return found.get(name)
    except ActionError as error:
        error.suggestion = did_you_mean(name, found.by_name)
        raise


def _row(profile: Profile) -> dict[str, Any]:
    return {
        "profile": profile.name,
        "bootstrap": profile.bootstrap,
        "command_config": None if profile.command_config is None else str(profile.command_config),
        "properties": sorted(profile.properties),
    }
