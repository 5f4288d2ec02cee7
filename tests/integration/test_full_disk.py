"""Tests of three nodes, one with a full disk: writes continue, reads are served, and the node recovers."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.actions.cluster.status import broker_rows, find_problems
from penstock.actions.connection import Connection
from penstock.actions.doctor import check_brokers
from tests.support.eventually import eventually
from tests.support.limited_node import MARKER_SUFFIX
from tests.support.penstock_cluster import PenstockCluster
from tests.support.topic_metadata import cluster_metadata

FULL = 3
PARTITIONS = ([1, 2, 3], [2, 3, 1], [3, 1, 2])
WITHOUT_ACKNOWLEDGEMENT_S_MAX = 10.0
"""Far above the observed value (0.5 s), and far below replica.lag.time.max.ms."""


class LimitedCluster(PenstockCluster):
    def __init__(self) -> None:
        super().__init__(
            module="tests.support.limited_node",
            properties={"auto.leader.rebalance.enable": "false"},
        )

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def fill(self, node_id: int) -> None:
        self._marker(node_id).touch()

    def free(self, node_id: int) -> None:
        self._marker(node_id).unlink()

    def _marker(self, node_id: int) -> Path:
        return Path(f"{self.data(node_id)}{MARKER_SUFFIX}")

    def make(self, name: str, replicas: list[list[int]]) -> None:
        config = {"min.insync.replicas": str(min(2, len(replicas[0])))}
        topic = NewTopic(name, len(replicas), replica_assignment=replicas, config=config)
        self.admin.create_topics([topic])[name].result(30)

    def state(self, name: str) -> list[tuple[int, list[int]]]:
        """Return the leader and the ISR of each partition."""
        partitions = cluster_metadata(self.admin, name).topics[name].partitions
        return [(partitions[index].leader, sorted(partitions[index].isrs)) for index in sorted(partitions)]

    def read(self, name: str, count: int) -> list[list[bytes]]:
        """Return the values of each partition, up to its end."""
        found: list[list[bytes]] = []
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "none", "enable.auto.commit": False})
        try:
            for index in range(count):
                place = TopicPartition(name, index, 0)
                end = consumer.get_watermark_offsets(place, timeout=30)[1]
                consumer.assign([place])
                values: list[bytes] = []
                next_offset = 0
                while next_offset < end:
                    for message in consumer.consume(min(1000, end - next_offset), timeout=30):
                        assert message.error() is None, message.error()
                        values.append(message.value() or b"")
                        next_offset = (message.offset() or 0) + 1
                found.append(values)
        finally:
            consumer.close()
        return found


@pytest.fixture
def cluster() -> Iterator[LimitedCluster]:
    made = LimitedCluster()
    with made:
        yield made


class Writer:
    """An idempotent producer that writes to every partition continuously."""

    def __init__(self, cluster: PenstockCluster, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 2}
        )
        self._topic = topic
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.acked: Counter[int] = Counter()
        self.errors: list[KafkaError] = []
        self._acked_at: dict[int, float] = {}
        self.longest_s: dict[int, float] = dict.fromkeys(range(len(PARTITIONS)), 0.0)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(0.01):
            for index in range(len(PARTITIONS)):
                self._producer.produce(
                    self._topic, b"%d" % self.sent, partition=index, on_delivery=partial(self._told, index)
                )
                self.sent += 1
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def _told(self, index: int, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        now = time.monotonic()
        self.longest_s[index] = max(self.longest_s[index], now - self._acked_at.get(index, now))
        self._acked_at[index] = now
        self.acked[index] += 1

    def more_everywhere(self) -> None:
        """Wait until every partition has acknowledged a record sent after this call."""
        before = {index: self.acked[index] + 200 for index in range(len(PARTITIONS))}
        eventually(lambda: all(self.acked[index] > count for index, count in before.items()), what="writes")


def test_one_full_disk_does_not_stop_writes_and_the_node_recovers(cluster: LimitedCluster) -> None:
    cluster.make("orders", [list(each) for each in PARTITIONS])
    eventually(lambda: all(isr == [1, 2, 3] for _, isr in cluster.state("orders")), what="a complete in-sync set")
    with Writer(cluster, "orders") as writer:
        writer.more_everywhere()
        cluster.fill(FULL)
        eventually(lambda: [isr for _, isr in cluster.state("orders")] == [[1, 2]] * 3, what="a set without that node")
        assert [leader for leader, _ in cluster.state("orders")] == [1, 2, 1]
        writer.more_everywhere()
        connection = Connection(cluster.bootstrap)
        assert {row["node"]: row["state"] for row in broker_rows(connection)}[FULL] == "up, disk full"
        assert any(
            f"Node {FULL} is read-only: disk full: {cluster.data(FULL)} of node {FULL} has 0.0 MiB free and needs"
            in line
            for line in find_problems(connection)
        )
        assert [each.state for each in check_brokers(connection) if each.check == "disks"] == ["wrong"]
        cluster.free(FULL)
        eventually(lambda: [isr for _, isr in cluster.state("orders")] == [[1, 2, 3]] * 3, what="its return")
        writer.more_everywhere()
    assert not writer.errors
    assert max(writer.longest_s.values()) < WITHOUT_ACKNOWLEDGEMENT_S_MAX, writer.longest_s
    values = [value for partition in cluster.read("orders", len(PARTITIONS)) for value in partition]
    assert (len(values), len(set(values))) == (writer.sent, writer.sent)
    assert f"disk full: {cluster.data(FULL)}" in cluster.log(FULL) and "accepts writes again" in cluster.log(FULL)


def test_a_full_node_starts_serves_reads_and_accepts_writes_again(cluster: LimitedCluster) -> None:
    cluster.make("alone", [[FULL]])
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.timeout.ms": 5000, "retries": 0}
    )
    results: list[KafkaError | None] = []

    def send() -> KafkaError | None:
        producer.produce("alone", b"value", on_delivery=lambda error, _: results.append(error))
        assert producer.flush(60) == 0
        return results[-1]

    assert send() is None
    cluster.fill(FULL)
    refused = send()
    assert refused is not None and refused.code() in (KafkaError.KAFKA_STORAGE_ERROR, KafkaError._MSG_TIMED_OUT)
    assert cluster.read("alone", 1) == [[b"value"]]
    cluster.kill(FULL)
    cluster.restart(FULL)
    eventually(lambda: cluster.state("alone") == [(FULL, [FULL])], what="a leader")
    assert cluster.read("alone", 1) == [[b"value"]]
    # Metadata changes are still written there.
    cluster.make("later", [[1, 2, 3]])
    cluster.free(FULL)
    eventually(lambda: send() is None, what="a write")
    eventually(lambda: cluster.state("later")[0][1] == [1, 2, 3], what="a complete in-sync set")


def test_a_voter_with_a_full_disk_keeps_up_with_the_metadata(cluster: LimitedCluster) -> None:
    cluster.fill(FULL)
    for number in range(20):
        cluster.make(f"topic-{number}", [[1, 2, 3]])
    with pytest.raises(KafkaException):
        cluster.make("topic-1", [[1, 2, 3]])
    assert FULL in cluster_metadata(cluster.admin).brokers
    assert "offline" not in cluster.log(FULL)
