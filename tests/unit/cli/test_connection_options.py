"""The connection options: which commands have them, and the value they build."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.actions.connection import Connection
from penstock.cli.connection_options import PipelineConnection, add_to, read_properties
from penstock.cli.errors import CommandError
from penstock.cli.main import app


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_every_command_that_connects_has_all_connection_options() -> None:
    tree = {name: {each.name for each in command.params} for name, command in commands(typer.main.get_command(app))}
    connecting = {name for name, params in tree.items() if "bootstrap" in params}
    assert {
        "topic list",
        "produce",
        "consume",
        "group lag",
        "dlq replay",
        "sql",
        "doctor",
        "pipeline dlq",
    } <= connecting
    assert {name for name, params in tree.items() if {"command_config", "client_property"} <= params} == {
        *connecting,
        "cluster restart",  # the addresses are in the folder of the cluster
    }
    assert "start" not in connecting


def test_the_help_describes_them() -> None:
    shown = CliRunner().invoke(app, ["topic", "list", "--help"], env={"COLUMNS": "200"}).output
    assert "--command-config" in shown
    assert "in the format of Kafka's tools" in shown
    assert "NAME=VALUE" in shown


def test_the_command_line_overrides_the_file_and_reserved_names_in_the_file_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=elsewhere:1\ngroup.id=theirs\nsecurity.protocol=SSL\nsocket.timeout.ms=5\n")
    given = read_properties(file, ["security.protocol=SASL_SSL", "sasl.password=a=b"])
    assert given == {"security.protocol": "SASL_SSL", "socket.timeout.ms": "5", "sasl.password": "a=b"}


def test_reserved_properties_cannot_be_set() -> None:
    with pytest.raises(CommandError, match=r"Cannot set client property 'group\.id'"):
        read_properties(None, ["group.id=mine"])


def test_an_invalid_pair_is_rejected() -> None:
    with pytest.raises(CommandError, match=r"for example -X security\.protocol=SSL"):
        read_properties(None, ["security.protocol"])


@pytest.mark.parametrize("kind", [Connection, PipelineConnection])
def test_the_options_become_one_value(kind: Any) -> None:
    seen: list[Any] = []
    tool = typer.Typer()

    def look(connection: Any, name: str) -> None:
        seen.append((connection, name))

    look.__annotations__["connection"] = kind
    tool.command()(look)
    add_to(tool)
    words = ["n", "-X", "security.protocol=SSL", "-X", "linger.ms=9", "--bootstrap", "c:2"]
    outcome = CliRunner().invoke(tool, words)
    assert outcome.exit_code == 0, outcome.output
    assert seen == [(kind("c:2", {"security.protocol": "SSL", "linger.ms": "9"}), "n")]


def test_the_default_address_is_localhost() -> None:
    seen: list[Connection] = []
    tool = typer.Typer()

    @tool.command()
    def look(connection: Connection) -> None:
        seen.append(connection)

    add_to(tool)
    assert CliRunner().invoke(tool, [], env={"PENSTOCK_BOOTSTRAP": ""}).exit_code == 0
    assert seen == [Connection("localhost:9092")]
