"""Tests of Kafka's command-line tools, called as from a shell."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest

from tests.compat.conftest import MakeTopic
from tests.support.eventually import eventually
from tests.support.java_tools import JavaTools, ToolResult

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools."
CONFIGS = "kafka.admin.ConfigCommand"


class Shell:
    """The tools, with `--bootstrap-server` filled in."""

    def __init__(self, tools: JavaTools, bootstrap: str) -> None:
        self.tools = tools
        self.server = ("--bootstrap-server", bootstrap)

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> str:
        return self.tools.check(tool if "." in tool[:12] else TOOLS + tool, *self.server, *arguments, stdin=stdin)

    def refused(self, tool: str, *arguments: str) -> ToolResult:
        result = self.tools.run(TOOLS + tool, *self.server, *arguments)
        assert result.code != 0, result.text
        return result

    def produce(self, topic: str, lines: str, *arguments: str) -> None:
        self("ConsoleProducer", "--topic", topic, *arguments, stdin=lines)

    def consume(self, topic: str, count: int, *arguments: str, offset: str = "earliest", partition: int = 0) -> str:
        where = ("--topic", topic, "--partition", str(partition), "--offset", offset)
        limits = ("--max-messages", str(count), "--timeout-ms", "60000")
        return self(TOOLS + "consumer.ConsoleConsumer", *where, *limits, *arguments)


@pytest.fixture
def shell(tools: JavaTools, bootstrap: str) -> Shell:
    return Shell(tools, bootstrap)


def test_kafka_topics_creates_extends_describes_and_deletes(shell: Shell) -> None:
    topic = f"shell-{time.time_ns()}"
    create = ("--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=5000000")
    assert f"Created topic {topic}." in shell("TopicCommand", *create)
    assert "already exists" in shell.refused("TopicCommand", "--create", "--topic", topic).out
    shell("TopicCommand", *create, "--if-not-exists")
    shell("TopicCommand", "--alter", "--topic", topic, "--partitions", "3")
    eventually(lambda: "PartitionCount: 3" in shell("TopicCommand", "--describe", "--topic", topic))
    described = shell("TopicCommand", "--describe", "--topic", topic)
    assert "retention.ms=5000000" in described
    assert "Partition: 2\tLeader: 1\tReplicas: 1\tIsr: 1" in described
    assert topic in shell("TopicCommand", "--list").splitlines()
    assert shell("TopicCommand", "--describe", "--under-replicated-partitions").strip() == ""
    shell("TopicCommand", "--delete", "--topic", topic)
    eventually(lambda: topic not in shell("TopicCommand", "--list").splitlines())
    assert "does not exist" in shell.refused("TopicCommand", "--describe", "--topic", topic).out


def test_kafka_configs_changes_topics(shell: Shell, make_topic: MakeTopic) -> None:
    topic = make_topic()
    entity = ("--entity-type", "topics", "--entity-name", topic)

    def described() -> str:
        return shell(CONFIGS, "--describe", *entity)

    shell(CONFIGS, "--alter", *entity, "--add-config", "segment.ms=70000,cleanup.policy=[compact,delete]")
    eventually(lambda: "segment.ms=70000" in described())
    assert "cleanup.policy=compact,delete" in described()
    assert "DYNAMIC_TOPIC_CONFIG:segment.ms=70000" in described()
    shell(CONFIGS, "--alter", *entity, "--delete-config", "segment.ms")
    eventually(lambda: "segment.ms" not in described())
    everything = shell(CONFIGS, "--describe", "--all", *entity)
    assert "synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}" in everything


def test_kafka_configs_changes_brokers(shell: Shell) -> None:
    default = ("--entity-type", "brokers", "--entity-default")
    one = ("--entity-type", "brokers", "--entity-name", "1")
    shell(CONFIGS, "--alter", *default, "--add-config", "log.retention.ms=777777777")
    eventually(lambda: "log.retention.ms=777777777" in shell(CONFIGS, "--describe", *default))
    shell(CONFIGS, "--alter", *one, "--add-config", "log.retention.ms=888888888")
    eventually(lambda: "DYNAMIC_BROKER_CONFIG:log.retention.ms=888888888" in shell(CONFIGS, "--describe", *one))
    shell(CONFIGS, "--alter", *one, "--delete-config", "log.retention.ms")
    shell(CONFIGS, "--alter", *default, "--delete-config", "log.retention.ms")
    eventually(lambda: "log.retention.ms" not in shell(CONFIGS, "--describe", *default))
    assert "log.dirs=" in shell(CONFIGS, "--describe", "--all", *one)


def test_console_producer_and_consumer_pass_lines_keys_and_headers(shell: Shell, make_topic: MakeTopic) -> None:
    topic = make_topic()
    parse = [f"--reader-property={name}" for name in ("parse.key=true", "key.separator=:", "parse.headers=true")]
    shell.produce(topic, "a:1,b:2\tk1:v1\nh:3\tk2:v2\n", *parse)
    printing = [f"--formatter-property=print.{name}=true" for name in ("key", "headers", "offset", "partition")]
    got = shell.consume(topic, 2, *printing)
    assert got.splitlines() == ["Partition:0\tOffset:0\ta:1,b:2\tk1\tv1", "Partition:0\tOffset:1\th:3\tk2\tv2"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_console_consumer_starts_at_an_offset_inside_a_batch(shell: Shell, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    shell.produce(topic, "".join(f"line {n}\n" for n in range(20)), f"--compression-codec={codec}")
    assert shell.consume(topic, 2, offset="17").splitlines() == ["line 17", "line 18"]


def test_kafka_get_offsets_prints_ends_starts_and_times(shell: Shell, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    shell.produce(topic, "one\ntwo\nthree\n", "--command-property=partitioner.ignore.keys=true", "--batch-size=1000")
    lines = shell("GetOffsetShell", "--topic", topic).split()
    assert sum(int(line.split(":")[2]) for line in lines) == 3
    assert shell("GetOffsetShell", "--topic", topic, "--time", "earliest").split() == [f"{topic}:0:0", f"{topic}:1:0"]
    for spec in ("latest", "max-timestamp", "earliest-local", "-1", "1000"):
        assert topic in shell("GetOffsetShell", "--topic", topic, "--time", spec)
    assert shell("GetOffsetShell", "--topic", topic, "--time", "latest-tiered") == "", "nothing is tiered"


def test_kafka_delete_records_moves_the_log_start_offset(shell: Shell, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic()
    shell.produce(topic, "".join(f"{n}\n" for n in range(10)))
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}))
    assert "low_watermark: 4" in shell("DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert shell("GetOffsetShell", "--topic", topic, "--time", "earliest").strip() == f"{topic}:0:4"
    assert shell.consume(topic, 1).strip() == "4"


def test_kafka_log_dirs_prints_sizes(shell: Shell, make_topic: MakeTopic) -> None:
    topic = make_topic()
    shell.produce(topic, "x" * 500 + "\n")
    answer = shell("LogDirsCommand", "--describe", "--topic-list", topic).splitlines()[-1]
    (broker,) = json.loads(answer)["brokers"]
    (partition,) = broker["logDirs"][0]["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 500
    assert broker["logDirs"][0]["error"] is None


def test_kafka_broker_api_versions_lists_what_clients_need(shell: Shell) -> None:
    listed = shell("BrokerApiVersionsCommand")
    for line in (
        "Produce(0): 0 to 13 [usable: 13]",
        "Fetch(1): 4 to 18 [usable: 18]",
        "Metadata(3): 0 to 13 [usable: 13]",
        "ApiVersions(18): 0 to 4 [usable: 4]",
        "DescribeTopicPartitions(75): 0 [usable: 0]",
    ):
        assert line in listed


def test_kafka_cluster_and_kafka_features_describe_the_node(tools: JavaTools, shell: Shell) -> None:
    assert "Cluster ID: " in tools.check(TOOLS + "ClusterTool", "cluster-id", *shell.server)
    assert "unfenced" in tools.check(TOOLS + "ClusterTool", "list-endpoints", *shell.server)
    assert "metadata.version" in shell("FeatureCommand", "describe")
    assert f'"endpoints": ["PLAINTEXT://{shell.server[1]}"]' in shell("MetadataQuorumCommand", "describe", "--status")


def test_the_perf_tools_complete(tools: JavaTools, shell: Shell, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    rate = ("--num-records", "2000", "--record-size", "100", "--throughput", "-1")
    acks = ("--command-property", f"bootstrap.servers={bootstrap}", "acks=all")
    assert "2000 records sent" in tools.check(TOOLS + "ProducerPerformance", "--topic", topic, *rate, *acks)
    assert shell("GetOffsetShell", "--topic", topic).strip() == f"{topic}:0:2000"


def test_kafka_configs_sets_describes_and_removes_quotas(shell: Shell) -> None:
    entities = {
        ("--entity-type", "clients", "--entity-name", "c1"): "producer_byte_rate=1000000",
        ("--entity-type", "clients", "--entity-default"): "consumer_byte_rate=2000000",
        ("--entity-type", "users", "--entity-name", "u1"): "request_percentage=12.5",
        ("--entity-type", "users", "--entity-name", "u1", "--entity-type", "clients", "--entity-name", "c1"):
            "controller_mutation_rate=5.0",
        ("--entity-type", "ips", "--entity-name", "10.1.2.3"): "connection_creation_rate=100",
    }  # fmt: skip
    for entity, quota in entities.items():
        shell(CONFIGS, "--alter", *entity, "--add-config", quota)

    def described(*entity: str) -> str:
        # For users the tool also requests credentials, after it has printed the quotas.
        return shell(CONFIGS, "--describe", *entity)

    for entity, quota in entities.items():
        eventually(partial(lambda entity, quota: quota in described(*entity), entity, quota))
        shell(CONFIGS, "--alter", *entity, "--delete-config", quota.partition("=")[0])
    eventually(lambda: "request_percentage" not in described("--entity-type", "users"))
    bad = ("--alter", "--entity-type", "clients", "--entity-name", "c1", "--add-config", "producer_byte_rate=0")
    result = shell.tools.run(CONFIGS, *shell.server, *bad)
    assert result.code != 0 and "must be greater than 0" in result.text, result.text


def test_tools_for_disabled_features_report_it(shell: Shell, tmp_path: Path) -> None:
    nothing = tmp_path / "client.properties"
    nothing.touch()
    for words, reason in {
        ("AclCommand", "--list"): "No Authorizer is configured",
        ("AclCommand", "--add", "--allow-principal", "User:a", "--operation", "read", "--topic", "t"): "No Authorizer",
        ("DelegationTokenCommand", "--describe", "--command-config", str(nothing)): "Delegation Token requests are not",
    }.items():
        tool, *arguments = words
        result = shell.tools.run(TOOLS + tool, *shell.server, *arguments)
        assert result.code != 0 and reason in result.text, result.text
