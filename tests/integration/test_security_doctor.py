"""penstock doctor on secured listeners: it names the step that fails."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.support.command import penstock
from tests.support.ports import HOST, free_ports
from tests.support.security import Certificates, first_user

LISTENERS = {
    "SASL_SSL": "SASL_SSL", "TLS": "SSL", "MTLS": "SSL", "EXPIRED": "SSL", "OTHER": "SSL", "PLAIN": "PLAINTEXT",
    "SASL": "SASL_PLAINTEXT",
}  # fmt: skip


class Secured:
    def __init__(self, folder: Path) -> None:
        self.certificates = made = Certificates(folder)
        self.ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        ago = made.now - datetime.timedelta(days=3)
        options = {
            **made.broker_options(),
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
            "inter.broker.listener.name": "PLAIN",
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.expired.ssl.keystore.location": str(made.issue("old", hosts=[HOST], days=1, now=ago)),
            "listener.name.other.ssl.keystore.location": str(made.issue("other", hosts=["elsewhere.example.org"])),
            "bootstrap.scram.credentials": first_user("alice", "wonderland"),
            "connection.failed.authentication.delay.ms": "0",
        }
        self.broker = Broker(options, port=self.ports["PLAIN"])

    def doctor(self, listener: str, **properties: str) -> tuple[int, dict[str, tuple[str, str]]]:
        """Return the exit code, and state and finding of each check."""
        words = [word for name, value in properties.items() for word in ("-X", f"{name.replace('_', '.')}={value}")]
        address = f"{HOST}:{self.ports[listener]}"
        done = penstock("doctor", "--bootstrap", address, "--format", "json", *words)
        rows = json.loads(done.out)
        return done.code, {row["check"].replace(f" {address}", ""): (row["state"], row["found"]) for row in rows}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.broker:
        yield made


LOGIN = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "alice", "sasl_password": "wonderland"}


def test_all_steps_of_a_good_connection_are_listed(secured: Secured) -> None:
    trust = {"ssl_ca_location": str(secured.certificates.authority)}
    code, found = secured.doctor("SASL_SSL", security_protocol="SASL_SSL", **LOGIN, **trust)
    assert code == 0, found
    assert found["encryption"] == ("ok", "TLSv1.3")
    assert found["certificate chain"][0] == found["certificate names"][0] == found["login"][0] == "ok"
    assert found["certificate expiry"][0] == "warning", "the certificates of the tests are valid for two days"


@pytest.mark.parametrize(
    ("listener", "properties", "step", "text"),
    [
        ("TLS", {"security_protocol": "SSL"}, "certificate chain", "with the authorities of this machine"),
        ("TLS", {}, "encryption", "expects TLS"),
        ("PLAIN", {"security_protocol": "SSL", "ssl_ca_location": "CA"}, "encryption", "uses plain text"),
        ("OTHER", {"security_protocol": "SSL", "ssl_ca_location": "CA"}, "certificate names", "elsewhere.example.org"),
        ("EXPIRED", {"security_protocol": "SSL", "ssl_ca_location": "CA"}, "certificate expiry", "expired on"),
        ("SASL_SSL", {"security_protocol": "SSL", "ssl_ca_location": "CA"}, "login", "requires SASL: SCRAM-SHA-256"),
        ("SASL", {}, "login", "requires SASL"),
        ("PLAIN", {"security_protocol": "SASL_PLAINTEXT", **LOGIN}, "login", "does not use SASL"),
        ("SASL", {"security_protocol": "SASL_PLAINTEXT", **LOGIN, "sasl_mechanism": "PLAIN"}, "login", "not PLAIN"),
        ("SASL", {"security_protocol": "SASL_PLAINTEXT", **LOGIN, "sasl_password": "x"}, "login", "Cannot connect"),
    ],
)
def test_the_failing_step_is_named(
    secured: Secured, listener: str, properties: dict[str, str], step: str, text: str
) -> None:
    authority = str(secured.certificates.authority)
    code, found = secured.doctor(
        listener, **{key: authority if value == "CA" else value for key, value in properties.items()}
    )
    assert code == 1
    assert [name for name, (state, _) in found.items() if state == "wrong"] == [step], found
    assert text in found[step][1]


def test_a_missing_client_certificate_is_named(secured: Secured) -> None:
    trust = {"security_protocol": "SSL", "ssl_ca_location": str(secured.certificates.authority)}
    code, found = secured.doctor("MTLS", **trust)
    assert code == 1, found
    own = str(secured.certificates.client)
    code, found = secured.doctor("MTLS", **trust, ssl_certificate_location=own, ssl_key_location=own)
    assert code == 0, found
