"""Tests of Kafka's command-line tools on three nodes: leaders, reassignments, unregistration."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.eventually import eventually
from tests.support.java_tools import JavaTools, ToolResult
from tests.support.penstock_cluster import PenstockCluster
from tests.support.sharing import Sharing

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools."
REASSIGN = "reassign.ReassignPartitionsCommand"
ELECT = "LeaderElectionCommand"
FOUR = 4


class Shell:
    """The tools, with `--bootstrap-server` filled in."""

    def __init__(self, tools: JavaTools, cluster: PenstockCluster) -> None:
        self._tools = tools
        self.cluster = cluster

    def __call__(self, tool: str, *arguments: str) -> str:
        return self._tools.check(TOOLS + tool, "--bootstrap-server", self.cluster.bootstrap, *arguments)

    def run(self, tool: str, *arguments: str) -> ToolResult:
        return self._tools.run(TOOLS + tool, "--bootstrap-server", self.cluster.bootstrap, *arguments)

    def unregister(self, node: str) -> str:
        where = ("--bootstrap-server", self.cluster.bootstrap)
        return self._tools.check(TOOLS + "ClusterTool", "unregister", *where, "--id", node)

    def describe(self, topic: str, *arguments: str) -> list[dict[str, str]]:
        """Return the rows that kafka-topics prints for the partitions of a topic."""
        out = self("TopicCommand", "--describe", "--topic", topic, *arguments)
        rows = [line for line in out.splitlines() if "Leader:" in line]
        return [dict(re.findall(r"(\w+): (\S*)", row)) for row in rows]

    def leaders(self, topic: str) -> list[str]:
        return [row["Leader"] for row in self.describe(topic)]


def four_nodes() -> PenstockCluster:
    return PenstockCluster(count=FOUR)


@pytest.fixture
def cluster(sharing: Sharing) -> PenstockCluster:
    return sharing.of(four_nodes)


@pytest.fixture
def shell(tools: JavaTools, cluster: PenstockCluster) -> Shell:
    return Shell(tools, cluster)


def written(folder: Path, content: object) -> str:
    file = folder / "plan.json"
    file.write_text(json.dumps(content))
    return str(file)


def test_partitions_are_moved_verified_and_the_move_is_cancelled(shell: Shell, tmp_path: Path) -> None:
    shell("TopicCommand", "--create", "--topic", "moving", "--replica-assignment", "1:2:3,2:3:1")
    assert {row["Replicas"] for row in shell.describe("moving")} == {"1,2,3", "2,3,1"}
    topics = written(tmp_path, {"version": 1, "topics": [{"topic": "moving"}]})
    proposed = shell(REASSIGN, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3,4")
    assert "Proposed partition reassignment configuration" in proposed
    plan = {
        "version": 1,
        "partitions": [
            {"topic": "moving", "partition": 0, "replicas": [4, 2, 3]},
            {"topic": "moving", "partition": 1, "replicas": [3, 4, 1]},
        ],
    }
    file = written(tmp_path, plan)
    assert "Successfully started" in shell(REASSIGN, "--execute", "--reassignment-json-file", file)
    eventually(lambda: shell(REASSIGN, "--verify", "--reassignment-json-file", file).count("is completed") == 2)
    assert [row["Replicas"] for row in shell.describe("moving")] == ["4,2,3", "3,4,1"]
    assert "No partition reassignments found" in shell(REASSIGN, "--list")
    idle = shell(REASSIGN, "--cancel", "--reassignment-json-file", file)
    assert "None of the specified partition reassignments are active" in idle


def test_a_slow_move_is_listed_and_can_be_cancelled(shell: Shell, tmp_path: Path) -> None:
    shell("TopicCommand", "--create", "--topic", "slow", "--replica-assignment", "1:2:3")
    producer = Producer({"bootstrap.servers": shell.cluster.bootstrap})
    for _ in range(100):
        producer.produce("slow", bytes(10_000))
    assert producer.flush(60) == 0
    plan = {"version": 1, "partitions": [{"topic": "slow", "partition": 0, "replicas": [4, 2, 3]}]}
    file = written(tmp_path, plan)
    shell(REASSIGN, "--execute", "--reassignment-json-file", file, "--throttle", "1000")
    listed = shell(REASSIGN, "--list")
    assert "slow-0" in listed
    assert "adding: 4" in listed.lower()
    shell(REASSIGN, "--cancel", "--reassignment-json-file", file)
    (now,) = shell.describe("slow")
    # As in Kafka, the previous order is not restored.
    assert sorted(now["Replicas"].split(",")) == ["1", "2", "3"]


def test_leaders_move_from_a_killed_node_and_return_by_election(shell: Shell) -> None:
    shell("TopicCommand", "--create", "--topic", "led", "--replica-assignment", "2:1:3,3:2:1")
    assert shell.leaders("led") == ["2", "3"]
    shell.cluster.kill(2)
    eventually(lambda: shell.leaders("led") == ["1", "3"])
    behind = shell.describe("led", "--under-replicated-partitions")
    assert [row["Isr"] for row in behind] == ["1,3", "3,1"]
    assert shell.describe("led", "--unavailable-partitions") == []
    refused = shell.run(ELECT, "--election-type", "preferred", "--topic", "led", "--partition", "0")
    assert "preferred" in refused.text.lower()
    shell.cluster.restart(2)
    eventually(lambda: not shell.describe("led", "--under-replicated-partitions"))
    done = shell(ELECT, "--election-type", "preferred", "--topic", "led", "--partition", "0")
    assert "Successfully completed leader election" in done
    assert shell.leaders("led") == ["2", "3"]
    again = shell(ELECT, "--election-type", "preferred", "--topic", "led", "--partition", "0")
    assert "already" in again.lower() or "Valid replica already elected" in again


def test_a_node_that_is_stopped_can_be_unregistered(shell: Shell, sharing: Sharing) -> None:
    shell.cluster.stop(FOUR)
    assert "is no longer registered" in shell.unregister("4")
    sharing.discard()  # the other tests need all four
