"""A broker with a SASL listener without TLS, so that tests can see its bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Broker
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
