"""Kafka's kafka-delegation-tokens on a secured broker, and the Java client's login with a token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.compat.java.test_acls import Acls
from tests.support.java_tools import JavaTools, ToolResult

pytestmark = pytest.mark.java

COMMAND = "DelegationTokenCommand"
_ROW = re.compile(r"^(\S{22})\s+(\S{88})\s+User:alice\s", re.MULTILINE)


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    pytest.importorskip("cryptography")
    with Broker(secure=True) as broker:
        yield broker


def token_of(result: ToolResult) -> tuple[str, str]:
    """Return the id and the HMAC that the tool prints."""
    assert result.code == 0, result.text
    found = _ROW.search(result.out)
    assert found is not None, result.text
    return found[1], found[2]


def log_in_with(tools: JavaTools, broker: Broker, token: tuple[str, str], folder: Path) -> ToolResult:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    login = f'sasl.jaas.config={module} username="{token[0]}" password="{token[1]}" tokenauth="true";'
    lines = (broker.data / "security" / "client.java.properties").read_text().splitlines()
    file = folder / "token.properties"
    file.write_text("\n".join(login if "jaas" in line else line for line in lines) + "\n")
    server = ("--bootstrap-server", broker.bootstrap, "--command-config", str(file))
    return tools.run("org.apache.kafka.tools.TopicCommand", *server, "--list")


def test_a_token_is_created_used_renewed_and_expired(tools: JavaTools, secured: Broker, tmp_path: Path) -> None:
    acls = Acls(tools, secured)
    acls.create_topic("orders")
    acls("--add", "--allow-principal", "User:alice", "--operation", "Describe", "--topic", "orders")
    period = ("--max-life-time-period", "-1")
    token = token_of(acls.run_as("alice", COMMAND, "--create", *period, "--renewer-principal", "User:bob"))
    described = acls.run_as("bob", COMMAND, "--describe", "--owner-principal", "User:alice")
    assert token_of(described) == token
    used = log_in_with(tools, secured, token, tmp_path)
    assert (used.code, used.out.split()) == (0, ["orders"]), used.text
    renewed = acls.run_as("bob", COMMAND, "--renew", "--renew-time-period", "-1", "--hmac", token[1])
    assert "Completed renew operation" in renewed.out, renewed.text
    refused = acls.run_as("carol", COMMAND, "--expire", "--expiry-time-period", "-1", "--hmac", token[1])
    assert "DelegationTokenOwnerMismatchException" in refused.text
    expired = acls.run_as("alice", COMMAND, "--expire", "--expiry-time-period", "-1", "--hmac", token[1])
    assert "Completed expire operation" in expired.out, expired.text
    assert log_in_with(tools, secured, token, tmp_path).code != 0
