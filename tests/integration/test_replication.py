"""Tests of three nodes as processes: records survive the loss of any one, and lost replicas are restored."""

import shutil
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.eventually import eventually
from tests.support.penstock_cluster import PenstockCluster
from tests.support.sharing import Sharing
from tests.support.topic_metadata import cluster_metadata

SETTINGS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "log.segment.bytes": "1048576",
}


def three_nodes() -> PenstockCluster:
    return PenstockCluster(properties=SETTINGS, racks=("a", "b", "c"))


@pytest.fixture
def cluster(sharing: Sharing) -> PenstockCluster:
    return sharing.of(three_nodes)


class Topic:
    """A topic with three replicas, and its acknowledged records."""

    def __init__(
        self, cluster: PenstockCluster, name: str, *, partitions: int = 1, replicas: int = 3, **config: str
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        settings = {"min.insync.replicas": "2", **{key.replace("_", "."): value for key, value in config.items()}}
        self.admin.create_topics([NewTopic(name, partitions, replicas, config=settings)])[name].result(30)
        self.acked: dict[tuple[int, int], bytes] = {}
        self.errors: list[KafkaError] = []
        self.producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 2,
             "delivery.timeout.ms": 60000}
        )  # fmt: skip
        self.sent = 0

    def state(self, index: int = 0) -> tuple[int, list[int]]:
        """Return the leader and the sorted ISR, as described by some node."""
        found = cluster_metadata(self.admin, self.name).topics[self.name].partitions[index]
        return found.leader, sorted(found.isrs)

    @property
    def leader(self) -> int:
        return self.state()[0]

    def await_isr(self, *members: int) -> None:
        eventually(lambda: self.state()[1] == sorted(members), what=f"the ISR {members} of {self.name}")

    def await_leader(self, *but: int) -> int:
        eventually(lambda: self.leader not in (-1, *but), what=f"a leader of {self.name}")
        return self.leader

    def send(self, count: int, size: int = 20) -> None:
        """Send records and remember the acknowledged ones."""

        def delivered(value: bytes, error: KafkaError | None, message: object) -> None:
            if error is not None:
                self.errors.append(error)
            else:
                self.acked[message.partition(), message.offset()] = value  # type: ignore[attr-defined]

        for _ in range(count):
            value = b"%0*d" % (size, self.sent)
            self.sent += 1
            self.producer.produce(self.name, value, on_delivery=partial(delivered, value))
        assert self.producer.flush(60) == 0

    def read(self, **config: str) -> dict[tuple[int, int], bytes]:
        consumer = Consumer(
            {"bootstrap.servers": self.cluster.bootstrap, "group.id": "none", "auto.offset.reset": "earliest",
             "enable.auto.commit": False, **config}
        )  # fmt: skip
        found: dict[tuple[int, int], bytes] = {}
        try:
            count = len(cluster_metadata(self.admin, self.name).topics[self.name].partitions)
            consumer.assign([TopicPartition(self.name, index, 0) for index in range(count)])
            deadline = time.monotonic() + 60
            while len(found) < len(self.acked) and time.monotonic() < deadline:
                for message in consumer.consume(1000, timeout=1.0):
                    assert message.error() is None, message.error()
                    found[message.partition() or 0, message.offset() or 0] = message.value() or b""
        finally:
            consumer.close()
        return found

    def check(self) -> None:
        """Check that every acknowledged record exists once, at its offset."""
        assert self.errors == []
        found = self.read()
        assert {place: found.get(place) for place in self.acked} == self.acked
        assert len(set(found.values())) == len(found), "a record is duplicated"

    def folder(self, node_id: int) -> Path:
        return self.cluster.data(node_id) / f"{self.name}-0"

    def bytes_on(self, node_id: int) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.folder(node_id).glob("*.log")))


def test_acknowledged_records_are_on_every_replica_as_the_same_bytes(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "same")
    topic.send(500)
    topic.check()
    assert topic.state()[1] == [1, 2, 3]
    first = topic.bytes_on(1)
    assert first
    eventually(lambda: topic.bytes_on(2) == topic.bytes_on(3) == first, what="the same bytes")


def test_a_follower_that_is_killed_leaves_the_isr_and_catches_up(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "follower")
    topic.send(100)
    victim = next(each for each in cluster.ids if each != topic.leader)
    cluster.kill(victim)
    topic.send(100)
    topic.await_isr(*(each for each in cluster.ids if each != victim))
    cluster.restart(victim)
    topic.await_isr(1, 2, 3)
    assert topic.bytes_on(victim) == topic.bytes_on(topic.leader)
    topic.check()


def test_the_next_leader_has_everything_when_a_leader_is_killed(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "leader")
    topic.send(200)
    victim = topic.leader

    def write() -> None:
        for _ in range(20):
            topic.send(50)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        eventually(lambda: len(topic.acked) >= 400, what="a write under way")
        cluster.kill(victim)
    finally:
        writing.join()
    assert topic.await_leader(victim) != victim
    topic.check()
    cluster.restart(victim)
    topic.await_isr(1, 2, 3)
    topic.check()


def test_writes_fail_with_too_few_replicas_and_then_succeed_again(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "few", min_insync_replicas="3")
    topic.send(10)
    victim = next(each for each in cluster.ids if each != topic.leader)
    cluster.kill(victim)
    eventually(lambda: victim not in topic.state()[1], what="a smaller ISR")
    codes: list[int] = []
    refused = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0})
    refused.produce("few", b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
    assert refused.flush(30) == 0
    assert codes == [KafkaError.NOT_ENOUGH_REPLICAS]
    cluster.restart(victim)
    topic.await_isr(1, 2, 3)
    topic.send(10)
    topic.check()


def test_a_node_with_an_empty_disk_is_refilled(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "empty")
    topic.send(300, size=1000)
    victim = next(each for each in cluster.ids if each != topic.leader)
    cluster.kill(victim)
    shutil.rmtree(cluster.data(victim))
    topic.send(100)
    cluster.restart(victim)
    topic.await_isr(1, 2, 3)
    assert topic.bytes_on(victim) == topic.bytes_on(topic.leader)
    topic.check()


def test_rot_in_the_middle_of_a_replica_is_repaired_from_the_leader(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "rot")
    topic.send(1000, size=1000)
    leader = topic.leader
    cluster.kill(leader)
    path = next(iter(sorted(topic.folder(leader).glob("*.log"))))
    with path.open("r+b") as file:
        file.seek(50_000)
        file.write(b"\xff" * 16)
    # So that the node does not rely on earlier syncs and checks.
    for checkpoint in cluster.data(leader).glob("recovery-point*"):
        checkpoint.unlink()
    topic.await_leader(leader)
    topic.send(50)
    cluster.restart(leader)
    topic.await_isr(1, 2, 3)
    eventually(lambda: topic.bytes_on(leader) == topic.bytes_on(topic.leader), what="a repaired log")
    topic.check()


def test_a_consumer_reads_from_the_replica_in_its_rack(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "racks")
    topic.send(200)
    near = next(each for each in cluster.ids if each != topic.leader)
    found = topic.read(**{"client.rack": "abc"[near - 1], "topic.metadata.refresh.interval.ms": "1000"})
    assert found == topic.acked


def test_a_throttled_replica_still_catches_up(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "throttled", leader_replication_throttled_replicas="*")
    victim = next(each for each in cluster.ids if each != topic.leader)
    cluster.kill(victim)
    topic.send(300, size=1000)
    cluster.restart(victim)
    topic.await_isr(1, 2, 3)
    topic.check()


def test_deleted_records_are_removed_from_every_replica(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "deleted")
    topic.send(100)
    done = topic.admin.delete_records([TopicPartition("deleted", 0, 60)])
    assert [each.result(30).low_watermark for each in done.values()] == [60]
    leader = topic.leader
    cluster.stop(leader)
    topic.await_leader(leader)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    assert consumer.get_watermark_offsets(TopicPartition("deleted", 0), timeout=20)[0] == 60
    consumer.close()
    cluster.restart(leader)
    topic.await_isr(1, 2, 3)


def test_a_rolling_restart_shows_no_error_to_a_client_that_retries(cluster: PenstockCluster) -> None:
    topic = Topic(cluster, "rolling", partitions=3)
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            topic.send(20)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for node_id in cluster.ids:
            cluster.stop(node_id)
            cluster.restart(node_id)
            eventually(lambda: all(topic.state(each)[1] == [1, 2, 3] for each in range(3)), what="all in sync")
    finally:
        over.set()
        writing.join()
    topic.check()


def test_an_unknown_topic_is_refused_by_every_node(cluster: PenstockCluster) -> None:
    for node_id in cluster.ids:
        consumer = Consumer({"bootstrap.servers": cluster.address(node_id), "group.id": "none",
                             "allow.auto.create.topics": False})  # fmt: skip
        with pytest.raises(KafkaException):
            consumer.get_watermark_offsets(TopicPartition("nowhere", 0), timeout=10)
        consumer.close()
