"""Kafka's tools and Java clients on a secured broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools."
ACLS = TOOLS + "AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    pytest.importorskip("cryptography")
    with Broker(secure=True) as broker:
        yield broker


def java_file(broker: Broker) -> Path:
    return broker.data / "security" / "client.java.properties"


def test_kafka_configs_manages_users(tools: JavaTools, secured: Broker, tmp_path: Path) -> None:
    admin = ("--bootstrap-server", secured.bootstrap, "--command-config", str(java_file(secured)))
    alice = ("--entity-type", "users", "--entity-name", "alice")
    credential = "SCRAM-SHA-256=[iterations=8192,password=wonderland],SCRAM-SHA-512=[password=wonderland]"
    tools.check(CONFIGS, *admin, "--alter", *alice, "--add-config", credential)
    described = tools.check(CONFIGS, *admin, "--describe", *alice)
    assert "SCRAM-SHA-256=iterations=8192" in described and "SCRAM-SHA-512=iterations=4096" in described
    own = tmp_path / "alice.properties"
    lines = java_file(secured).read_text().splitlines()
    module = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="wonderland";'
    own.write_text("\n".join(f"sasl.jaas.config={module}" if "jaas" in line else line for line in lines))
    as_alice = ("--bootstrap-server", secured.bootstrap, "--command-config", str(own))
    create = (TOOLS + "TopicCommand", *as_alice, "--create", "--topic", "wonders")
    refused = tools.run(*create)
    assert refused.code != 0
    assert "Authorization failed" in refused.text
    rights = ("--operation", "Create", "--operation", "Describe", "--topic", "wonders")
    tools.check(ACLS, *admin, "--add", "--allow-principal", "User:alice", *rights)
    tools.check(*create)
    assert "wonders" in tools.check(TOOLS + "TopicCommand", *as_alice, "--list")
    tools.check(CONFIGS, *admin, "--alter", *alice, "--delete-config", "SCRAM-SHA-512,SCRAM-SHA-256")
    refused = tools.run(TOOLS + "TopicCommand", *as_alice, "--list")
    assert refused.code != 0
    assert "wonderland" not in refused.text


def test_console_clients_produce_and_consume(tools: JavaTools, secured: Broker) -> None:
    server = ("--bootstrap-server", secured.bootstrap)
    file = str(java_file(secured))
    tools.check(TOOLS + "ConsoleProducer", *server, "--topic", "j", "--command-config", file, stdin="one\ntwo\n")
    where = ("--topic", "j", "--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
    found = tools.check(TOOLS + "consumer.ConsoleConsumer", *server, *where, "--command-config", file)
    assert {"one", "two"} <= set(found.split())
