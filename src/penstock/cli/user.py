"""penstock user: add, list and remove users that log in with SCRAM, and change their passwords.

`kafka-configs --entity-type users` shows the same users. A password is read from standard input or generated; it is
never an argument, because other users of the machine can see those.
"""

import sys
from typing import Annotated

import typer

from penstock.actions.connection import Connection
from penstock.cli.completion import complete_user
from penstock.cli.confirm import YesOption, confirm
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show

app = typer.Typer(
    help="Manage users that log in with a password (SASL/SCRAM).",
    epilog="Example: penstock user add alice --command-config ./data/security/client.properties",
    no_args_is_help=True,
)

NewName = Annotated[str, typer.Argument(metavar="NAME", help="User name.", show_default=False)]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="User name.", show_default=False, autocompletion=complete_user)
]
PasswordOption = Annotated[
    bool,
    typer.Option("--password-stdin", help="Read the password from standard input instead of generating one."),
]


@app.command("add", epilog="Example: penstock user add alice")
def add(connection: Connection, name: NewName, password_stdin: PasswordOption = False) -> None:
    """Add a user. Without --password-stdin, generate a password and print it once."""
    from penstock.actions.users import add_user

    password, is_generated = _password(password_stdin)
    add_user(connection, name, password)
    _report(f"added user {name}", password, is_generated)


@app.command("passwd", epilog="Example: penstock user passwd alice --password-stdin")
def passwd(connection: Connection, name: Name, password_stdin: PasswordOption = False) -> None:
    """Change the password of a user. Connections that are open stay open."""
    from penstock.actions.users import change_password

    password, is_generated = _password(password_stdin)
    change_password(connection, name, password)
    _report(f"changed the password of user {name}", password, is_generated)


@app.command("list", epilog="Example: penstock user list")
def list_all(connection: Connection, format: FormatOption = Format.TABLE) -> None:
    """List users and the mechanisms that they can use."""
    from penstock.actions.users import list_users

    rows = [{"user": user.name, "mechanisms": ", ".join(user.mechanisms)} for user in list_users(connection)]
    show(rows, ["user", "mechanisms"], format)


@app.command("remove", epilog="Example: penstock user remove alice")
def remove(connection: Connection, name: Name, yes: YesOption = False) -> None:
    """Remove a user. Connections that are open stay open."""
    from penstock.actions.users import remove_user

    confirm(f"Remove user {name} with its password?", yes=yes)
    remove_user(connection, name)
    print(f"removed user {name}")


def _password(from_stdin: bool) -> tuple[str, bool]:
    """Return the password, and whether it was generated."""
    if not from_stdin:
        from penstock.actions.users import generate_password

        return generate_password(), True
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CommandError("Standard input is empty. Write the password to it, for example with 'read -rs'.")
    return password, False


def _report(done: str, password: str, is_generated: bool) -> None:
    print(done)
    if is_generated:
        print(f"password: {password}")
