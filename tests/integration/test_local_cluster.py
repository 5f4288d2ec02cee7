"""penstock cluster start and stop: the nodes end with the process that runs them, and belong to their folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.actions.port_owner import describe_owner
from tests.support.command import penstock
from tests.support.eventually import eventually
from tests.support.ports import adjacent_ports, answers

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that runs a command and waits for its ready line."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str, folder: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*PENSTOCK, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), process.stderr.read()
        return process

    yield run
    for process in started:
        process.terminate()
        process.communicate(timeout=60)


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PENSTOCK, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def await_silence(*ports: int) -> None:
    eventually(lambda: not any(map(answers, ports)), what="the end of all nodes")


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGHUP, marks=pytest.mark.slow), signal.SIGKILL, signal.SIGTERM],
    ids=lambda each: each.name,
)
def test_the_nodes_end_with_the_process_that_runs_them(number: signal.Signals, tmp_path: Path, start: Start) -> None:
    ports = adjacent_ports(2)
    process = start("cluster", "start", "--nodes", "2", "--port", str(ports[0]), folder=tmp_path)
    assert all(map(answers, ports))
    process.send_signal(number)
    await_silence(*ports)
    marks = [tmp_path / "cluster" / f"node-{node}" / ".kafka_cleanshutdown" for node in (1, 2)]
    eventually(lambda: all(mark.exists() for mark in marks), what="a clean stop of all nodes")


def test_a_cluster_is_that_of_its_folder_in_every_working_directory(tmp_path: Path, start: Start) -> None:
    (port,) = adjacent_ports(1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    start("cluster", "start", "--nodes", "1", "--port", str(port), folder=tmp_path)
    assert run("topic", "create", "kept", "--bootstrap", f"localhost:{port}", folder=tmp_path).returncode == 0
    stopped = run("cluster", "stop", "--data", str(tmp_path / "cluster"), folder=elsewhere)
    assert stopped.returncode == 0, stopped.stderr
    await_silence(port)
    again = start("cluster", "start", "--data", "../cluster", folder=elsewhere)
    listed = run("topic", "list", "--bootstrap", f"localhost:{port}", folder=elsewhere)
    assert "kept" in listed.stdout
    assert os.listdir(elsewhere) == []
    second = run("cluster", "start", folder=tmp_path)
    assert second.returncode == 1
    assert f"already running, as process {again.pid}" in second.stderr


def test_options_that_contradict_the_folder_are_refused(tmp_path: Path, start: Start) -> None:
    (port,) = adjacent_ports(1)
    start("cluster", "start", "--nodes", "1", "--port", str(port), folder=tmp_path)
    assert run("cluster", "stop", folder=tmp_path).returncode == 0
    nodes = run("cluster", "start", "--nodes", "3", folder=tmp_path)
    assert nodes.returncode == 1 and "holds a cluster of 1 nodes, not 3" in nodes.stderr
    ports = run("cluster", "start", "--port", str(port + 1), folder=tmp_path)
    assert ports.returncode == 1 and f"listens on port {port}, not {port + 1}" in ports.stderr


def test_without_a_running_cluster_there_is_nothing_to_stop(tmp_path: Path) -> None:
    done = run("cluster", "stop", "--data", str(tmp_path), folder=tmp_path)
    assert done.returncode == 1 and "No cluster is running in" in done.stderr


def test_a_port_in_use_names_the_process_that_listens_there(tmp_path: Path, start: Start) -> None:
    (port,) = adjacent_ports(1)
    first = start("start", "--data", "one", "--port", str(port), folder=tmp_path)
    second = run("start", "--data", "two", "--port", str(port), folder=tmp_path)
    assert second.returncode == 1
    assert f"Port {port} is in use" in second.stderr
    assert f"The Penstock process {first.pid} listens there" in second.stderr


def test_a_broker_stops_at_the_end_of_its_input_if_asked_to(tmp_path: Path) -> None:
    command = [*PENSTOCK, "start", "--data", "data", "--port", "0", "--stop-at-eof"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready ")
    process.communicate(timeout=60)
    assert process.returncode == 0


def listener_pid(port: int) -> str:
    return describe_owner(port)


def test_a_restart_replaces_the_process_of_a_node(tmp_path: Path, start: Start) -> None:
    (port,) = adjacent_ports(1)
    at = ("--data", str(tmp_path / "cluster"))
    assert "contains no cluster" in penstock("cluster", "restart", *at).err
    start("cluster", "start", "--nodes", "1", "--port", str(port), folder=tmp_path)
    before = listener_pid(port)
    restarted = penstock("cluster", "restart", *at)
    assert restarted.code == 0, restarted.err
    assert restarted.out.startswith("node 1 restarted and in sync after ")
    assert answers(port) and listener_pid(port) != before
    assert not (tmp_path / "cluster" / "restart").exists()
    assert penstock("cluster", "stop", *at).code == 0
    assert "No cluster is running" in penstock("cluster", "restart", *at).err


@pytest.mark.slow
def test_a_node_that_does_not_come_back_ends_the_restart(tmp_path: Path, start: Start) -> None:
    (port,) = adjacent_ports(1)
    start("cluster", "start", "--nodes", "1", "--port", str(port), "--restart", folder=tmp_path)
    config = tmp_path / "cluster" / "node-1.properties"
    kept = config.read_text()
    config.write_text(f"{kept}num.partitons=3\n")
    restarted = run("cluster", "restart", folder=tmp_path)
    assert restarted.returncode == 1
    assert "Node 1 was not restarted" in restarted.stderr and "num.partitons" in restarted.stderr
    config.write_text(kept)
    eventually(lambda: answers(port), what="the start of the node with its repaired file")


@pytest.mark.slow
def test_a_rolling_restart_loses_no_write(tmp_path: Path, start: Start) -> None:
    ports = adjacent_ports(3)
    start("cluster", "start", "--nodes", "3", "--port", str(ports[0]), folder=tmp_path)
    bootstrap = ",".join(f"localhost:{port}" for port in ports)
    assert run("topic", "create", "kept", "-p", "3", "--bootstrap", bootstrap, folder=tmp_path).returncode == 0
    before = [listener_pid(port) for port in ports]
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5})
    command = [*PENSTOCK, "cluster", "restart"]
    restart = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    sent = 0
    while restart.poll() is None:
        producer.produce("kept", str(sent), on_delivery=lambda error, _: failed.append(str(error)) if error else None)
        sent += 1
        producer.poll(0.01)
    out, err = restart.communicate()
    assert producer.flush(60) == 0 and failed == []
    assert restart.returncode == 0, err
    assert sorted(line.split()[1] for line in out.splitlines()) == ["1", "2", "3"]
    assert all(old != new for old, new in zip(before, map(listener_pid, ports), strict=True))
    consumed = run("consume", "kept", "--bootstrap", bootstrap, folder=tmp_path).stdout.split()
    assert sorted(map(int, consumed)) == list(range(sent))
