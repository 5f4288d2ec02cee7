"""penstock start --cores: one supervisor, several nodes, one data folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from penstock.actions.port_owner import find_owner
from tests.support.eventually import eventually
from tests.support.ports import adjacent_ports, answers, free_ports

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a machine in the folder `data` and waits for its ready line."""
    started: list[subprocess.Popen[str]] = []

    def run(port: int, *words: str) -> subprocess.Popen[str]:
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                [*PENSTOCK, "start", "--data", str(tmp_path / "data"), "--port", str(port), *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), (tmp_path / "log").read_text()
        return process

    yield run
    for process in started:
        process.terminate()
        process.communicate(timeout=60)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PENSTOCK, *words], capture_output=True, text=True, timeout=120, check=False)


def checked(*words: str) -> str:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def end(process: subprocess.Popen[str], *ports: int, number: signal.Signals = signal.SIGTERM) -> None:
    process.send_signal(number)
    process.wait(60)
    eventually(lambda: not any(map(answers, ports)), what="the end of all cores")


def nodes_of(port: int) -> dict[int, str]:
    rows = json.loads(checked("cluster", "nodes", "--bootstrap", f"localhost:{port}", "--format", "json"))
    return {row["node"]: row["address"] for row in rows}


def leaders_of(port: int, topic: str) -> set[int]:
    metadata = AdminClient({"bootstrap.servers": f"localhost:{port}"}).list_topics(topic, timeout=30)
    return {partition.leader for partition in metadata.topics[topic].partitions.values()}


def produce(port: int, topic: str, count: int) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": f"localhost:{port}", "acks": "all", "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, value=str(number), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * count


def consumed(port: int, topic: str) -> int:
    return len(checked("consume", topic, "--bootstrap", f"localhost:{port}").splitlines())


def test_a_folder_of_one_node_gets_more_cores_and_gives_them_back(tmp_path: Path, start: Start) -> None:
    ports = adjacent_ports(3)
    data = tmp_path / "data"
    single = start(ports[0])
    checked("topic", "create", "old", "--partitions", "2", "--bootstrap", f"localhost:{ports[0]}")
    produce(ports[0], "old", 20)
    end(single, ports[0])

    machine = start(ports[0], "--cores", "3")
    assert nodes_of(ports[0]) == {1 + 1000 * core: f"localhost:{port}" for core, port in enumerate(ports)}
    assert consumed(ports[0], "old") == 20
    checked("topic", "create", "new", "--partitions", "6", "--bootstrap", f"localhost:{ports[1]}")
    assert leaders_of(ports[2], "new") == {1, 1001, 2001}
    produce(ports[0], "new", 60)
    end(machine, *ports)
    assert all((folder / ".kafka_cleanshutdown").exists() for folder in (data, data / "cores/1", data / "cores/2"))

    refused = run("start", "--data", str(data), "--port", str(ports[0]), "--cores", "2")
    assert refused.returncode == 1
    assert "Start with --cores 3, run 'penstock cluster drain 2001'" in refused.stderr
    assert run("start", "--data", str(data), "--port", str(ports[0])).returncode == 1

    machine = start(ports[0], "--cores", "3")
    checked("cluster", "drain", "1001", "2001", "--yes", "--bootstrap", f"localhost:{ports[0]}")
    # A deleted partition is renamed before it is removed.
    eventually(lambda: not list(data.glob("cores/*/new-[0-9]")), what="the removal of the moved partitions")
    end(machine, *ports)
    start(ports[0])
    assert leaders_of(ports[0], "new") == {1}
    assert (consumed(ports[0], "old"), consumed(ports[0], "new")) == (20, 60)
    for node in ("1001", "2001"):
        checked("cluster", "remove", node, "--yes", "--bootstrap", f"localhost:{ports[0]}")
    assert set(nodes_of(ports[0])) == {1}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGINT], ids=lambda each: each.name)
def test_the_cores_end_with_their_supervisor(tmp_path: Path, start: Start, number: signal.Signals) -> None:
    ports = adjacent_ports(3)
    machine = start(ports[0], "--cores", "3")
    assert all(map(answers, ports))
    end(machine, *ports, number=number)
    marks = [tmp_path / "data" / name / ".kafka_cleanshutdown" for name in ("", "cores/1", "cores/2")]
    eventually(lambda: all(mark.exists() for mark in marks), what="a clean stop of all cores")


def test_a_core_that_is_killed_is_started_again_and_the_endpoint_reports_it(tmp_path: Path, start: Start) -> None:
    ports = adjacent_ports(2)
    (metrics,) = free_ports(1)
    start(ports[0], "--cores", "2", "--metrics", str(metrics), "--log-format", "json")

    def fetch(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics}{path}", timeout=30) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    assert fetch("/health") == (200, '{"status": "ok"}\n')
    assert fetch("/nothing")[0] == 404
    page = fetch("/metrics")[1]
    assert all(f'process_start_time_seconds{{core="{core}"}}' in page for core in (0, 1))
    assert page.count("# TYPE process_start_time_seconds gauge") == 1
    assert 'penstock_core_up{core="1"} 1' in page

    pid = _process_with(ports[1])
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: "core 1 was killed by signal 9" in (tmp_path / "log").read_text(), what="the report")
    eventually(lambda: fetch("/ready")[0] == 200 and answers(ports[1]), what="the new process of core 1")
    assert _process_with(ports[1]) != pid
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    assert lines and all(line["core"] in (0, 1) for line in lines)


def _process_with(port: int) -> int:
    owner = find_owner(port)
    assert owner is not None
    return owner.pid


def test_the_cores_of_a_machine_are_restarted_one_by_one(tmp_path: Path, start: Start) -> None:
    ports = adjacent_ports(2)
    machine = start(ports[0], "--cores", "2")
    before = [_process_with(port) for port in ports]
    lines = checked("cluster", "restart", "--data", str(tmp_path / "data")).splitlines()
    assert [line.partition(" restarted")[0] for line in lines] == ["node 1001", "node 1"]
    assert all(old != _process_with(port) for old, port in zip(before, ports, strict=True))
    assert "stopped the cluster" in checked("cluster", "stop", "--data", str(tmp_path / "data"))
    assert machine.wait(60) == 0


def test_a_secured_machine_serves_its_clients_on_every_core(tmp_path: Path, start: Start) -> None:
    ports = adjacent_ports(4)
    start(ports[0], "--cores", "2", "--secure")
    client = ["--command-config", str(tmp_path / "data/security/client.properties")]
    checked("topic", "create", "t", "--partitions", "4", *client)
    rows = json.loads(checked("cluster", "status", "--format", "json", *client))
    assert [(row["node"], row["leads"]) for row in rows] == [(1, 2), (1001, 2)]


def test_a_port_in_use_ends_the_machine_and_names_the_core(tmp_path: Path, start: Start) -> None:
    ports = adjacent_ports(2)
    other = subprocess.Popen(
        [*PENSTOCK, "start", "--data", str(tmp_path / "other"), "--port", str(ports[1])],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None and other.stdout.readline().startswith("ready ")
        refused = run("start", "--data", str(tmp_path / "data"), "--port", str(ports[0]), "--cores", "2")
        assert refused.returncode == 1
        assert "core 1:" in refused.stderr and f"{ports[1]}" in refused.stderr
        assert not answers(ports[0])
    finally:
        other.terminate()
        other.communicate(timeout=60)


def _kill_machine(process: subprocess.Popen[str]) -> None:
    """Kill the supervisor and all cores: without the second part, the cores would stop cleanly."""
    cores = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (process.pid, *map(int, cores)):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_the_loss_of_a_machine_loses_no_acknowledged_record(tmp_path: Path) -> None:
    """Three machines of two cores, on three loopback addresses."""
    (port,) = free_ports(1)
    hosts = {1: "127.0.0.1", 2: "127.0.0.2", 3: "127.0.0.3"}
    voters = ",".join(f"{number}@{host}:{port}" for number, host in hosts.items())
    started: dict[int, subprocess.Popen[str]] = {}
    try:
        for number, host in hosts.items():
            words = ["--node-id", str(number), "--host", host, "--port", str(port), "--cores", "2"]
            words += ["--data", str(tmp_path / str(number)), "--set", f"controller.quorum.voters={voters}"]
            with (tmp_path / f"log{number}").open("ab") as log:
                started[number] = subprocess.Popen(
                    [*PENSTOCK, "start", *words, "--cluster-id", "VGhyZWVNYWNoaW5lcw"],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
        for process in started.values():
            assert process.stdout is not None and process.stdout.readline().startswith("ready ")
        bootstrap = ",".join(f"{host}:{port}" for host in hosts.values())
        checked("topic", "create", "t", "--partitions", "6", "--bootstrap", bootstrap)
        metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics("t", timeout=30)
        for partition in metadata.topics["t"].partitions.values():
            assert sorted(node % 1000 for node in partition.replicas) == [1, 2, 3]
            assert len({node // 1000 for node in partition.replicas}) == 1, "a core replicates with its partners"

        errors: list[object] = []
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
        for number in range(400):
            producer.produce("t", value=str(number), on_delivery=lambda error, _: errors.append(error))
            producer.poll(0.005)
            if number == 200:
                _kill_machine(started[1])
        assert producer.flush(90) == 0
        assert errors == [None] * 400
        remaining = f"{hosts[2]}:{port},{hosts[3]}:{port}"
        values = checked("consume", "t", "--bootstrap", remaining).split()
        assert sorted(map(int, values)) == list(range(400))
        marks = [tmp_path / "1" / name / ".kafka_cleanshutdown" for name in ("", "cores/1")]
        assert not any(mark.exists() for mark in marks), "the machine stopped cleanly"
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.communicate(timeout=90)
