"""Confirmation of destructive commands: ask on a terminal, require --yes elsewhere."""

import sys
from typing import Annotated

import typer

from penstock.cli.errors import CommandError

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required without a terminal.")
]


def confirm(question: str, *, yes: bool) -> None:
    """Ask a question unless `yes` is given; end the command if the answer is no or if nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Pass --yes to confirm: there is no terminal to ask on. Nothing was changed.")
    if not typer.confirm(question, err=True):
        print("Nothing was changed.", file=sys.stderr)
        raise typer.Exit(1)


def counted(names: list[str], what: str) -> str:
    """Return `topic a`, or `2 topics (a, b)`."""
    return f"{what} {names[0]}" if len(names) == 1 else f"{len(names)} {what}s ({', '.join(names)})"
