"""Brokers with a SASL listener without TLS, so that tests can see its bytes: one without and one with ACLs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from tests.support.authorization_rows import prepare
from tests.support.logged_in import LoggedIn
from tests.support.ports import HOST, free_ports
from tests.support.security import first_user, jaas


@pytest.fixture(scope="session")
def secured() -> Iterator[Broker]:
    (port,) = free_ports(1)
    broker = Broker(
        {
            "listeners": f"SASL_PLAINTEXT://{HOST}:{port}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(alice="wonderland", bob="builder"),
            "bootstrap.scram.credentials": first_user("alice", "wonderland"),
            "connection.failed.authentication.delay.ms": "0",
        },
        port=port,
    )
    with broker:
        yield broker


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = {"admin": "admin-secret", "alice": "wonderland", "bob": "builder"}


@pytest.fixture(scope="session")
def guarded() -> Iterator[Broker]:
    (port,) = free_ports(1)
    broker = Broker(
        {
            "listeners": f"SASL_PLAINTEXT://{HOST}:{port}",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(**USERS),
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:admin",
            "group.initial.rebalance.delay.ms": "0",
        },
        port=port,
    )
    with broker:
        yield broker


@pytest.fixture(scope="session")
def admin(guarded: Broker) -> Iterator[LoggedIn]:
    session = LoggedIn("rows", HOST, guarded.port, user="admin", password=USERS["admin"])
    prepare(session)
    yield session
    session.hang_up()


@pytest.fixture
def alice(guarded: Broker) -> Iterator[LoggedIn]:
    session = LoggedIn("rows", HOST, guarded.port, user="alice", password=USERS["alice"])
    yield session
    session.hang_up()


@pytest.fixture
def bob(guarded: Broker) -> Iterator[LoggedIn]:
    session = LoggedIn("rows", HOST, guarded.port, user="bob", password=USERS["bob"])
    yield session
    session.hang_up()
