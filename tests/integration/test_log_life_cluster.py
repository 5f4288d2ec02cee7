"""Tests of retention, DeleteRecords and compaction with three replicas."""

from __future__ import annotations

import os
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.support.eventually import eventually
from tests.support.penstock_cluster import PenstockCluster
from tests.support.sharing import Sharing
from tests.support.topic_metadata import cluster_metadata

SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "100",
}
MIB = 1 << 20


def three_nodes() -> PenstockCluster:
    return PenstockCluster(properties=SETTINGS)


@pytest.fixture
def cluster(sharing: Sharing) -> PenstockCluster:
    return sharing.of(three_nodes)


class Topic:
    """A topic of one partition with a replica on every node."""

    def __init__(self, cluster: PenstockCluster, name: str, **config: str) -> None:
        self.cluster = cluster
        self.name = name
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        settings = {"segment.bytes": str(MIB), **{key.replace("_", "."): value for key, value in config.items()}}
        self.admin.create_topics([NewTopic(name, 1, 3, config=settings)])[name].result(60)
        self.table: dict[bytes, bytes | None] = {}

    def write(self, count: int, *, keys: int = 100) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "linger.ms": 5})
        for number in range(count):
            key = b"k%d" % (number % keys)
            value = b"%d " % number + os.urandom(1000)
            producer.produce(self.name, key=key, value=value)
            self.table[key] = value
            producer.poll(0)
        assert producer.flush(60) == 0

    def change(self, **config: str) -> None:
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(60)

    @property
    def leader(self) -> int:
        return cluster_metadata(self.admin, self.name).topics[self.name].partitions[0].leader

    @property
    def isr(self) -> list[int]:
        return sorted(cluster_metadata(self.admin, self.name).topics[self.name].partitions[0].isrs)

    def start(self) -> int:
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "none"})
        try:
            return consumer.get_watermark_offsets(TopicPartition(self.name, 0), timeout=60)[0]
        finally:
            consumer.close()

    def read(self) -> list[tuple[int, bytes, bytes | None]]:
        """Read all records, from the current leader."""
        consumer = Consumer(
            {"bootstrap.servers": self.cluster.bootstrap, "group.id": "none", "auto.offset.reset": "earliest"}
        )
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(self.name, 0), timeout=60)
            consumer.assign([TopicPartition(self.name, 0, start)])
            found: list[tuple[int, bytes, bytes | None]] = []
            deadline = time.monotonic() + 60
            while consumer.position([TopicPartition(self.name, 0)])[0].offset < end:
                assert time.monotonic() < deadline, f"read {len(found)} records of {end}"
                for message in consumer.consume(1000, timeout=0.2):
                    assert message.error() is None, message.error()
                    value = message.value()
                    found.append((message.offset() or 0, bytes(message.key() or b""), value and bytes(value)))
            return found
        finally:
            consumer.close()

    def sizes(self) -> dict[int, int]:
        """Return the size of the segments on each node."""
        found: dict[int, int] = {}
        for node_id in self.cluster.ids:
            found[node_id] = 0
            for path in (self.cluster.data(node_id) / f"{self.name}-0").glob("*.log"):
                try:
                    found[node_id] += path.stat().st_size
                except FileNotFoundError:
                    continue
        return found

    def first_segments(self) -> set[str]:
        """Return the oldest segments over all nodes."""
        folders = [self.cluster.data(node_id) / f"{self.name}-0" for node_id in self.cluster.ids]
        return {min((path.name for path in folder.glob("*.log")), default="none") for folder in folders}

    def move_leader(self) -> None:
        """Stop the leader, so that another one is elected; it returns as a follower."""
        old = self.leader
        self.cluster.stop(old)
        eventually(lambda: self.leader not in (-1, old), what="another leader")
        self.cluster.restart(old)
        eventually(lambda: self.isr == [1, 2, 3], what="all in sync")


def test_retention_removes_the_same_segments_on_every_replica(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "aging", retention_ms="-1")
    topic.write(6000)
    topic.change(retention_bytes=str(2 * MIB))
    eventually(lambda: all(size < 3.1 * MIB for size in topic.sizes().values()), what="less on every node")
    eventually(lambda: len(topic.first_segments()) == 1, what="the same oldest segment everywhere")
    start = topic.start()
    assert f"{start:020d}.log" in topic.first_segments()
    offsets = [offset for offset, _, _ in topic.read()]
    assert offsets == list(range(start, 6000))
    topic.move_leader()
    assert topic.start() == start
    assert [offset for offset, _, _ in topic.read()] == offsets


def test_deleted_records_and_their_files_are_removed_from_every_replica_permanently(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "trimmed", retention_ms="-1")
    topic.write(6000)
    done = topic.admin.delete_records([TopicPartition("trimmed", 0, 5000)])
    assert [each.result(60).low_watermark for each in done.values()] == [5000]
    eventually(lambda: all(size < 3.1 * MIB for size in topic.sizes().values()), what="less on every node")
    for node_id in cluster.ids:
        cluster.kill(node_id)
    for node_id in cluster.ids:
        cluster.begin(node_id)
    for node_id in cluster.ids:
        cluster.await_node(node_id)
    eventually(lambda: topic.leader > 0, what="a leader")
    assert topic.start() == 5000
    assert [offset for offset, _, _ in topic.read()] == list(range(5000, 6000))


@pytest.mark.slow
def test_followers_compact_independently_and_agree(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "table", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    topic.write(12_000)
    tombs = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(20):
        tombs.produce("table", key=b"k%d" % number, value=None)
        topic.table[b"k%d" % number] = None
    assert tombs.flush(60) == 0
    eventually(lambda: all(size < 2.2 * MIB for size in topic.sizes().values()), what="all compacted")
    tables: list[dict[bytes, bytes | None]] = []
    ends: set[int] = set()
    for _ in range(2):
        read = topic.read()
        assert [offset for offset, _, _ in read] == sorted({offset for offset, _, _ in read})
        tables.append({key: value for _, key, value in read})
        ends.add(read[-1][0])
        topic.move_leader()
    assert tables == [topic.table, topic.table]
    assert ends == {12_019}
    # A replica that lost its disk is refilled from a compacted one.
    victim = next(each for each in cluster.ids if each != topic.leader)
    cluster.kill(victim)
    for path in (cluster.data(victim) / "table-0").iterdir():
        path.unlink()
    cluster.restart(victim)
    eventually(lambda: topic.isr == [1, 2, 3], what="all in sync")
    topic.write(10)
    topic.move_leader()
    assert {key: value for _, key, value in topic.read()} == topic.table
