"""Tests of the console with a broker that is killed, a secured cluster, and as a command."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.actions.connection import Connection
from penstock.testing.process import BrokerProcess
from penstock_console.limits import STREAMS_MAX
from penstock_console.settings import ClusterSettings, ConsoleSettings
from tests.support.console import NOWHERE, Browser, ConsoleServer, Event, settings_for
from tests.support.eventually import eventually
from tests.support.ports import free_ports

TOPIC = "orders"


def produce(bootstrap: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(TOPIC, value)
    assert producer.flush(60) == 0


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(60)
        yield broker


def rows_of(events: Iterator[Event]) -> list[str]:
    """Return the values of the next event with rows; skip the others."""
    for event in events:
        assert event.name != "failed", event.data
        if event.name == "rows" and event.data["rows"]:
            return [row["value"]["text"] for row in event.data["rows"]]
    raise AssertionError("the stream ended")


def test_a_tail_survives_the_death_of_the_broker(broker: BrokerProcess) -> None:
    with ConsoleServer(settings_for(broker.bootstrap)) as browser:
        with browser.events(f"topics/{TOPIC}/records/tail") as events:
            assert next(events).data["rows"] == []
            produce(broker.bootstrap, "before")
            assert rows_of(events) == ["before"]
            broker.kill()
            assert next(event for event in events if event.name == "problem").data["message"]
            answer = browser.get(f"/api/c/local/topics/{TOPIC}/records")
            assert (answer.status, answer.code) == (502, "CONNECTION_REFUSED")
            broker.start()
            produce(broker.bootstrap, "after")
            assert rows_of(events) == ["after"]
        eventually(lambda: browser.get("/api/c/local/overview").status == 200)


def test_a_console_starts_before_its_cluster_and_finds_it_later() -> None:
    (port,) = free_ports(1)
    with ConsoleServer(settings_for(f"127.0.0.1:{port}")) as browser:
        assert browser.get("/api/c/local/overview").status == 502
        with BrokerProcess(port=port) as broker:
            assert browser.get("/api/c/local/overview").status == 200
            assert broker.is_running


def test_of_200_tails_as_many_as_allowed_are_served_and_the_others_refused(broker: BrokerProcess) -> None:
    with ConsoleServer(settings_for(broker.bootstrap)) as browser, ExitStack() as stack:
        head = f"GET /api/c/local/topics/{TOPIC}/records/tail HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        tails = [stack.enter_context(socket.create_connection(("127.0.0.1", browser.port))) for _ in range(200)]
        for tail in tails:
            tail.settimeout(60)
            tail.sendall(head)
        answers = [tail.recv(100).split(b" ")[1] for tail in tails]
        assert Counter(answers) == {b"200": STREAMS_MAX, b"429": 200 - STREAMS_MAX}
        assert browser.get("/api/c/local/topics").status == 200
        stack.close()

        def is_served() -> bool:
            with socket.create_connection(("127.0.0.1", browser.port), timeout=60) as tail:
                tail.sendall(head)
                return tail.recv(100).split(b" ")[1] == b"200"

        eventually(is_served, what="a tail after the others are closed")


def test_several_clusters_are_served(broker: BrokerProcess) -> None:
    clusters = {
        name: ClusterSettings(name=name, connection=Connection(address))
        for name, address in (("one", broker.bootstrap), ("two", NOWHERE))
    }
    with ConsoleServer(ConsoleSettings(clusters=clusters, port=0)) as browser:
        assert [each["name"] for each in browser.get("/api/session").json["clusters"]] == ["one", "two"]
        assert b'<div id="app">' in browser.get("/").body
        assert browser.get("/api/c/one/topics").json["total"] == 1
        assert browser.get("/api/c/two/topics").status == 502


# -- as a command ----------------------------------------------------------------------------


@contextmanager
def command(*words: str, pattern: str) -> Iterator[tuple[Browser, "subprocess.Popen[str]"]]:
    """Run a command until the end of the context; yield a client of the console whose address it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", *words, "--stop-at-eof"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        for line in process.stdout:
            if found := re.search(pattern, line):
                break
        else:
            raise AssertionError("no address was printed")
        yield Browser(int(found[1])), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        process.wait(60)
        process.stdout.close()
        process.stdin.close()


def test_the_command_prints_its_address_and_stops_at_a_signal(broker: BrokerProcess, tmp_path: Path) -> None:
    words = ("console", "--bootstrap", broker.bootstrap, "--port", "0", "--history", str(tmp_path / "history"))
    with command(*words, pattern=r"console http://127.0.0.1:(\d+)/") as (browser, process):
        eventually(lambda: browser.get("/api/session").status == 200)
        assert browser.get("/api/c/local/topics").json["total"] == 1
    assert process.returncode in (0, -signal.SIGTERM)
    assert (tmp_path / "history").exists()


def test_a_broker_starts_its_console_and_stops_it(tmp_path: Path) -> None:
    (port, console_port) = free_ports(2)
    words = ("start", "--data", str(tmp_path), "--port", str(port), "--console", "--console-port", str(console_port))
    with command(*words, pattern=r"console http://127.0.0.1:(\d+)/") as (browser, _):
        assert browser.port == console_port
        eventually(lambda: _answers(browser))
        assert browser.get("/api/c/local/overview").json["nodes"][0]["node"] == 1
    eventually(lambda: not _answers(browser))


def test_a_broker_names_the_used_port_of_its_console_and_runs_without_it(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as used:
        taken = used.getsockname()[1]
        words = ("start", "--data", str(tmp_path), "--port", str(port), "--console", "--console-port", str(taken))
        pattern = r"the broker runs without its console: cannot listen on 127.0.0.1:(\d+); pass another --console-port"
        with command(*words, pattern=pattern) as (browser, _):
            assert browser.port == taken
            assert AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=60).brokers


def _answers(browser: Browser) -> bool:
    try:
        return browser.get("/api/session").status == 200
    except OSError:
        return False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--allow", "everything"), "Invalid --allow 'everything'"),
        (("--mask", "orders"), "Invalid --mask 'orders'"),
        (("--mask", "orders:card"), "Invalid path 'card'"),
        (("--cluster", "x"), "Invalid --cluster 'x'"),
        (("--cluster", "a/b=localhost:1"), "Invalid cluster name 'a/b'"),
        (("--login",), "--login needs a cluster with SASL"),
        (("--history", "/nothing/here"), "Cannot use the history file"),
        (("--host", "203.0.113.1"), "Cannot listen on 203.0.113.1"),
    ],
)
def test_a_mistake_on_the_command_line_is_explained(words: tuple[str, ...], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", "console", "--bootstrap", NOWHERE, "--port", "0", *words],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env=os.environ,
    )
    assert done.returncode == 1
    assert message in done.stderr


# -- login -----------------------------------------------------------------------------------


def test_users_log_in_with_their_password_and_their_acls_decide(tmp_path: Path) -> None:
    (port, console_port) = free_ports(2)
    data = tmp_path / "data"
    words = (
        "start",
        "--data",
        str(data),
        "--port",
        str(port),
        "--secure",
        "--console",
        "--console-port",
        str(console_port),
    )
    with command(*words, pattern=r"console http://127.0.0.1:(\d+)/") as (browser, _):
        eventually(lambda: _answers(browser))
        password = _password(data)
        answer = browser.get("/api/c/local/topics")
        assert (answer.status, answer.code) == (401, "LOGIN_REQUIRED")
        answer = browser.log_in("admin", "wrong")
        assert (answer.status, answer.code) == (401, "LOGIN_FAILED")
        answer = browser.log_in("admin", password)
        assert answer.status == 200
        assert "HttpOnly" in answer.headers["set-cookie"] and "SameSite=strict" in answer.headers["set-cookie"]
        assert password not in answer.body.decode()
        browser.change("topic.create", topic=TOPIC, partitions=1)
        browser.change("records.produce", topic=TOPIC, value="secret")
        browser.change("user.add", user="alice", password="alice-secret")
        rule = {"principal": "alice", "permission": "allow", "operation": "describe", "resource": f"topic:{TOPIC}"}
        browser.change("acl.add", acls=[{**rule, "host": "*"}])
        checked = browser.read("acls/check", principal="alice", operation="read", resource=f"topic:{TOPIC}")
        assert not checked["allowed"] and "penstock acl allow alice read" in checked["add"]["command"]
        other = Browser(browser.port)
        assert other.log_in("alice", "alice-secret").status == 200
        assert [row["topic"] for row in other.read("topics")["topics"]] == [TOPIC]
        # She may see the topic, but neither read nor delete it.
        answer = other.get(f"/api/c/local/topics/{TOPIC}/records")
        assert answer.status == 403 and b"secret" not in answer.body
        plan = other.plan("topic.delete", topic=TOPIC)
        assert other.execute(plan).status == 403
        # A plan of one user is not for another.
        assert browser.execute(other.plan("topic.delete", topic=TOPIC)).status == 409
        assert other.post("/api/logout", {}).status == 200
        assert other.get("/api/c/local/topics").status == 401


def _password(data: Path) -> str:
    for path in data.rglob("*.properties"):
        if found := re.search(r"""(?:sasl\.password=|password=")([^"\s;]+)""", path.read_text()):
            return found[1]
    raise AssertionError("no client properties were written")


def test_the_audit_log_is_json_on_standard_error(broker: BrokerProcess) -> None:
    words = ("console", "--bootstrap", broker.bootstrap, "--port", "0")
    with command(*words, pattern=r"console http://127.0.0.1:(\d+)/") as (browser, process):
        eventually(lambda: _answers(browser))
        browser.change("records.produce", topic=TOPIC, value="x\n\x1b[31m")
        assert process.stdout is not None
        line = next(line for line in process.stdout if '"audit"' in line)
    found = json.loads(line)
    assert (found["audit"], found["cluster"], found["address"]) == ("records.produce", "local", "127.0.0.1")
    assert found["outcome"] == f"Wrote 1 record to {TOPIC}."
