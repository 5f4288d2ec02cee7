"""penstock start --secure and cluster start --secure, with the commands that use and manage them."""

from __future__ import annotations

import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.support.command import Outcome, penstock
from tests.support.ports import HOST, adjacent_ports, free_ports

pytest.importorskip("cryptography")

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]


@contextmanager
def running(*words: str) -> Iterator[list[str]]:
    """Run a command until the end of the block; yield the words of its ready line."""
    process = subprocess.Popen([*PENSTOCK, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), process.stderr.read()
        yield line.split()
    finally:
        process.terminate()
        process.communicate(timeout=60)


def with_file(file: Path, *words: str, given: str = "") -> Outcome:
    done = penstock(*words, "--command-config", str(file), given=given)
    assert done.code == 0, done.err
    return done


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def password_in(file: Path) -> str:
    lines = dict(line.split("=", 1) for line in file.read_text().splitlines())
    return lines["sasl.password"]


def answer_without_tls(port: int) -> bytes:
    """Return the answer to an ApiVersions request that is sent as plain text."""
    body = struct.pack(">hhih", 18, 0, 1, -1)
    with socket.create_connection((HOST, port), timeout=60) as line:
        line.sendall(struct.pack(">i", len(body)) + body)
        try:
            return line.recv(4096)
        except ConnectionResetError:
            return b""


def test_one_command_starts_a_secured_node(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    data = tmp_path / "data"
    start = ["start", "--secure", "--data", str(data), "--host", HOST, "--port", str(port)]
    start += ["--set", "log.reserve.bytes=0"]
    client, java = data / "security" / "client.properties", data / "security" / "client.java.properties"
    with running(*start):
        assert mode(data / "security") == 0o700
        assert {mode(path) for path in (data / "security").iterdir()} == {0o600}
        with_file(client, "topic", "create", "orders")
        with_file(java, "produce", "orders", given="one\ntwo\n")
        assert sorted(with_file(client, "consume", "orders", "--from", "earliest").out.split()) == ["one", "two"]
        assert "every partition has a leader" in with_file(java, "doctor").out
        assert answer_without_tls(port) == b""
        before = client.read_text()
    with running(*start):
        assert client.read_text() == before, "the next start uses what is there"
        assert "orders" in with_file(java, "topic", "list").out


def test_a_folder_that_was_not_secured_is_not_secured_silently(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data") as broker:
        port = broker.port
    done = penstock("start", "--secure", "--data", str(tmp_path / "data"), "--port", str(port))
    assert done.code == 1
    assert "was created without --secure" in done.err


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(secure=True) as broker:
        yield broker


def file_of(broker: Broker) -> Path:
    return broker.data / "security" / "client.properties"


def log_in(broker: Broker, tmp_path: Path, name: str, password: str) -> Outcome:
    file = tmp_path / f"{name}.properties"
    admin = file_of(broker).read_text().replace("sasl.username=admin", f"sasl.username={name}")
    file.write_text(admin.replace(password_in(file_of(broker)), password))
    return penstock("topic", "list", "--command-config", str(file))


def test_users_are_added_listed_changed_and_removed(secured: Broker, tmp_path: Path) -> None:
    file = file_of(secured)
    added = with_file(file, "user", "add", "alice").out.splitlines()
    assert added[0] == "added user alice"
    password = added[1].removeprefix("password: ")
    assert log_in(secured, tmp_path, "alice", password).code == 0
    assert "alice" in with_file(file, "user", "list").out
    assert "already exists" in penstock("user", "add", "alice", "--command-config", str(file)).err
    changed = with_file(file, "user", "passwd", "alice", "--password-stdin", given="hunter2\n")
    assert "hunter2" not in changed.out
    assert log_in(secured, tmp_path, "alice", password).code == 1
    assert log_in(secured, tmp_path, "alice", "hunter2").code == 0
    with_file(file, "user", "remove", "alice", "--yes")
    refused = log_in(secured, tmp_path, "alice", "hunter2")
    assert refused.code == 1
    assert "hunter2" not in refused.err
    assert "does not exist" in penstock("user", "remove", "alice", "--yes", "--command-config", str(file)).err


def test_the_certificate_is_shown_and_renewed_while_the_node_runs(secured: Broker) -> None:
    data = str(secured.data)
    shown = penstock("cert", "show", "--data", data)
    assert shown.code == 0
    assert "CN=penstock-node" in shown.out and HOST in shown.out
    before = (secured.data / "security" / "node.pem").read_text()
    renewed = penstock("cert", "renew", "--data", data, "--host", "broker.example.org")
    assert renewed.code == 0 and "broker.example.org" in renewed.out
    assert (secured.data / "security" / "node.pem").read_text() != before
    with_file(file_of(secured), "topic", "list")
    assert penstock("cert", "show", "--data", data + "/nowhere").code == 1


def test_a_secured_cluster_replicates(tmp_path: Path) -> None:
    ports = adjacent_ports(6)
    data = tmp_path / "cluster"
    words = ("cluster", "start", "--secure", "--nodes", "3", "--host", HOST, "--data", str(data))
    with running(*words, "--port", str(ports[0]), "--set", "log.reserve.bytes=0"):
        file = data / "security" / "client.java.properties"
        assert mode(data / "node-1.properties") == 0o600
        with_file(file, "topic", "create", "orders", "--partitions", "3", "--replication-factor", "3")
        with_file(file, "produce", "orders", given="one\n")
        assert with_file(file, "consume", "orders", "--from", "earliest").out.split() == ["one"]
        assert with_file(file, "cluster", "status").out.count("up") >= 3
        for options in ([], ["--command-config", str(file)]):
            restarted = penstock("cluster", "restart", "--data", str(data), *options)
            assert restarted.code == 0, restarted.err
            assert restarted.out.count("restarted and in sync") == 3
