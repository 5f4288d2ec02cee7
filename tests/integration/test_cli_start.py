"""Tests of penstock start: the ready line, the clean shutdown, and every startup error."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import BrokerProcess
from tests.support.command import COMMAND, penstock, penstock_process
from tests.support.eventually import eventually
from tests.support.ports import HOST, answers, free_ports


@pytest.fixture
def running(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(data=tmp_path / "data") as broker:
        yield broker


def refused(*words: str) -> str:
    """Run a start that must fail; return its error line."""
    outcome = penstock_process("start", *words)
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("penstock: ")
    return outcome.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_start_prints_ready_once_and_stops_cleanly_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    words = [*COMMAND, "start", "--data", str(tmp_path / "data"), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("ready localhost:")
        with socket.create_connection(("localhost", int(ready.rpartition(":")[2])), timeout=60):
            process.send_signal(number)
            rest, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert rest == ""
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_start_stops_on_a_signal_while_waiting_for_its_quorum(tmp_path: Path, number: signal.Signals) -> None:
    port, *others = free_ports(3)
    voters = ",".join(f"{index}@{HOST}:{each}" for index, each in enumerate((port, *others), 1))
    settings = ["--set", f"controller.quorum.voters={voters}", "--set", "cluster.id=tests-cluster-abcdefgh"]
    words = [*COMMAND, "start", "--data", str(tmp_path / "data"), "--host", HOST, "--port", str(port), *settings]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: answers(port) or process.poll() is not None, what="a voter that responds to others")
        process.send_signal(number)
        out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in said


def test_a_port_in_use_is_refused(running: BrokerProcess, tmp_path: Path) -> None:
    line = refused("--data", str(tmp_path / "other"), "--host", "127.0.0.1", "--port", str(running.port))
    assert str(running.port) in line
    assert "in use" in line


def test_a_second_process_on_the_same_folder_is_rejected(running: BrokerProcess) -> None:
    assert str(running.data) in refused("--data", str(running.data), "--port", "0")


def test_a_folder_of_another_node_is_refused(running: BrokerProcess) -> None:
    running.stop()
    line = refused("--data", str(running.data), "--port", "0", "--node-id", "7")
    assert "node" in line
    assert "7" in line


def test_a_folder_of_another_cluster_is_refused(running: BrokerProcess) -> None:
    running.stop()
    line = refused("--data", str(running.data), "--port", "0", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg")
    assert "belongs to cluster" in line


def test_an_unwritable_folder_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "sealed"
    folder.mkdir(mode=0o500)
    # The superuser may write anywhere, except to paths that do not support it.
    path = "/proc/penstock" if os.geteuid() == 0 else str(folder)
    assert path in refused("--data", path, "--port", "0")


def test_a_file_instead_of_the_data_directory_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert str(file) in refused("--data", str(file), "--port", "0")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--set", "num.partitions"], "NAME=VALUE"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "num.partition=3"], "num.partitions"),
        (["--config", "nowhere.properties"], "nowhere.properties"),
        (["--log-level", "loud"], "debug"),
    ],
)
def test_an_invalid_setting_is_rejected(tmp_path: Path, words: list[str], complaint: str) -> None:
    assert complaint in refused("--data", str(tmp_path / "data"), "--port", "0", *words)
    assert not (tmp_path / "data" / "meta.properties").exists()


def test_a_file_of_settings_is_read_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path / 'from-file'}\nnum.partitions=2\nnum.io.threads=8\nnode.id=4\n")
    words = [
        *COMMAND,
        "start",
        "--config",
        str(file),
        "--port",
        "0",
        "--host",
        "127.0.0.1",
        "--set",
        "num.partitions=5",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[1]
            rows = penstock(
                "config", "get", "--broker", "4", "num.partitions", "--format", "json", "-b", address
            ).json()
        finally:
            process.terminate()
    assert rows[0]["value"] == "5"
    assert (tmp_path / "from-file" / "meta.properties").exists()
