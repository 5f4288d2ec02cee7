"""Clients that authenticate again before their session ends (KIP-368)."""

from __future__ import annotations

import time
from typing import Any

from penstock.testing import Broker
from tests.support.ports import HOST, free_ports
from tests.support.security import first_user

LIFETIME_MS = 2000
SESSIONS = 3


def test_librdkafka_authenticates_again_on_the_same_connection() -> None:
    from confluent_kafka import Producer

    (port,) = free_ports(1)
    broker = Broker(
        {
            "listeners": f"SASL_PLAINTEXT://{HOST}:{port}",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "bootstrap.scram.credentials": first_user("alice", "wonderland"),
            "connections.max.reauth.ms": str(LIFETIME_MS),
        },
        port=port,
    )
    with broker:
        settings: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "wonderland",
            "log_level": 0,
        }
        failed: list[object] = []
        producer = Producer(settings)
        deadline = time.monotonic() + SESSIONS * LIFETIME_MS / 1000
        while time.monotonic() < deadline:
            producer.produce("t", b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
            assert producer.flush(30) == 0
        assert not failed
        metrics = broker.node.metrics
        assert metrics.failed_authentications.value == 0, "no session ended before its client authenticated again"
        assert metrics.connections_created.value < 2 * SESSIONS, "connections are kept"
