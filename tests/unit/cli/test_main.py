import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock import __version__
from penstock.cli.main import app, explain_unexpected

COMMANDS = [
    "start",
    "topic create",
    "topic list",
    "topic describe",
    "topic delete",
    "topic add-partitions",
    "topic delete-records",
    "topic skew",
    "produce",
    "consume",
    "cluster start",
    "cluster stop",
    "cluster restart",
    "cluster init",
    "cluster status",
    "cluster nodes",
    "cluster quorum",
    "cluster move",
    "cluster drain",
    "cluster remove",
    "cluster rebalance",
    "demo",
    "bench",
    "sql",
    "console",
    "pipeline run",
    "pipeline replay",
    "pipeline status",
    "pipeline lag",
    "pipeline dlq",
    "pipeline compact",
    "group list",
    "group describe",
    "group lag",
    "group reset",
    "group delete",
    "queue list",
    "queue describe",
    "queue peek",
    "queue stuck",
    "queue redrive",
    "queue purge",
    "dlq list",
    "dlq show",
    "dlq replay",
    "txn list",
    "txn describe",
    "txn abort",
    "txn find-hanging",
    "config get",
    "config set",
    "config unset",
    "quota list",
    "quota set",
    "quota remove",
    "profile list",
    "profile show",
    "profile use",
    "profile set",
    "profile remove",
    "user add",
    "user passwd",
    "user list",
    "user remove",
    "acl allow",
    "acl deny",
    "acl list",
    "acl remove",
    "acl check",
    "acl suggest",
    "token create",
    "token list",
    "token renew",
    "token expire",
    "cert show",
    "cert renew",
    "log accept-loss",
    "log dump",
    "log verify",
    "doctor",
]


@pytest.mark.parametrize(
    "command",
    [
        "",
        "topic",
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
        *COMMANDS,
    ],
)
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert f"Example: {'penstock ' + command if command else 'penstock'}".rstrip() in result.output or "| penstock" in (
        result.output
    )


def commands(command: Any) -> Iterator[Any]:
    yield command
    for child in getattr(command, "commands", {}).values():
        yield from commands(child)


@pytest.mark.parametrize("command", list(commands(typer.main.get_command(app))), ids=lambda command: command.name)
def test_the_example_of_a_command_can_be_pasted(command: Any) -> None:
    example = command.epilog.removeprefix("Example: ")
    words = shlex.split(example.rpartition("| ")[2])
    assert words.pop(0) == "penstock"
    found: Any = typer.main.get_command(app)
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
    # Raises a usage error if an option or an argument does not exist.
    found.make_context(found.name, words)


@pytest.mark.parametrize("command", list(commands(typer.main.get_command(app))), ids=lambda command: command.name)
def test_help_is_a_sentence_that_begins_with_a_verb(command: Any) -> None:
    first_line = command.help.splitlines()[0]
    assert re.match(r"[A-Z][a-z]+ .*|[A-Z][a-z]+, ", first_line) and first_line.endswith(".")
    assert len(first_line) <= 100
    for parameter in command.params:
        if parameter.name not in ("help", "install_completion", "show_completion"):
            assert parameter.help, f"{command.name}: {parameter.name} has no help"
            assert parameter.help.endswith((".", ")")), f"{command.name}: {parameter.help}"


def test_the_list_of_commands_here_is_the_whole_tree() -> None:
    root = typer.main.get_command(app)
    found = []
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        found += [f"{name} {child}" for child in getattr(command, "commands", {})] or [name]
    assert sorted(found) == sorted(COMMANDS)


def test_a_command_does_not_import_the_others() -> None:
    program = (
        "import sys, typer; from penstock.cli.main import app; "
        "assert typer.main.get_command(app).commands['topic'].commands; "
        "print('penstock.cli.topic' in sys.modules, 'penstock.cli.start' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown == "True False\n"


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"penstock {__version__}\n"


def test_a_misspelled_option_is_a_usage_error() -> None:
    assert CliRunner().invoke(app, ["start", "--prot", "1"]).exit_code == 2


def test_an_unexpected_error_is_one_line() -> None:
    assert explain_unexpected(KeyError("x")) == "KeyError: 'x' (set PENSTOCK_DEBUG=1 for a traceback)"
    assert explain_unexpected(PermissionError(13, "Permission denied", "/srv")) == "Permission denied: /srv"
