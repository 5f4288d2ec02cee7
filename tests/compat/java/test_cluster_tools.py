"""Tests of Kafka's command-line tools on three nodes while coordinators and leaders move."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.coordinator.keys import partition_of
from tests.support.eventually import eventually
from tests.support.java_tools import JavaTools
from tests.support.penstock_cluster import PenstockCluster
from tests.support.sharing import Sharing
from tests.support.topic_metadata import cluster_metadata

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools."
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"
SHARDS = 3


class Shell:
    def __init__(self, tools: JavaTools, cluster: PenstockCluster) -> None:
        self.tools = tools
        self.cluster = cluster

    def __call__(self, tool: str, *arguments: str) -> str:
        """Run a tool that must succeed, with every node in its bootstrap list."""
        name = tool if "." in tool[:12] else TOOLS + tool
        return self.tools.check(name, "--bootstrap-server", self.cluster.bootstrap, *arguments)

    def at(self, node: int, tool: str, *arguments: str) -> str:
        """Run a tool through one node."""
        name = tool if "." in tool[:12] else TOOLS + tool
        return self.tools.check(name, "--bootstrap-server", self.cluster.address(node), *arguments)

    def leader(self, topic: str, index: int = 0) -> str:
        out = self("TopicCommand", "--describe", "--topic", topic)
        return str(re.findall(r"Leader: (\S+)", out)[index])


def three_nodes() -> PenstockCluster:
    return PenstockCluster(properties={"offsets.topic.num.partitions": str(SHARDS)})


@pytest.fixture
def cluster(sharing: Sharing) -> PenstockCluster:
    return sharing.of(three_nodes)


@pytest.fixture
def shell(tools: JavaTools, cluster: PenstockCluster) -> Shell:
    return Shell(tools, cluster)


def send(cluster: PenstockCluster, topic: str, count: int, *, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=partition)
    assert producer.flush(60) == 0


def coordinator(cluster: PenstockCluster, group: str) -> int:
    topic = cluster_metadata(AdminClient({"bootstrap.servers": cluster.bootstrap}), "__consumer_offsets")
    return int(topic.topics["__consumer_offsets"].partitions[partition_of(group, SHARDS)].leader)


def test_a_group_is_described_and_reset_when_its_coordinator_is_killed(shell: Shell) -> None:
    cluster = shell.cluster
    shell("TopicCommand", "--create", "--topic", "followed", "--partitions", "1", "--replication-factor", "3")
    send(cluster, "followed", 10)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "followers"})
    consumer.commit(offsets=[TopicPartition("followed", 0, 7)], asynchronous=False)
    consumer.close()
    node = coordinator(cluster, "followers")
    cluster.kill(node)
    described = shell(GROUPS, "--describe", "--group", "followers")
    row = next(line.split() for line in described.splitlines() if " 7 " in line)
    assert row[:6] == ["followers", "followed", "0", "7", "10", "3"]
    assert "followers" in shell(GROUPS, "--list").split()
    assert "Empty" in shell(GROUPS, "--describe", "--state", "--group", "followers")
    to = ("--reset-offsets", "--group", "followers", "--topic", "followed", "--to-earliest", "--execute")
    assert "followed" in shell(GROUPS, *to)
    cluster.restart(node)
    eventually(lambda: "0 " in shell(GROUPS, "--describe", "--group", "followers"))
    shell(GROUPS, "--delete", "--group", "followers")


def test_every_node_changes_topics_and_settings_for_all(shell: Shell) -> None:
    ids = shell.cluster.ids
    for node in ids:
        topic = f"made.by.{node}"
        shell.at(node, "TopicCommand", "--create", "--topic", topic, "--partitions", "2")
        for other in ids:
            assert "ReplicationFactor: 3" in shell.at(other, "TopicCommand", "--describe", "--topic", topic)
        shell.at(node, CONFIGS, "--alter", "--topic", topic, "--add-config", "retention.ms=1234")
        shell.at(node, "TopicCommand", "--alter", "--topic", topic, "--partitions", "4")
        for other in ids:
            assert "retention.ms=1234" in shell.at(other, CONFIGS, "--describe", "--topic", topic)
            assert "PartitionCount: 4" in shell.at(other, "TopicCommand", "--describe", "--topic", topic)
        shell.at(ids[node % len(ids)], "TopicCommand", "--delete", "--topic", topic)
        for other in ids:
            assert topic not in shell.at(other, "TopicCommand", "--list").split()
    broker = ("--entity-type", "brokers", "--entity-name", "2")
    shell.at(1, CONFIGS, "--alter", *broker, "--add-config", "leader.replication.throttled.rate=1000000")
    assert "leader.replication.throttled.rate=1000000" in shell.at(3, CONFIGS, "--describe", *broker)
    shell.at(3, CONFIGS, "--alter", *broker, "--delete-config", "leader.replication.throttled.rate")
    assert "throttled" not in shell.at(2, CONFIGS, "--describe", *broker)


def test_records_are_deleted_and_sized_on_every_replica(shell: Shell, tmp_path: Path) -> None:
    shell("TopicCommand", "--create", "--topic", "trimmed", "--partitions", "1")
    send(shell.cluster, "trimmed", 20)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "trimmed", "partition": 0, "offset": 12}]}))
    assert "low_watermark: 12" in shell("DeleteRecordsCommand", "--offset-json-file", str(plan))
    described = json.loads(shell("LogDirsCommand", "--describe", "--topic-list", "trimmed").splitlines()[-1])
    sizes = {
        broker["broker"]: [each["size"] for folder in broker["logDirs"] for each in folder["partitions"]]
        for broker in described["brokers"]
    }
    assert sizes.keys() == {1, 2, 3}
    assert all(len(each) == 1 for each in sizes.values()), sizes


def test_a_leader_that_lacks_records_is_elected_only_by_an_unclean_election(shell: Shell) -> None:
    cluster = shell.cluster
    settings = ("--config", "min.insync.replicas=1")
    shell("TopicCommand", "--create", "--topic", "torn", "--replica-assignment", "2:3", *settings)
    cluster.kill(3)
    eventually(lambda: re.search(r"Isr: 2\b(?!,)", shell("TopicCommand", "--describe", "--topic", "torn")) is not None)
    send(cluster, "torn", 5)
    cluster.kill(2)
    cluster.restart(3)
    eventually(lambda: shell.leader("torn") == "none")
    one = ("--topic", "torn", "--partition", "0")
    done = shell("LeaderElectionCommand", "--election-type", "unclean", *one)
    assert "Successfully completed leader election (UNCLEAN)" in done
    assert shell.leader("torn") == "3"
    cluster.restart(2)
    eventually(lambda: "Isr: 3,2" in shell("TopicCommand", "--describe", "--topic", "torn"))


def test_transactions_and_nodes_are_listed_from_anywhere(shell: Shell) -> None:
    shell("TopicCommand", "--create", "--topic", "paid", "--partitions", "1", "--replication-factor", "3")
    send(shell.cluster, "paid", 20)
    producer = Producer({"bootstrap.servers": shell.cluster.bootstrap, "transactional.id": "payer"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("paid", b"open")
    producer.flush(60)
    for node in shell.cluster.ids:
        assert re.search(r"payer\s+\d+\s+\d+\s+Ongoing", shell.at(node, "TransactionsCommand", "list"))
        described = shell.at(node, "TransactionsCommand", "describe", "--transactional-id", "payer")
        assert "paid-0" in described
        assert "metadata.version" in shell.at(node, "FeatureCommand", "describe")
    leader = shell.leader("paid")
    where = ("--topic", "paid", "--partition", "0")
    open_ones = shell("TransactionsCommand", "describe-producers", *where)
    assert re.search(r"^\d+\s+\d+\s+-1\s+0\s+\d+\s+20\b", open_ones, re.MULTILINE), open_ones
    shell("TransactionsCommand", "find-hanging", "--broker-id", leader)
    producer.abort_transaction(60)
