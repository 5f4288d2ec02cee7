"""Tests of the console's login and ACL pages on Apache Kafka with its StandardAuthorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.sqlview import isolated
from tests.support.apache_kafka import ApacheKafka
from tests.support.console import Browser, ConsoleServer, settings_for
from tests.support.eventually import eventually
from tests.support.java_tools import JavaMissing
from tests.support.security import jaas

pytestmark = [pytest.mark.java, pytest.mark.slow]

LISTENER = "SASL_PLAINTEXT"
USERS = {"admin": "admin-secret", "alice": "wonderland"}
TOPIC = "orders"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Kafka's nodes are anonymous among themselves.
        "super.users": "User:admin;User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(**USERS),
    }
    try:
        peer = ApacheKafka(properties=properties, listeners=[LISTENER])
    except JavaMissing as reason:
        pytest.skip(str(reason))
    with peer:
        yield peer.address(LISTENER)


@pytest.fixture
def browser(address: str) -> Iterator[Browser]:
    with ConsoleServer(settings_for(address, login=True)) as browser:
        yield browser
    isolated.close_idle()


def test_the_acls_of_apache_kafka_decide(browser: Browser) -> None:
    assert browser.get("/api/c/local/topics").status == 401
    assert browser.log_in("admin", "wrong").status == 401
    assert browser.log_in("admin", USERS["admin"]).status == 200
    browser.change("topic.create", topic=TOPIC, partitions=1, replication_factor=1)
    eventually(lambda: browser.get(f"/api/c/local/topics/{TOPIC}").status == 200)
    browser.change("records.produce", topic=TOPIC, value="secret")
    rule = {"principal": "User:alice", "permission": "allow", "resource": f"topic:{TOPIC}", "host": "*"}
    browser.change("acl.add", acls=[{**rule, "operation": "describe"}])
    eventually(lambda: len(browser.read("acls", principal="alice")["acls"]) == 1)
    checked = browser.read("acls/check", principal="alice", operation="read", resource=f"topic:{TOPIC}")
    assert not checked["allowed"] and checked["complete"]

    alice = Browser(browser.port)
    assert alice.log_in("alice", USERS["alice"]).status == 200
    eventually(lambda: [row["topic"] for row in alice.read("topics")["topics"]] == [TOPIC])
    answer = alice.get(f"/api/c/local/topics/{TOPIC}/records")
    assert answer.status == 403 and b"secret" not in answer.body
    assert alice.get("/api/c/local/acls").status == 403
    assert alice.get("/api/c/local/overview").status == 200

    browser.change("acl.add", acls=[checked["add"]["acl"]])
    eventually(lambda: alice.get(f"/api/c/local/topics/{TOPIC}/records").status == 200)
    assert alice.read(f"topics/{TOPIC}/records")["rows"][0]["value"]["text"] == "secret"
    browser.change("acl.remove", acls=[checked["add"]["acl"]])
    eventually(lambda: alice.get(f"/api/c/local/topics/{TOPIC}/records").status == 403)
