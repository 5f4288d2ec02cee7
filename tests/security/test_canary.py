"""Secrets with a recognizable text: they never appear in logs, errors, configs, metrics or files."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import BrokerProcess
from tests.support.command import penstock
from tests.support.ports import HOST, free_ports
from tests.support.security import Certificates, first_user, jaas

CANARY = "canary-7f3a"


def test_secrets_do_not_leak(tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    certificates = Certificates(tmp_path)
    content = certificates.broker.read_bytes()
    key: Any = serialization.load_pem_private_key(content, None)
    store = tmp_path / "store.p12"
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"x",
            key,
            x509.load_pem_x509_certificate(content),
            None,
            serialization.BestAvailableEncryption(f"{CANARY}-store".encode()),
        )
    )
    port, metrics = free_ports(2)
    config = tmp_path / "server.properties"
    config.write_text(
        "".join(
            f"{name}={value}\n"
            for name, value in {
                "listeners": f"SASL_SSL://{HOST}:{port}",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas(alice=f"{CANARY}-plain"),
                "ssl.keystore.location": str(store),
                "ssl.keystore.password": f"{CANARY}-store",
                "bootstrap.scram.credentials": first_user("bob", f"{CANARY}-scram"),
                "metrics.listener": f"http://{HOST}:{metrics}",
                "log.reserve.bytes": "0",
            }.items()
        )
    )
    broker = _Configured(config, data=tmp_path / "data", port=port)
    shown: list[str] = []
    with broker:
        for name, password, mechanism in (
            ("alice", f"{CANARY}-plain", "PLAIN"),
            ("bob", f"{CANARY}-scram", "SCRAM-SHA-512"),
            ("bob", f"{CANARY}-wrong", "SCRAM-SHA-512"),
            ("alice", f"{CANARY}-wrong", "PLAIN"),
        ):
            client = tmp_path / "client.properties"
            client.write_text(
                f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.username={name}\n"
                f"sasl.password={password}\nssl.ca.location={certificates.authority}\n"
            )
            words = ("--bootstrap", broker.bootstrap, "--command-config", str(client))
            done = penstock("topic", "list", *words)
            assert (done.code == 0) is ("wrong" not in password), done.err
            shown += [done.out, done.err]
            if done.code == 0:
                for command in (("config", "describe", "--broker", "1"), ("user", "list"), ("doctor",)):
                    found = penstock(*command, *words)
                    shown += [found.out, found.err]
                changed = penstock("config", "set", "--broker", "1", f"ssl.keystore.password={CANARY}-dynamic", *words)
                shown += [changed.out, changed.err]
        for page in ("metrics", "health", "ready"):
            shown.append(urllib.request.urlopen(f"http://{HOST}:{metrics}/{page}").read().decode())
        command_line = Path(f"/proc/{broker.pid}/cmdline").read_text()
        shown.append(command_line)
    shown.append(broker.log_path.read_text())
    dumped = penstock("log", "dump", str(tmp_path / "data" / "__cluster_metadata-0"), "--what", "records")
    assert "ssl.keystore.password" not in dumped.out and "[hidden]" in dumped.out
    shown.append(dumped.out)
    assert any("Authentication failed" in text for text in shown), "the failures were logged"
    for text in shown:
        assert CANARY not in text
    # A password that is set dynamically is stored in clear text in the metadata log, as in Kafka.
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            stored = path.read_bytes()
            for secret in ("plain", "scram", "wrong", "store"):
                assert f"{CANARY}-{secret}".encode() not in stored, path


class _Configured(BrokerProcess):
    """A broker whose secrets are in a file, as they should be: everybody can read the arguments of a process."""

    def __init__(self, config: Path, *, data: Path, port: int) -> None:
        super().__init__(data=data, port=port)
        self._config = config

    def command(self) -> list[str]:
        words = super().command()
        del words[words.index("--host") :]
        return [*words, "--config", str(self._config), "--log-level", "debug"]


@pytest.fixture(autouse=True)
def _needs_cryptography() -> None:
    pytest.importorskip("cryptography")
