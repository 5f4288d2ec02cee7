"""Every API with and without each of its rights, on Apache Kafka with StandardAuthorizer and on Penstock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock.testing import Broker
from tests.differential.catalogue.security import as_bytes
from tests.differential.compare import compare, report
from tests.differential.differences import unexplained
from tests.differential.run import BROKER_PROPERTIES
from tests.support.apache_kafka import ApacheKafka
from tests.support.authorization_rows import ROWS, Row, grant, prepare
from tests.support.java_tools import JavaMissing
from tests.support.logged_in import LoggedIn
from tests.support.ports import HOST, free_ports
from tests.support.security import jaas

pytestmark = [pytest.mark.java, pytest.mark.slow]

USERS = {"admin": "admin-secret", "alice": "wonderland"}
PROPERTIES = {
    **BROKER_PROPERTIES,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Kafka's nodes are anonymous among themselves.
    "super.users": "User:admin;User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(**USERS),
}
LISTENER = "SASL_PLAINTEXT"


class Peer:
    """One of the two brokers, as its administrator and as a user without rights of its own."""

    def __init__(self, port: int) -> None:
        self.admin = LoggedIn("rows", HOST, port, user="admin", password=USERS["admin"])
        self._port = port
        prepare(self.admin)

    def close(self) -> None:
        self.admin.hang_up()

    def log_in(self, user: str, name: str) -> LoggedIn:
        return LoggedIn(name, HOST, self._port, user=user, password=USERS[user])

    def transcript(self, row: Row) -> LoggedIn:
        alice = self.log_in("alice", str(row))
        values = row.request(self.admin)
        try:
            grant(self.admin, "User:alice")
            alice.call(row.api, row.version, "without rights", **values)
            for missing in row.needs[1:]:
                grant(self.admin, "User:alice", *(each for each in row.needs if each != missing))
                alice.call(row.api, row.version, f"without {missing}", **values)
            if row.is_carried_out and row.is_compared_when_allowed:
                grant(self.admin, "User:alice", *row.needs)
                alice.call(row.api, row.version, "with all rights", **values)
        finally:
            alice.hang_up()
        return alice


@pytest.fixture(scope="module")
def kafka() -> Iterator[Peer]:
    try:
        process = ApacheKafka(properties=PROPERTIES, listeners=[LISTENER])
    except JavaMissing as reason:
        pytest.skip(str(reason))
    with process, closing(Peer(int(process.address(LISTENER).rpartition(":")[2]))) as peer:
        yield peer


@pytest.fixture(scope="module")
def penstock(kafka: Peer) -> Iterator[Peer]:
    (port,) = free_ports(1)
    with Broker({**PROPERTIES, "listeners": f"{LISTENER}://{HOST}:{port}"}, port=port), closing(Peer(port)) as peer:
        yield peer


def test_penstock_refuses_tokens_without_a_key_as_kafka_does(kafka: Peer, penstock: Peer) -> None:
    def transcript(peer: Peer) -> LoggedIn:
        alice = peer.log_in("alice", "tokens without a key")
        try:
            for version in (1, 2, 3):
                alice.call("create_delegation_token", version, renewers=[], max_lifetime=1000)
                alice.call("describe_delegation_token", version, owners=None)
            bad = [{"principal_type": "Group", "principal_name": "x"}]
            as_bytes(alice, "create_delegation_token", 3, "bad renewers", renewers=bad, max_lifetime=1000)
            for version in (1, 2):
                alice.call("renew_delegation_token", version, hmac=b"h", renew_period=1000)
                alice.call("expire_delegation_token", version, hmac=b"h", expiry_time_period=1000)
        finally:
            alice.hang_up()
        return alice

    faults = unexplained(compare("tokens without a key", transcript(kafka).steps, transcript(penstock).steps))
    assert not faults, f"\n{report(faults)}"


@pytest.mark.parametrize("row", [row for row in ROWS if not row.is_for_nodes], ids=str)
def test_penstock_authorizes_as_kafka_does(row: Row, kafka: Peer, penstock: Peer) -> None:
    faults = unexplained(compare(str(row), kafka.transcript(row).steps, penstock.transcript(row).steps))
    assert not faults, f"\n{report(faults)}"
