"""penstock token: create, list, renew and expire delegation tokens.

`kafka-delegation-tokens` manages the same tokens. A token is named by its id; its HMAC, which is its password, is
never an argument, because other users of the machine can see those.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.actions.connection import Connection
from penstock.cli.completion import complete_token, complete_user
from penstock.cli.confirm import YesOption, confirm
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show

if TYPE_CHECKING:
    from penstock.actions.tokens import Token

app = typer.Typer(
    help="Manage delegation tokens, with which a program logs in instead of its user.",
    epilog="Example: penstock token create --save token.properties --command-config ./data/security/client.properties",
    no_args_is_help=True,
)

COLUMNS: Final = ("id", "owner", "requester", "renewers", "issued", "expires", "max")
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the token.", show_default=False, autocompletion=complete_token)
]


@app.command("create", epilog="Example: penstock token create --lifetime 2d --save token.properties")
def create(
    connection: Connection,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner",
            metavar="USER",
            help="Owner of the token; by default the user of this command.",
            autocompletion=complete_user,
        ),
    ] = None,
    renewer: Annotated[
        list[str] | None,
        typer.Option(
            "--renewer", metavar="USER", help="User that may renew it. Repeatable.", autocompletion=complete_user
        ),
    ] = None,
    lifetime: Annotated[
        str | None,
        typer.Option("--lifetime", metavar="TIME", help="Longest life, such as 12h or 7d; by default the broker's."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write client properties with the token instead of printing it."),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Create a token. Without --save, print its HMAC, which is its password."""
    from penstock.actions.tokens import check_file, create_token, save_login

    period = None if lifetime is None else parse_period(lifetime)
    if save is not None:
        check_file(save)
    token = create_token(connection, owner=owner, renewers=renewer or (), lifetime=period)
    if save is not None:
        save_login(save, connection, token)
        typer.echo(f"created token {token.id} of {token.owner}, which expires at {_time(token.expires)}")
        typer.echo(f"client properties: {save}")
        return
    row = {**_row(token), "hmac": token.hmac}
    if format is not Format.TABLE:
        show([row], list(row), format)
        return
    for name, value in row.items():
        typer.echo(f"{name}: {value}")


@app.command("list", epilog="Example: penstock token list --owner alice")
def list_all(
    connection: Connection,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner",
            metavar="USER",
            help="Only tokens that this user owns or may renew.",
            autocompletion=complete_user,
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """List the tokens that you may see, without their HMACs."""
    from penstock.actions.tokens import list_tokens

    show([_row(token) for token in list_tokens(connection, owner=owner)], COLUMNS, format)


@app.command("renew", epilog="Example: penstock token renew bEyPHcKjQVCVTQ3cUqZVCQ --period 12h")
def renew(
    connection: Connection,
    id: IdArgument,
    period: Annotated[
        str | None, typer.Option("--period", metavar="TIME", help="From now, such as 12h; by default the broker's.")
    ] = None,
) -> None:
    """Extend a token, up to its longest life."""
    from penstock.actions.tokens import renew_token

    expires = renew_token(connection, id, period=None if period is None else parse_period(period))
    typer.echo(f"token {id} expires at {_time(expires)}")


@app.command("expire", epilog="Example: penstock token expire bEyPHcKjQVCVTQ3cUqZVCQ --yes")
def expire(
    connection: Connection,
    id: IdArgument,
    period: Annotated[
        str | None, typer.Option("--after", metavar="TIME", help="From now, such as 10m; by default it is removed.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Remove a token, or let it expire sooner.

    Connections that are open stay open until the token would have expired.
    """
    from penstock.actions.tokens import expire_token

    after = None if period is None else parse_period(period)
    confirm(f"Remove token {id}?" if after is None else f"Let token {id} expire after {period}?", yes=yes)
    expires = expire_token(connection, id, period=after)
    typer.echo(f"removed token {id}" if after is None else f"token {id} expires at {_time(expires)}")


def parse_period(text: str) -> timedelta:
    """Return a period such as 30s, 10m, 12h or 7d."""
    number, unit = text[:-1], UNITS.get(text[-1:].lower())
    if unit is None or not (number.isascii() and number.isdigit()) or not 0 < int(number) < 10**6:
        raise CommandError(f"Invalid time '{text}': expected a number and a unit, such as 30s, 10m, 12h or 7d.")
    return timedelta(**{unit: int(number)})


def _row(token: "Token") -> dict[str, str]:
    return {
        "id": token.id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": ", ".join(token.renewers),
        "issued": _time(token.issued),
        "expires": _time(token.expires),
        "max": _time(token.max),
    }


def _time(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
