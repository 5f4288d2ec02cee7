"""Tests of transactions on three nodes while coordinators and leaders move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from penstock.coordinator.keys import partition_of
from penstock.model.topic import TRANSACTION_STATE
from tests.support.eventually import eventually
from tests.support.penstock_cluster import PenstockCluster
from tests.support.sharing import Sharing
from tests.support.topic_metadata import cluster_metadata
from tests.support.transaction_wire import Producer as Writer
from tests.support.transaction_wire import Wire, produce_request

TOPIC = "payments"
SHARDS = 3
PATIENCE_S = 60.0
SETTINGS = {
    "transaction.state.log.num.partitions": str(SHARDS),
    "offsets.topic.num.partitions": str(SHARDS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class Bench:
    """Three nodes; the preferred leader of partition N of the topic is node N + 1."""

    def __init__(self, cluster: PenstockCluster) -> None:
        self.cluster = cluster
        # librdkafka asks a paused node for metadata repeatedly until this timeout closes the connection to it.
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": cluster.bootstrap,
            "socket.timeout.ms": 2_000,
            "log_level": 0,
        }
        self.admin = AdminClient(settings)
        replicas = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        self.admin.create_topics([NewTopic(TOPIC, 3, replica_assignment=replicas)])[TOPIC].result(PATIENCE_S)

    def leader(self, topic: str, index: int) -> int:
        found = cluster_metadata(self.admin, topic).topics[topic].partitions[index]
        return int(found.leader)

    def coordinator(self, transactional_id: str) -> int:
        return self.leader(TRANSACTION_STATE, partition_of(transactional_id, SHARDS))

    def producer(self, transactional_id: str, **more: Any) -> Producer:
        settings = {"bootstrap.servers": self.cluster.bootstrap, "transactional.id": transactional_id, "log_level": 0}
        made = Producer({**settings, **more})
        made.init_transactions(PATIENCE_S)
        return made

    def committed(self) -> list[str]:
        """Return the committed records of all partitions, when no transaction is open."""
        eventually(self.is_at_rest)
        settings = {"bootstrap.servers": self.cluster.bootstrap, "group.id": "reader", "enable.partition.eof": True}
        reader = Consumer({**settings, "isolation.level": "read_committed", "log_level": 0})
        reader.assign([TopicPartition(TOPIC, index, 0) for index in range(3)])
        seen, ends = [], 0
        while ends < 3:
            message = reader.poll(1)
            if message is not None and message.error() is None:
                seen.append((message.value() or b"").decode())
            ends += message is not None and message.error() is not None
        reader.close()
        return sorted(seen)

    def is_at_rest(self) -> bool:
        asked = {TopicPartition(TOPIC, index): OffsetSpec.latest() for index in range(3)}
        ends = []
        for kind in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            # The client waits for a killed leader, even if there is a new one.
            answers = self.admin.list_offsets(asked, isolation_level=kind, request_timeout=10)
            try:
                ends.append([each.result(60).offset for each in answers.values()])
            except KafkaException:
                return False
        return bool(ends[0] == ends[1])

    def healed(self) -> None:
        eventually(lambda: all(len(each.isrs) == 3 for topic in self._topics() for each in topic.partitions.values()))

    def _topics(self) -> Any:
        return cluster_metadata(self.admin).topics.values()


@contextmanager
def three_nodes() -> Iterator[Bench]:
    with PenstockCluster(properties=SETTINGS) as cluster:
        yield Bench(cluster)


@pytest.fixture
def bench(sharing: Sharing) -> Bench:
    return sharing.of(three_nodes)


def test_a_transaction_over_three_leaders_survives_its_coordinator(bench: Bench) -> None:
    producer = bench.producer("across")
    producer.begin_transaction()
    for index in range(3):
        producer.produce(TOPIC, f"a{index}", partition=index)
    assert producer.flush(PATIENCE_S) == 0
    node = bench.coordinator("across")
    bench.cluster.kill(node)
    producer.commit_transaction(PATIENCE_S)
    bench.cluster.restart(node)
    bench.healed()
    assert sorted(each for each in bench.committed() if each.startswith("a")) == ["a0", "a1", "a2"]


def test_an_abandoned_transaction_is_aborted_by_the_next_coordinator_after_its_timeout(bench: Bench) -> None:
    before = bench.committed()
    left = bench.producer("left", **{"transaction.timeout.ms": 3_000})
    left.begin_transaction()
    for index in range(3):
        left.produce(TOPIC, "never", partition=index)
    assert left.flush(PATIENCE_S) == 0
    node = bench.coordinator("left")
    bench.cluster.kill(node)
    assert bench.committed() == before
    bench.cluster.restart(node)
    bench.healed()


def test_a_paused_leader_delays_a_commit_only_until_another_leader_is_elected(bench: Bench) -> None:
    producer = bench.producer("patient")
    node = bench.coordinator("patient")
    held = next(each for each in bench.cluster.ids if each != node)
    producer.begin_transaction()
    producer.produce(TOPIC, "p", partition=held - 1)
    assert producer.flush(PATIENCE_S) == 0
    bench.cluster.pause(held)
    producer.commit_transaction(PATIENCE_S)
    eventually(bench.is_at_rest)
    bench.cluster.resume(held)
    bench.healed()
    assert "p" in bench.committed()


def test_a_batch_sent_again_to_the_next_leader_keeps_its_offset(bench: Bench) -> None:
    bench.healed()
    leader = bench.leader(TOPIC, 0)
    with Wire(bench.cluster.address(leader)) as wire:
        reply = wire.init(None, timeout_ms=1000)  # type: ignore[arg-type]
        writer = Writer("", reply.producer_id, reply.producer_epoch)
        sent = [
            produce_request(writer, TOPIC, 0, [f"d{n}"], sequence=n, version=11, names_id=False, is_transactional=False)
            for n in range(3)
        ]
        offsets = []
        for each in sent:
            wire.send(each)
            offsets.append(wire.produced(11))
    bench.cluster.kill(leader)
    eventually(lambda: bench.leader(TOPIC, 0) not in (leader, -1))
    with Wire(bench.cluster.address(bench.leader(TOPIC, 0))) as wire:
        again = []
        for each in sent:
            wire.send(each)
            again.append(wire.produced(11))
        assert again == offsets
        more = produce_request(writer, TOPIC, 0, ["d3"], sequence=3, version=11, names_id=False, is_transactional=False)
        wire.send(more)
        assert wire.produced(11) == (0, offsets[-1][1] + 1)
        # No two nodes ever assign the same producer id.
        assert wire.init(None, timeout_ms=1000).producer_id != writer.producer_id  # type: ignore[arg-type]
    bench.cluster.restart(leader)
    assert [each for each in bench.committed() if each.startswith("d")] == ["d0", "d1", "d2", "d3"]
