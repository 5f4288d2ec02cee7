"""Kafka's kafka-acls on a secured broker: what it adds, lists and removes, and what the broker then enforces."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from tests.support.java_tools import JavaTools, ToolResult

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools."
PASSWORD = "wonderland"
_PATTERN = re.compile(r"ResourcePattern\(resourceType=(\w+), name=(.+?), patternType=(\w+)\)")
_ENTRY = re.compile(r"\(principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)\)")


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    pytest.importorskip("cryptography")
    with Broker(secure=True) as broker:
        yield broker


class Acls:
    """kafka-acls as the administrator."""

    def __init__(self, tools: JavaTools, broker: Broker) -> None:
        self._tools = tools
        self._file = broker.data / "security" / "client.java.properties"
        self._server = ("--bootstrap-server", broker.bootstrap)

    def __call__(self, *words: str) -> str:
        return self._tools.check(TOOLS + "AclCommand", *self._server, "--command-config", str(self._file), *words)

    def listed(self, *words: str) -> set[str]:
        """Return the ACLs that --list prints, one line per ACL."""
        found, resource = set(), ""
        for line in self("--list", *words).splitlines():
            if pattern := _PATTERN.search(line):
                resource = " ".join(pattern.groups())
            if entry := _ENTRY.search(line):
                found.add(f"{resource} {' '.join(entry.groups())}")
        return found

    def run_as(self, user: str, tool: str, *words: str, stdin: str = "") -> ToolResult:
        """Run another tool as a user, who is created if needed."""
        file = self._file.with_name(f"{user}.java.properties")
        if not file.exists():
            module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
            login = f'sasl.jaas.config={module} username="{user}" password="{PASSWORD}";'
            lines = self._file.read_text().splitlines()
            file.write_text("\n".join(login if "jaas" in line else line for line in lines) + "\n")
            named = ("--alter", "--entity-type", "users", "--entity-name", user)
            credential = ("--add-config", f"SCRAM-SHA-256=[password={PASSWORD}],SCRAM-SHA-512=[password={PASSWORD}]")
            admin = (*self._server, "--command-config", str(self._file))
            self._tools.check("kafka.admin.ConfigCommand", *admin, *named, *credential)
        return self._tools.run(TOOLS + tool, *self._server, "--command-config", str(file), *words, stdin=stdin)

    def topics_of(self, user: str) -> set[str]:
        listed = self.run_as(user, "TopicCommand", "--list")
        assert listed.code == 0, listed.text
        return set(listed.out.split())

    def create_topic(self, name: str) -> None:
        admin = (*self._server, "--command-config", str(self._file))
        self._tools.check(TOOLS + "TopicCommand", *admin, "--create", "--topic", name)


@pytest.fixture
def acls(tools: JavaTools, secured: Broker) -> Acls:
    return Acls(tools, secured)


def test_acls_are_added_listed_and_removed(acls: Acls) -> None:
    rule = ("--allow-principal", "User:ann", "--operation", "Read", "--topic", "basic")
    assert acls.listed("--topic", "basic") == set()
    for _ in range(2):  # adding an ACL that exists changes nothing
        acls("--add", *rule)
        assert acls.listed("--topic", "basic") == {"TOPIC basic LITERAL User:ann * READ ALLOW"}
    acls("--remove", "--force", *rule)
    assert acls.listed("--topic", "basic") == set()


def test_acls_are_listed_by_principal_and_by_resource(acls: Acls) -> None:
    acls("--add", "--allow-principal", "User:lewis", "--operation", "Read", "--topic", "listed")
    acls("--add", "--allow-principal", "User:carol", "--operation", "All", "--group", "listed")
    acls("--add", "--allow-principal", "User:lewis", "--operation", "Alter", "--cluster")
    acls("--add", "--allow-principal", "User:lewis", "--operation", "Write", "--transactional-id", "listed")
    of_lewis = {
        "TOPIC listed LITERAL User:lewis * READ ALLOW",
        "CLUSTER kafka-cluster LITERAL User:lewis * ALTER ALLOW",
        "TRANSACTIONAL_ID listed LITERAL User:lewis * WRITE ALLOW",
    }
    assert acls.listed("--principal", "User:lewis") == of_lewis
    assert acls.listed("--group", "listed") == {"GROUP listed LITERAL User:carol * ALL ALLOW"}
    assert acls.listed() >= of_lewis
    acls("--remove", "--force", "--cluster")
    assert acls.listed("--cluster") == set()


def test_patterns_are_literal_prefixed_or_a_wildcard(acls: Acls) -> None:
    for name in ("shop-orders", "shop-bills", "shop", "other"):
        acls.create_topic(name)
    describe = ("--add", "--operation", "Describe")
    acls(*describe, "--allow-principal", "User:literal", "--topic", "shop")
    acls(*describe, "--allow-principal", "User:prefix", "--topic", "shop-", "--resource-pattern-type", "prefixed")
    acls(*describe, "--allow-principal", "User:wildcard", "--topic", "*")
    assert acls.topics_of("literal") == {"shop"}
    assert acls.topics_of("prefix") == {"shop-orders", "shop-bills"}
    assert acls.topics_of("wildcard") >= {"shop-orders", "shop-bills", "shop", "other"}
    prefix = "TOPIC shop- PREFIXED User:prefix * DESCRIBE ALLOW"
    everything = "TOPIC * LITERAL User:wildcard * DESCRIBE ALLOW"
    assert acls.listed("--topic", "shop-orders") == set()
    assert acls.listed("--topic", "shop-orders", "--resource-pattern-type", "match") == {prefix, everything}
    acls("--remove", "--force", "--topic", "shop-", "--resource-pattern-type", "prefixed")
    assert acls.topics_of("prefix") == set()
    acls("--remove", "--force", "--topic", "*")
    assert acls.topics_of("wildcard") == set()
    assert acls.topics_of("literal") == {"shop"}


def test_deny_comes_before_allow(acls: Acls) -> None:
    for name in ("den-open", "den-secret"):
        acls.create_topic(name)
    prefix = ("--topic", "den-", "--resource-pattern-type", "prefixed")
    acls("--add", "--allow-principal", "User:dora", "--operation", "Describe", *prefix)
    assert acls.topics_of("dora") == {"den-open", "den-secret"}
    denied = ("--deny-principal", "User:dora", "--operation", "All", "--topic", "den-secret")
    acls("--add", *denied)
    assert acls.listed("--topic", "den-secret") == {"TOPIC den-secret LITERAL User:dora * ALL DENY"}
    assert acls.topics_of("dora") == {"den-open"}
    acls("--remove", "--force", *denied)
    assert acls.topics_of("dora") == {"den-open", "den-secret"}


def test_a_rule_may_apply_to_one_host(acls: Acls) -> None:
    acls.create_topic("hosts")
    rule = ("--add", "--allow-principal", "User:hans", "--operation", "Describe", "--topic", "hosts", "--allow-host")
    acls(*rule, "192.0.2.7")
    assert acls.topics_of("hans") == set()
    acls(*rule, "127.0.0.1")
    assert acls.topics_of("hans") == {"hosts"}
    assert acls.listed("--principal", "User:hans") == {
        "TOPIC hosts LITERAL User:hans 192.0.2.7 DESCRIBE ALLOW",
        "TOPIC hosts LITERAL User:hans 127.0.0.1 DESCRIBE ALLOW",
    }
    everybody_here = ("--deny-principal", "User:*", "--deny-host", "127.0.0.1")
    acls("--add", *everybody_here, "--operation", "Describe", "--topic", "hosts")
    assert acls.topics_of("hans") == set()


def test_producer_and_consumer_give_the_rights_to_produce_and_to_consume(acls: Acls) -> None:
    acls.create_topic("work")
    produce = ("ConsoleProducer", "--topic", "work", "--sync")
    reading = ("--topic", "work", "--group", "readers", "--from-beginning", "--max-messages", "2")
    consume = ("consumer.ConsoleConsumer", *reading, "--timeout-ms", "30000")
    refused = acls.run_as("pia", *produce, stdin="one\n")
    assert "TopicAuthorizationException" in refused.text
    acls("--add", "--allow-principal", "User:pia", "--producer", "--topic", "work")
    done = acls.run_as("pia", *produce, stdin="one\ntwo\n")
    assert done.code == 0 and "Exception" not in done.text, done.text
    # The tool logs the error, and its log is switched off here.
    assert "Processed a total of 0 messages" in acls.run_as("cleo", *consume).text
    acls("--add", "--allow-principal", "User:cleo", "--consumer", "--topic", "work", "--group", "readers")
    done = acls.run_as("cleo", *consume)
    assert {"one", "two"} <= set(done.out.split()), done.text
    assert acls.listed("--principal", "User:pia", "--topic", "work") == {
        f"TOPIC work LITERAL User:pia * {operation} ALLOW" for operation in ("WRITE", "CREATE", "DESCRIBE")
    }
    assert acls.listed("--principal", "User:cleo") == {
        "TOPIC work LITERAL User:cleo * READ ALLOW",
        "TOPIC work LITERAL User:cleo * DESCRIBE ALLOW",
        "GROUP readers LITERAL User:cleo * READ ALLOW",
    }
    acls("--remove", "--force", "--allow-principal", "User:pia", "--producer", "--topic", "work")
    assert acls.listed("--principal", "User:pia", "--topic", "work") == set()
    assert "TopicAuthorizationException" in acls.run_as("pia", *produce, stdin="three\n").text


def test_a_user_without_alter_on_the_cluster_cannot_manage_acls(acls: Acls) -> None:
    for words in (("--list",), ("--add", "--allow-principal", "User:mallory", "--operation", "All", "--topic", "*")):
        refused = acls.run_as("mallory", "AclCommand", *words)
        assert "ClusterAuthorizationException" in refused.text, refused.text
    assert acls.listed("--principal", "User:mallory") == set()
