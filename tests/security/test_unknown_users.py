"""Logins of unknown users look the same on a running node as those with a wrong password, also after changes."""

from __future__ import annotations

import asyncio
import hashlib
import time
from itertools import pairwise
from pathlib import Path

from penstock.client.login import LoginFailed, SecuredDialer
from penstock.ports.network import Connection, Session
from penstock.ports.real.clock import RealClock
from penstock.ports.real.network import RealNetwork
from penstock.ports.real.offload import ThreadOffload
from penstock.security.scram import ScramClient
from penstock.testing import Broker
from tests.security.wire import RawClient
from tests.support.command import penstock
from tests.support.ports import HOST, free_ports
from tests.support.security import first_user


def challenge(broker: Broker, name: str) -> bytes:
    """Return the salt and the number of iterations that a user gets."""
    with RawClient(broker.port) as client:
        client.handshake("SCRAM-SHA-512")
        answer = client.token(f"n,,n={name},r=nonce".encode())
        assert int(answer.error_code) == 0
        return bytes(answer.auth_bytes).partition(b",")[2]


def test_the_salt_of_an_unknown_user_does_not_change(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    options = {
        "listeners": f"SASL_PLAINTEXT://{HOST}:{port}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "bootstrap.scram.credentials": first_user("mallory", "secret"),
        "connection.failed.authentication.delay.ms": "0",
    }
    own = tmp_path / "client.properties"
    own.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=mallory\nsasl.password=secret\n"
    )
    with Broker(options, port=port, data=tmp_path / "data") as broker:
        first = challenge(broker, "nobody")
        assert challenge(broker, "nobody") == first != challenge(broker, "somebody")
        # A user that sorts before all others: the salts must not depend on it.
        words = ("--bootstrap", broker.bootstrap, "--command-config", str(own))
        done = penstock("user", "add", "aaron", *words)
        assert done.code == 0, done.err
        assert challenge(broker, "nobody") == first
    with Broker(options, port=port, data=tmp_path / "data") as broker:
        assert challenge(broker, "nobody") == first


class _Silent:
    def frame(self, frame: memoryview) -> None: ...

    def lost(self, error: Exception | None) -> None: ...


async def test_the_key_derivation_of_a_nodes_login_does_not_block_the_loop(secured: Broker) -> None:
    """Logins with a wrong password run the whole derivation, and the loop goes on meanwhile."""
    network, offload = RealNetwork(), ThreadOffload()
    slow_s: list[float] = []

    def derive(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
        began = time.monotonic()
        salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 500_000)
        slow_s.append(time.monotonic() - began)
        return salted

    dialer = SecuredDialer(
        network,
        RealClock(),
        client_id="test",
        tls=None,
        mechanism="SCRAM-SHA-512",
        start_login=lambda: ScramClient("SCRAM-SHA-512", "alice", "wrong", nonce="nonce", derive=derive),
        offload=offload,
    )
    outcomes: list[Connection | OSError] = []

    def opened(outcome: Connection | OSError) -> Session | None:
        outcomes.append(outcome)
        return _Silent()

    dialer.connect(HOST, secured.port, opened)
    turns = []
    while not outcomes:
        turns.append(time.monotonic())
        await asyncio.sleep(0.001)
    assert isinstance(outcomes[0], LoginFailed) and "invalid credentials" in str(outcomes[0])
    held_s = max(after - before for before, after in pairwise(turns))
    assert held_s < slow_s[0] / 2, f"the loop stood still for {held_s:.3f} s of {slow_s[0]:.3f} s"
    offload.stop()
    network.stop()
