"""Tests of SASL exchanges against a server computed from the RFC's formulas."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from penstock_client.errors import PenstockClientError
from penstock_client.protocol.sasl import credentials, exchange


def test_credentials_come_from_either_form() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p;w";'
    assert credentials({"sasl.jaas.config": jaas}) == ("u", "p;w")
    assert credentials({"sasl.username": "a", "sasl.password": "b"}) == ("a", "b")
    with pytest.raises(PenstockClientError, match=r"set kafka\.sasl\.username"):
        credentials({"sasl.username": "a"})


def test_plain_is_one_message() -> None:
    assert list(exchange("PLAIN", "user", "secret")) == [b"\0user\0secret"]


def test_an_unknown_mechanism_is_rejected() -> None:
    with pytest.raises(PenstockClientError, match="SCRAM-SHA-256"):
        exchange("GSSAPI", "u", "p")


@pytest.mark.parametrize("password", ["pencil", "wrong"])
def test_scram_authenticates_both_sides(password: str) -> None:
    salt, rounds = b"0123456789", 4096
    client = exchange("SCRAM-SHA-256", "user", "pencil")
    first = next(client).decode()
    assert first.startswith("n,,n=user,r=")
    server_first = f"r={first.split('r=')[1]}server,s={base64.b64encode(salt).decode()},i={rounds}"
    final = client.send(server_first.encode()).decode()
    without_proof, proof = final.rsplit(",p=", 1)
    signed = f"{first[3:]},{server_first},{without_proof}".encode()
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    signature = hmac.digest(stored, signed, "sha256")
    key = bytes(left ^ right for left, right in zip(base64.b64decode(proof), signature, strict=True))
    assert (hashlib.sha256(key).digest() == stored) == (password == "pencil")
    answer = base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256"))
    if password == "pencil":
        with pytest.raises(StopIteration):
            client.send(b"v=" + answer)
    else:
        with pytest.raises(PenstockClientError, match="do not trust"):
            client.send(b"v=" + answer)


def test_a_server_that_responds_with_another_nonce_is_not_trusted() -> None:
    client = exchange("SCRAM-SHA-512", "user", "pencil")
    next(client)
    with pytest.raises(PenstockClientError, match="nonce"):
        client.send(b"r=mine,s=AAAA,i=4096")
