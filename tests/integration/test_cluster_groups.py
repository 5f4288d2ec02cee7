"""Tests of groups on four nodes: coordinators are killed, stopped and paused, and a node is drained and removed."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest

from penstock.coordinator.errors import NotCoordinator
from penstock.coordinator.keys import partition_of
from penstock.groups.errors import UnknownMemberId
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.wire.api import ApiKey
from tests.support.command import penstock
from tests.support.eventually import eventually
from tests.support.penstock_cluster import PenstockCluster
from tests.support.sharing import Sharing
from tests.support.topic_metadata import cluster_metadata
from tests.support.transaction_wire import Wire

TOPIC = "orders"
PARTITIONS = 4
SHARDS = 3
FOUR = 4
PATIENCE_S = 60.0
# Long enough for clients to notice, short enough for the cluster not to.
HELD_S = 2.0
MOVES = ("kill", "stop", "hold")
BATCH = 50


class Bench:
    def __init__(self, cluster: PenstockCluster) -> None:
        self.cluster = cluster
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self.admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(PATIENCE_S)
        # The first FindCoordinator request creates the topic of all groups.
        first = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "first", "log_level": 0})
        first.committed([TopicPartition(TOPIC, 0)], PATIENCE_S)
        first.close()

    def coordinator(self, group: str) -> int:
        topic = cluster_metadata(self.admin, CONSUMER_OFFSETS).topics[CONSUMER_OFFSETS]
        return int(topic.partitions[partition_of(group, SHARDS)].leader)

    def healed(self) -> None:
        def is_healed() -> bool:
            topics = cluster_metadata(self.admin).topics.values()
            return all(len(each.isrs) == 3 for topic in topics for each in topic.partitions.values())

        eventually(is_healed, what="every replica in sync")


@contextmanager
def four_nodes() -> Iterator[Bench]:
    settings = {"offsets.topic.num.partitions": str(SHARDS), "group.initial.rebalance.delay.ms": "0"}
    with PenstockCluster(count=FOUR, properties=settings) as cluster:
        yield Bench(cluster)


@pytest.fixture
def bench(sharing: Sharing) -> Bench:
    return sharing.of(four_nodes)


class Reader(threading.Thread):
    """A member that commits what it has read, and records the start offsets of assigned partitions."""

    def __init__(self, bootstrap: str, group: str, protocol: str) -> None:
        super().__init__()
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol, "log_level": 0}
        self._consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        self.seen: list[tuple[int, int, float]] = []
        self.errors: list[str] = []
        self.is_over = False

    def run(self) -> None:
        self._consumer.subscribe([TOPIC])
        while not self.is_over:
            batch = self._consumer.consume(BATCH, 0.2)
            for message in batch:
                self._take(message)
            try:
                if batch:
                    self._consumer.commit(asynchronous=False)
            except KafkaException as error:
                self.errors.append(str(error))
        self._consumer.close()

    def _take(self, message: Message) -> None:
        if message.error() is not None:
            self.errors.append(str(message.error()))
        else:
            self.seen.append((message.partition() or 0, message.offset() or 0, time.monotonic()))


class Writer(threading.Thread):
    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self.acked: set[tuple[int, int]] = set()
        self.errors: list[str] = []
        self.is_over = False

    def run(self) -> None:
        number = 0
        while not self.is_over:
            self._producer.produce(TOPIC, str(number), partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0.02)
            number += 1
        assert self._producer.flush(PATIENCE_S) == 0

    def _delivered(self, error: Any, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acked.add((message.partition() or 0, message.offset() or 0))


def has_read_all(group: list[Reader], acked: set[tuple[int, int]]) -> bool:
    return acked <= {each[:2] for reader in group for each in reader.seen}


def fail_over(bench: Bench, group: str, how: str) -> None:
    """Disturb the group's coordinator; return when the cluster is healthy again."""
    node = bench.coordinator(group)
    if how == "hold":
        bench.cluster.pause(node)
        time.sleep(HELD_S)
        bench.cluster.resume(node)
    else:
        (bench.cluster.kill if how == "kill" else bench.cluster.stop)(node)
        eventually(lambda: bench.coordinator(group) not in (node, -1), what="another coordinator")
        bench.cluster.restart(node)
    bench.healed()


@pytest.mark.slow
def test_groups_of_both_protocols_continue_while_their_coordinators_move(bench: Bench) -> None:
    bootstrap = bench.cluster.bootstrap
    writer = Writer(bootstrap)
    protocols = ("classic", "consumer")
    groups = {protocol: [Reader(bootstrap, protocol, protocol) for _ in range(2)] for protocol in protocols}
    readers = [reader for group in groups.values() for reader in group]
    for thread in (writer, *readers):
        thread.start()
    try:
        eventually(lambda: all(reader.seen for reader in readers), what="a first record for every reader")
        for how in MOVES:
            for protocol in groups:
                fail_over(bench, protocol, how)
        writer.is_over = True
        writer.join()
        for group in groups.values():
            eventually(partial(has_read_all, group, writer.acked), what="every record read")
    finally:
        writer.is_over = True
        for reader in readers:
            reader.is_over = True
        for thread in (writer, *readers):
            thread.join()
    assert writer.errors == []
    for protocol, group in groups.items():
        seen = sorted((at, partition, offset) for reader in group for partition, offset, at in reader.seen)
        ends: dict[int, int] = defaultdict(int)
        repeated = 0
        for _, partition, offset in seen:
            repeated += offset < ends[partition]
            ends[partition] = max(ends[partition], offset + 1)
        # A move of one group's coordinator may be one of the other group's, too.
        moves = len(MOVES) * len(groups)
        assert repeated <= moves * len(group) * BATCH, "a batch of each member for each move, not everything"
        committed = Consumer({"bootstrap.servers": bootstrap, "group.id": protocol, "log_level": 0})
        places = committed.committed([TopicPartition(TOPIC, index) for index in range(PARTITIONS)], PATIENCE_S)
        assert {place.partition: place.offset for place in places} == ends
        committed.close()


def test_heartbeats_to_the_wrong_node_are_answered_with_not_coordinator(bench: Bench) -> None:
    group: Any = "classic"
    right = bench.coordinator(group)
    classic = HeartbeatRequest(group_id=group, generation_id=cast(Any, 1), member_id="nobody")
    modern = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="nobody", member_epoch=cast(Any, 7), topic_partitions=None
    )
    for node in bench.cluster.ids:
        expected = UnknownMemberId.code if node == right else NotCoordinator.code
        with Wire(bench.cluster.address(node)) as wire:
            assert wire.ask(ApiKey.HEARTBEAT, 4, classic).error_code == expected
            if node != right:
                assert wire.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, modern).error_code == expected


def test_a_drained_node_is_removed_without_loss(bench: Bench, sharing: Sharing) -> None:
    def cluster(*words: str) -> Any:
        return penstock("cluster", *words, "--bootstrap", bench.cluster.address(1))

    ends = sum(ends_of(bench))
    rows = cluster("nodes", "--format", "json").json()
    states = {row["node"]: row["state"] for row in rows}
    leader = next(row["node"] for row in cluster("quorum", "--format", "json").json() if row["role"] == "leader")
    assert {node for node, state in states.items() if "controller" in state} == {leader}
    assert cluster("remove", str(FOUR)).code != 0, "it is not drained"
    assert cluster("drain", str(FOUR), "--yes").code == 0
    assert cluster("remove", str(FOUR)).code != 0, "it is still up"
    bench.cluster.stop(FOUR)
    removed = cluster("remove", str(FOUR), "--yes")
    assert removed.code == 0, removed
    status = cluster("status", "--format", "json")
    assert status.code == 0, "every partition is in order"
    assert [row["node"] for row in status.json()] == [1, 2, 3]
    assert sum(ends_of(bench)) == ends
    sharing.discard()  # the other tests need all four


def ends_of(bench: Bench) -> list[int]:
    reader = Consumer({"bootstrap.servers": bench.cluster.bootstrap, "group.id": "ends", "log_level": 0})
    try:
        places = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        return [reader.get_watermark_offsets(place, PATIENCE_S)[1] for place in places]
    finally:
        reader.close()
