"""Client properties: where they are read from, what they become, and which commands take them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.actions import client_properties
from penstock.actions.connection import client_settings
from penstock.cli.errors import CommandError
from penstock.cli.main import app

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="a=b c";'


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_every_command_that_speaks_with_a_cluster_takes_client_properties() -> None:
    tree = {name: {each.name for each in command.params} for name, command in commands(typer.main.get_command(app))}
    speaking = {name for name, params in tree.items() if "bootstrap" in params}
    assert {"topic list", "produce", "consume", "group lag", "dlq replay", "sql", "doctor", "pipeline dlq"} <= speaking
    assert {name for name, params in tree.items() if {"command_config", "client_property"} <= params} == speaking
    assert "start" not in speaking


def test_the_help_says_how_to_give_them() -> None:
    shown = CliRunner().invoke(app, ["topic", "list", "--help"], env={"COLUMNS": "200"}).output
    assert "--command-config" in shown
    assert "as Kafka's tools take them" in shown
    assert "NAME=VALUE" in shown


def test_the_command_line_wins_over_the_file_and_the_file_may_be_another_programs(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=elsewhere:1\ngroup.id=theirs\nsecurity.protocol=SSL\nsocket.timeout.ms=5\n")
    given = properties.read(file, ["security.protocol=SASL_SSL", "sasl.password=a=b"])
    assert given == {"security.protocol": "SASL_SSL", "socket.timeout.ms": "5", "sasl.password": "a=b"}


def test_what_a_command_sets_by_itself_cannot_be_given() -> None:
    with pytest.raises(CommandError, match=r"-X group\.id cannot be given"):
        properties.read(None, ["group.id=mine"])


def test_a_file_that_is_not_there_and_a_pair_that_is_none_are_told(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="check the path given to --command-config"):
        properties.read(tmp_path / "none", [])
    with pytest.raises(CommandError, match=r"write for example -X security\.protocol=SSL"):
        properties.read(None, ["security.protocol"])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": LOGIN},
            {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "a=b c"},
        ),
        ({"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"}, {"ssl.ca.location": "/ca.pem"}),
        (
            {"ssl.keystore.location": "/me.pem"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem"},
        ),
        ({"ssl.keystore.location": "/me.p12"}, {"ssl.keystore.location": "/me.p12"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"ssl.ca.location": "/ca.pem", "linger.ms": "7"}, {"ssl.ca.location": "/ca.pem", "linger.ms": "7"}),
    ],
)
def test_javas_words_become_librdkafkas(given: dict[str, str], wanted: dict[str, str]) -> None:
    assert properties.for_librdkafka(given) == wanted


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"ssl.truststore.location": "/ca.jks"}, "give a PEM file"),
        ({"ssl.keystore.location": "/me.jks"}, "give a PEM or PKCS#12 file"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "Plain required;"}, "names no user"),
    ],
)
def test_what_this_client_cannot_read_is_told(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        properties.for_librdkafka(given)


def test_they_reach_the_client_of_the_command_that_runs_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr("penstock.actions.connection.reach", lambda bootstrap: None)
    tool = typer.Typer()

    @tool.command()
    def look(bootstrap: str = "b:1") -> None:
        seen.append(client_settings(bootstrap, **{"linger.ms": 5}))
        seen.append({**properties.security()})

    properties.add_to(tool)
    outcome = CliRunner().invoke(tool, ["-X", "security.protocol=SSL", "-X", "linger.ms=9", "--bootstrap", "c:2"])
    assert outcome.exit_code == 0, outcome.output
    assert (seen[0]["bootstrap.servers"], seen[0]["security.protocol"], seen[0]["linger.ms"]) == ("c:2", "SSL", "9")
    assert seen[1] == {"security.protocol": "SSL"}
    assert properties.given() == {}
