"""Tests of the console with three nodes, one of which is killed."""

import pytest

from tests.support.console import Browser, ConsoleServer, settings_for
from tests.support.eventually import eventually
from tests.support.penstock_cluster import PenstockCluster

TOPIC = "orders"


def kinds(browser: Browser) -> set[str]:
    return {each["kind"] for each in browser.read("overview")["attention"]}


@pytest.mark.slow
def test_replicas_are_moved_and_a_dead_node_is_noticed() -> None:
    with PenstockCluster() as cluster, ConsoleServer(settings_for(cluster.bootstrap)) as browser:
        browser.change("topic.create", topic=TOPIC, partitions=3, replication_factor=2)
        eventually(lambda: len(browser.read("overview")["nodes"]) == 3)
        eventually(lambda: not kinds(browser), what="a healthy cluster")
        assert {row["role"] for row in browser.read("nodes")["quorum"]["replicas"]} == {"leader", "voter"}

        plan = browser.plan("replicas.move", topic=TOPIC, partition=0, to=[3, 2, 1])
        assert plan["rows"][0]["after"] == "3, 2, 1"
        assert browser.execute(plan).status == 200

        def isr() -> set[int]:
            return set(browser.read(f"topics/{TOPIC}")["partitions"][0]["isr"])

        eventually(lambda: isr() == {1, 2, 3}, what="the end of the reassignment")
        browser.change("records.produce", topic=TOPIC, partition=0, value="before")
        cluster.kill(3)
        eventually(lambda: {"fenced", "under_replicated"} <= kinds(browser), what="the death of a node")
        eventually(lambda: browser.get("/api/c/local/nodes/1").status == 200)
        browser.change("records.produce", topic=TOPIC, partition=0, value="after")
        rows = browser.read(f"topics/{TOPIC}/records", partition="0")["rows"]
        assert [row["value"]["text"] for row in rows] == ["before", "after"]
        cluster.restart(3)
        eventually(lambda: not kinds(browser), what="a healthy cluster again")
