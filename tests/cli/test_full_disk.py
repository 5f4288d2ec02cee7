"""A data folder on a small tmpfs that is really full: every command and endpoint says so, and it recovers by itself."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.testing import BrokerProcess
from tests.support.command import Outcome, penstock
from tests.support.eventually import eventually
from tests.support.ports import free_ports

MIB = 1024 * 1024
VOLUME_SIZE, RESERVE_SIZE = 24 * MIB, 2 * MIB


class SmallDisk:
    """A broker whose data folder is on a volume that a test can fill."""

    def __init__(self, volume: Path, broker: BrokerProcess, metrics_port: int) -> None:
        self.data = volume / "data"
        self.broker = broker
        self._ballast = volume / "ballast"
        self._metrics = f"http://127.0.0.1:{metrics_port}"

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        self._ballast.unlink()

    def run(self, *words: str, given: str = "") -> Outcome:
        return penstock(*words, "--bootstrap", self.broker.bootstrap, given=given)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self._metrics + path, timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    volume = tmp_path / "volume"
    volume.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={VOLUME_SIZE}", "tmpfs", str(volume)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True, timeout=60, check=False)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.strip()}")
    (metrics_port,) = free_ports(1)
    settings = {"log.reserve.bytes": str(RESERVE_SIZE), "metrics.listener": f"http://127.0.0.1:{metrics_port}"}
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", str(volume)], check=True, timeout=60)
        broker = stack.enter_context(BrokerProcess(settings, data=volume / "data"))
        yield SmallDisk(volume, broker, metrics_port)


def test_a_full_disk_is_reported_everywhere_and_ends_by_itself(small: SmallDisk) -> None:
    full = f"disk full: {small.data} of node 1 has 0."
    needs = "MiB free and needs 2.0 MiB free to accept writes"
    assert small.run("topic", "create", "orders").code == 0
    assert small.run("produce", "orders", given="before\n").code == 0
    assert small.get("/ready")[0] == 200
    small.fill()
    produced = small.run("produce", "orders", "-X", "message.timeout.ms=5000", given="x" * 500_000 + "\n")
    assert produced.code == 1
    waiting, failed = produced.err.splitlines()
    assert waiting.startswith(f"penstock: waiting: {full}") and needs in waiting
    assert failed.startswith(f"penstock: 1 of 1 records were not written. {full}") and needs in failed

    status = small.run("cluster", "status")
    assert status.code == 1 and "up, disk full" in status.out and full in status.out and needs in status.out
    doctor = small.run("doctor", "--data", str(small.data))
    assert doctor.code == 1 and full in doctor.out and needs in doctor.out
    assert f"disk full: {small.data} has 0." in doctor.out
    here = f"disk full: {small.data} has 0."
    code, body = small.get("/health")
    assert code == 200 and json.loads(body)["warnings"][0].startswith(here)
    code, body = small.get("/ready")
    assert code == 503 and json.loads(body)["reason"].startswith(here) and needs in body
    metrics = small.get("/metrics")[1].splitlines()
    assert "penstock_log_directory_read_only 1" in metrics
    assert f"penstock_log_directory_needed_bytes {RESERVE_SIZE}" in metrics
    assert here in small.broker.log_path.read_text()
    assert small.run("consume", "orders").out == "before\n", "reads are served"

    small.free()
    eventually(lambda: small.get("/ready")[0] == 200, what="a node that accepts writes")
    assert small.run("produce", "orders", given="after\n").code == 0
    assert small.run("cluster", "status").code == 0
    assert "penstock_log_directory_needed_bytes 0" in small.get("/metrics")[1].splitlines()
