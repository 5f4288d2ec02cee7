"""Mutated handshakes, frames and tokens on listeners that require a login: nothing gets in, and the node stays up.

A slice by default; PENSTOCK_FUZZ_FRAMES sets how many, PENSTOCK_FUZZ_SEED which.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from penstock.security.scram import ScramClient
from penstock.testing import Broker
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import request_head
from tests.support.ports import HOST, free_ports
from tests.support.security import Certificates, first_user, jaas

FRAMES = int(os.environ.get("PENSTOCK_FUZZ_FRAMES", "1500"))
SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", "1"))
FRAMES_PER_CONNECTION = 6


class Target:
    def __init__(self, folder: Path) -> None:
        self.plain, self.tls = free_ports(2)
        self.broker = Broker(
            {
                **Certificates(folder).broker_options(),
                "listeners": f"SASL_PLAINTEXT://{HOST}:{self.plain},SASL_SSL://{HOST}:{self.tls}",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(alice="wonderland"),
                "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas(alice="wonderland"),
                "bootstrap.scram.credentials": first_user("alice", "wonderland"),
                "connection.failed.authentication.delay.ms": "0",
            },
            port=self.plain,
        )


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    made = Target(tmp_path_factory.mktemp("fuzz"))
    with made.broker:
        yield made


def request(api_key: int, version: int, body: object) -> bytes:
    data = codec.write_request(api_key, version, body)
    return request_head(api_key, version, 1, "fuzz", len(data)) + data


def token(data: bytes, version: int = 1) -> bytes:
    return request(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=data))


def seeds() -> list[bytes]:
    """Return valid frames, none of which completes a login by itself: the password is wrong."""
    software = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    scram = ScramClient("SCRAM-SHA-256", "alice", "wrong", nonce="nonce").first()
    frames = [request(ApiKey.API_VERSIONS, 3, software), request_head(ApiKey.METADATA, 12, 1, "fuzz", 0)]
    for version in (0, 1):
        frames += [
            request(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))
            for mechanism in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
        ]
    for data in (b"\0alice\0wrong", scram, b"c=biws,r=nonce,p=AAAA", b"n,,\x01auth=Bearer a.b.c\x01\x01"):
        frames += [token(data), token(data, 2), struct.pack(">i", len(data)) + data]
    return frames


def mutated(random: Random, frame: bytes) -> bytes:
    data = bytearray(frame)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        kind, at = random.random(), random.randrange(len(data)) if data else 0
        if kind < 0.4 and data:
            data[at] = random.randrange(256)
        elif kind < 0.6:
            del data[at : at + random.randrange(1, 5)]
        elif kind < 0.8:
            data[at:at] = random.randbytes(random.randrange(1, 5))
        elif len(data) >= 4:
            data[:4] = struct.pack(">i", random.choice((-1, 0, 1, len(data) - 4, 524_288, 524_289, 2**31 - 1)))
    return bytes(data)


@pytest.mark.parametrize("kind", ["plain", "tls"])
def test_nothing_gets_in(target: Target, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    random = Random(f"{SEED}-{kind}")
    known = seeds()
    if kind == "tls":
        known = [b"\x16\x03\x01" + struct.pack(">H", size) + random.randbytes(size) for size in (1, 50, 300)]
    port = target.plain if kind == "plain" else target.tls
    before = target.broker.node.metrics.authentications.value
    with caplog.at_level(logging.ERROR):
        for _ in range(max(1, FRAMES // FRAMES_PER_CONNECTION)):
            # The broker may close the connection at any time.
            with socket.create_connection((HOST, port), timeout=30) as sock, suppress(OSError):
                for _ in range(FRAMES_PER_CONNECTION):
                    sock.sendall(mutated(random, random.choice(known)))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
    assert not caplog.records
    assert target.broker.node.metrics.authentications.value == before
    with socket.create_connection((HOST, target.plain), timeout=30) as sock:
        sock.sendall(request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")))
        sock.recv(1000)
        sock.sendall(token(b"\0alice\0wonderland"))
        assert sock.recv(1000)[8:10] == b"\0\0", "the node still accepts the right password"
