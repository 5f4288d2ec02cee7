"""Certificates of a listener that are replaced while the node runs: by a new file, and by a dynamic option."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from penstock.testing import Broker
from tests.support.command import penstock
from tests.support.eventually import eventually
from tests.support.ports import HOST, free_ports
from tests.support.security import Certificates


class Served:
    def __init__(self, folder: Path) -> None:
        self.certificates = Certificates(folder)
        self.file = folder / "served.pem"
        self.file.write_bytes(self.certificates.broker.read_bytes())
        port, self._metrics_port = free_ports(2)
        options = {
            **self.certificates.broker_options(),
            "ssl.keystore.location": str(self.file),
            "metrics.listener": f"http://{HOST}:{self._metrics_port}",
        }
        self.broker = Broker({**options, "listeners": f"SSL://{HOST}:{port}"}, port=port)

    def issue(self, name: str = "broker") -> bytes:
        return self.certificates.issue(name, file="new.pem", hosts=[HOST, "localhost"]).read_bytes()

    def served(self) -> str:
        """Return the certificate that a client gets."""
        return ssl.get_server_certificate((HOST, self.broker.port), ca_certs=str(self.certificates.authority))

    def failed_loads(self) -> str:
        """Return the metric of changed certificates that could not be loaded."""
        with urlopen(f"http://{HOST}:{self._metrics_port}/metrics", timeout=60) as response:
            lines: list[str] = response.read().decode().splitlines()
        (value,) = (line.split()[1] for line in lines if line.startswith("penstock_failed_certificate_loads_total"))
        return value


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    with made.broker:
        yield made


def test_a_new_file_is_used_for_new_connections(node: Served) -> None:
    new = node.issue()
    node.file.write_bytes(new)
    eventually(lambda: node.served() in new.decode(), what="the new certificate")


@pytest.mark.parametrize("kind", ["garbage", "another name"])
def test_a_bad_file_changes_nothing(node: Served, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    before = node.served()
    assert float(node.failed_loads()) == 0
    node.file.write_bytes(b"garbage" if kind == "garbage" else node.issue("another"))

    def is_noticed() -> bool:
        assert node.served() == before
        return "the present one stays in use" in caplog.text

    eventually(is_noticed, what="the check of the changed file")
    assert node.served() == before
    assert float(node.failed_loads()) == 1
    assert caplog.text.count("the present one stays in use") == 1


def test_kafkas_dynamic_option_replaces_the_certificate(node: Served, tmp_path: Path) -> None:
    new = tmp_path / "dynamic.pem"
    new.write_bytes(node.issue())
    words = ["--bootstrap", node.broker.bootstrap, "-X", "security.protocol=SSL"]
    words += ["-X", f"ssl.ca.location={node.certificates.authority}"]
    option = f"listener.name.ssl.ssl.keystore.location={new}"
    done = penstock("config", "set", "--broker", "1", option, *words)
    assert done.code == 0, done.err
    eventually(lambda: node.served() in new.read_text(), what="the certificate of the new file")
