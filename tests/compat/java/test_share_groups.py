"""Tests of the Java share consumer 4.3, with the checks of ShareCheck.java, and of Kafka's share tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from tests.support.eventually import eventually
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE_SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE_SHARE_CONSUMER = "org.apache.kafka.tools.VerifiableShareConsumer"
SHARE_PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
CONFIGS = "kafka.admin.ConfigCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"

_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.share.min.record.lock.duration.ms": "1000"}) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"shared-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1)])[name].result()
    return name


@pytest.mark.parametrize(
    "check", ["implicit", "explicit", "shared", "expiry", "renew", "limit", "close", "transactions"]
)
def test_the_java_share_consumer_passes(tools: JavaTools, broker: Broker, topic: str, check: str) -> None:
    tools.check("ShareCheck", check, broker.bootstrap, topic)


class Shell:
    def __init__(self, tools: JavaTools, bootstrap: str) -> None:
        self._tools = tools
        self._bootstrap = bootstrap

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> str:
        result = self._tools.run(tool, "--bootstrap-server", self._bootstrap, *arguments, stdin=stdin)
        return result.out + result.err

    def start_at_the_beginning(self, group: str) -> None:
        change = ("--alter", "--add-config", "share.auto.offset.reset=earliest")
        self(CONFIGS, "--entity-type", "groups", "--entity-name", group, *change)

    def produce(self, topic: str, number: int) -> None:
        self(CONSOLE_PRODUCER, "--topic", topic, stdin="".join(f"line {index}\n" for index in range(number)))

    def read(self, topic: str, group: str, number: int) -> list[str]:
        limits = ("--max-messages", str(number), "--timeout-ms", "60000")
        return self(CONSOLE_SHARE_CONSUMER, "--topic", topic, "--group", group, *limits).splitlines()


@pytest.fixture
def shell(tools: JavaTools, broker: Broker) -> Shell:
    return Shell(tools, broker.bootstrap)


def test_the_console_share_consumer_reads_and_the_group_command_shows_it(
    shell: Shell, broker: Broker, topic: str
) -> None:
    group = f"group-{topic}"
    shell.start_at_the_beginning(group)
    shell.produce(topic, 5)
    lines = shell.read(topic, group, 5)
    assert [line for line in lines if line.startswith("line")] == [f"line {index}" for index in range(5)]
    assert group in shell(SHARE_GROUPS, "--list").split()
    described = shell(SHARE_GROUPS, "--describe", "--group", group, "--state")
    assert "Empty" in described
    eventually(lambda: _offsets(shell, group, topic) == ("5", "0"))


def _offsets(shell: Shell, group: str, topic: str) -> tuple[str, str] | None:
    """Return the start offset and the lag of partition 0."""
    for line in shell(SHARE_GROUPS, "--describe", "--group", group, "--offsets").splitlines():
        cells = line.split()
        if cells[:3] == [group, topic, "0"]:
            return cells[3], cells[4]
    return None


def test_offsets_are_reset_and_deleted(shell: Shell, topic: str) -> None:
    group = f"group-{topic}"
    shell.start_at_the_beginning(group)
    shell.produce(topic, 5)
    shell.read(topic, group, 5)
    reset = shell(SHARE_GROUPS, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert topic in reset and "Error" not in reset, reset
    assert [line for line in shell.read(topic, group, 5) if line.startswith("line")] == [f"line {n}" for n in range(5)]
    deleted = shell(SHARE_GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" in deleted, deleted
    gone = shell(SHARE_GROUPS, "--delete", "--group", group)
    assert "successful" in gone, gone
    assert group not in shell(SHARE_GROUPS, "--list").split()


def test_the_state_log_is_decoded(tools: JavaTools, shell: Shell, broker: Broker, topic: str) -> None:
    group = f"group-{topic}"
    shell.start_at_the_beginning(group)
    shell.produce(topic, 3)
    shell.read(topic, group, 3)
    segments = [path for path in broker.data.glob("__share_group_state-*/*.log") if path.stat().st_size]
    decoded = "".join(
        tools.check(DUMP_LOG, "--share-group-state-decoder", "--files", str(segment)) for segment in segments
    )
    assert f'"groupId":"{group}"' in decoded
    assert '"startOffset":3' in decoded


def test_the_verifiable_share_consumer_acknowledges_everything(shell: Shell, topic: str) -> None:
    shell.produce(topic, 50)
    limits = ("--max-messages", "50", "--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest")
    printed = shell(VERIFIABLE_SHARE_CONSUMER, "--topic", topic, "--group-id", f"group-{topic}", *limits)
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert all(event["success"] for event in acknowledged)
    assert sum(event["count"] for event in acknowledged) == 50
    assert events[-1]["name"] == "shutdown_complete"


def test_the_performance_tool_reads_everything(shell: Shell, topic: str) -> None:
    group = f"group-{topic}"
    shell.start_at_the_beginning(group)
    shell.produce(topic, 2000)
    printed = shell(SHARE_PERFORMANCE, "--topic", topic, "--group", group, "--num-records", "2000", "--threads", "2")
    header, *rows = [line.split(", ") for line in printed.splitlines() if ", " in line]
    assert int(float(rows[0][[name.strip() for name in header].index("data.consumed.in.nMsg")])) == 2000, printed


def test_only_streams_is_missing_from_the_features_of_the_release(shell: Shell) -> None:
    printed = shell(FEATURES, "upgrade", "--release-version", "4.3", "--dry-run")
    problems = [line for line in printed.splitlines() if "Could not" in line or "can not" in line.lower()]
    assert problems and all("streams.version" in line for line in problems), printed


def test_the_feature_is_finalised(shell: Shell) -> None:
    described = shell(FEATURES, "describe")
    line = next(line.split() for line in described.splitlines() if "share.version" in line)
    assert line[1:8] == ["share.version", "SupportedMinVersion:", "0", "SupportedMaxVersion:", "1", *line[6:7], "1"]
