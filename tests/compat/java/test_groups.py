"""Tests of kafka-consumer-groups, kafka-groups and the Java consumer, in both protocols."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.compat.conftest import MakeTopic
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


class Shell:
    def __init__(self, tools: JavaTools, bootstrap: str) -> None:
        self._tools = tools
        self.bootstrap = bootstrap

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> str:
        return self._tools.check(tool, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin)

    def output(self, tool: str, *arguments: str) -> str:
        """Return all output of a tool, which exits with code 0 in any case."""
        return self._tools.run(tool, "--bootstrap-server", self.bootstrap, *arguments).text

    def produce(self, topic: str, count: int) -> None:
        self(CONSOLE_PRODUCER, "--topic", topic, stdin="".join(f"line {number}\n" for number in range(count)))

    def read(self, topic: str, group: str, count: int, protocol: str) -> list[str]:
        """Read with the Java consumer, which commits when it closes."""
        limits = ("--max-messages", str(count), "--timeout-ms", "60000")
        how = ("--from-beginning", "--command-property", f"group.protocol={protocol}")
        return self(CONSOLE_CONSUMER, "--topic", topic, "--group", group, *limits, *how).splitlines()

    def rows(self, *arguments: str) -> list[list[str]]:
        """Return a table of kafka-consumer-groups as cells, without the notes above it."""
        lines = [line.split() for line in self(GROUPS, *arguments).splitlines() if line.strip()]
        head = next(index for index, line in enumerate(lines) if line[0] == "GROUP")
        return lines[head + 1 :]


@pytest.fixture
def shell(tools: JavaTools, bootstrap: str) -> Shell:
    return Shell(tools, bootstrap)


@contextmanager
def member(bootstrap: str, topic: str, group: str, protocol: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "a-client",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_S
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    try:
        yield consumer
    finally:
        consumer.close()


@both_protocols
def test_the_java_consumer_commits_and_resumes(shell: Shell, make_topic: MakeTopic, protocol: str) -> None:
    topic = make_topic()
    group = f"{topic}-group"
    shell.produce(topic, 10)
    assert shell.read(topic, group, 4, protocol) == [f"line {number}" for number in range(4)]
    assert shell.read(topic, group, 6, protocol) == [f"line {number}" for number in range(4, 10)]
    (row,) = shell.rows("--describe", "--group", group)
    assert row[:6] == [group, topic, "0", "10", "10", "0"]


@both_protocols
def test_kafka_consumer_groups_lists_and_describes(shell: Shell, make_topic: MakeTopic, protocol: str) -> None:
    topic = make_topic(partitions=2)
    group = f"{topic}-group"
    shell.produce(topic, 10)
    with member(shell.bootstrap, topic, group, protocol):
        assert group in shell(GROUPS, "--list").split()
        states = {row[0]: row[1:] for row in shell.rows("--list", "--state", "--type")}
        assert [word.lower() for word in states[group]] == [protocol, "stable"]
        members = shell.rows("--describe", "--group", group, "--members", "--verbose")
        assert [row[0] for row in members] == [group]
        assert "/127.0.0.1" in members[0] and "a-client" in members[0] and f"{topic}:0,1" in " ".join(members[0])
        (state,) = shell.rows("--describe", "--group", group, "--state")
        assert "Stable" in state
        assert group not in shell(GROUPS, "--list", "--state", "Empty").split()
        offsets = shell.rows("--describe", "--group", group, "--offsets")
        assert {row[2] for row in offsets} == {"0", "1"}
        assert "GroupNotEmptyException" in shell.output(GROUPS, "--delete", "--group", group)


@both_protocols
def test_kafka_consumer_groups_resets_offsets_and_deletes(
    shell: Shell, make_topic: MakeTopic, tmp_path: Path, protocol: str
) -> None:
    topic = make_topic()
    group = f"{topic}-group"
    shell.produce(topic, 10)
    shell.read(topic, group, 10, protocol)
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,6\n")
    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    assert shell.rows(*reset, "--to-offset", "3", "--dry-run") == [[group, topic, "0", "3"]]
    assert shell.rows("--describe", "--group", group)[0][3] == "10"
    for how, offset in (
        (("--to-offset", "3"), "3"),
        (("--shift-by", "2"), "5"),
        (("--shift-by", "-1"), "4"),
        (("--to-current",), "4"),
        (("--from-file", str(plan)), "6"),
        (("--to-earliest",), "0"),
        (("--to-latest",), "10"),
        (("--to-datetime", "2020-01-01T00:00:00.000"), "0"),
        (("--by-duration", "PT1H"), "0"),
    ):
        assert shell.rows(*reset, *how, "--execute") == [[group, topic, "0", offset]]
        assert shell.rows("--describe", "--group", group)[0][3] == offset
    exported = shell(GROUPS, *reset, "--to-earliest", "--dry-run", "--export")
    assert exported.strip().replace('"', "") == f"{topic},0,0"
    assert shell.read(topic, group, 10, protocol)[0] == "line 0"
    assert "Request succeeded" in shell(GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    assert topic not in shell(GROUPS, "--describe", "--group", group, "--offsets")
    assert "was successful" in shell(GROUPS, "--delete", "--group", group)
    eventually(lambda: group not in shell(GROUPS, "--list").split())
    assert f"Group {group} not found." in shell.output(GROUPS, "--describe", "--group", group)


def test_kafka_configs_sets_a_groups_session(shell: Shell, make_topic: MakeTopic) -> None:
    group = f"{make_topic()}-group"
    entity = ("--entity-type", "groups", "--entity-name", group)
    shell("kafka.admin.ConfigCommand", "--alter", *entity, "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in shell("kafka.admin.ConfigCommand", "--describe", *entity)


def test_the_latency_tool_completes(tools: JavaTools, bootstrap: str, make_topic: MakeTopic) -> None:
    sizes = ("--num-records", "50", "--producer-acks", "all", "--record-size", "100")
    output = tools.check(
        "org.apache.kafka.tools.EndToEndLatency",
        "--bootstrap-server",
        bootstrap,
        "--topic",
        make_topic(),
        *sizes,
    )
    assert "Avg latency" in output


@both_protocols
def test_the_consumer_performance_tool_reads_in_a_group(
    tools: JavaTools, shell: Shell, make_topic: MakeTopic, tmp_path: Path, protocol: str
) -> None:
    topic = make_topic(partitions=2)
    shell.produce(topic, 2000)
    settings = tmp_path / "consumer.properties"
    settings.write_text(f"group.protocol={protocol}\n")
    group = f"{topic}-group"
    output = tools.check(
        "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", shell.bootstrap, "--topic", topic,
        "--num-records", "2000", "--group", group, "--command-config", str(settings), "--hide-header",
        "--timeout", "60000",
    )  # fmt: skip
    assert " 2000," in output
    assert sum(int(row[3]) for row in shell.rows("--describe", "--group", group)) == 2000


@both_protocols
def test_one_of_several_topics_is_reset_partition_by_partition(
    shell: Shell, make_topic: MakeTopic, protocol: str
) -> None:
    one, other = make_topic(partitions=2), make_topic()
    group = f"{one}-group"
    shell.produce(one, 10)
    shell.produce(other, 10)
    with member(shell.bootstrap, one, group, protocol):
        refused = shell.output(
            GROUPS, "--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute"
        )
        assert "inactive" in refused
    where = ("--topic", f"{one}:1", "--topic", other)
    rows = shell.rows("--reset-offsets", "--group", group, *where, "--to-offset", "0", "--execute")
    assert sorted(row[1:] for row in rows) == sorted([[one, "1", "0"], [other, "0", "0"]])
    assert {(row[1], row[2]) for row in shell.rows("--describe", "--group", group, "--offsets")} >= {
        (one, "1"),
        (other, "0"),
    }
