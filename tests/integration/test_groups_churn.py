"""Test of two to eight consumers that join and leave at random while a producer runs.

Every record is delivered at least once, no partition has two owners at the same time, and committed offsets never
decrease. `make test` runs a short churn; PENSTOCK_CHURN_SECONDS makes it longer.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from tests.support.eventually import eventually
from tests.support.ownership import Ownership

SECONDS = float(os.environ.get("PENSTOCK_CHURN_SECONDS", "8"))
PARTITIONS = 6
MEMBERS = range(2, 9)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
LOST_A_RACE = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError._NO_OFFSET,
    KafkaError._STATE,
)
"""A late commit is rejected, and its records are delivered again."""


class Ledger(Ownership):
    """Sent, delivered and committed records, and the owners of partitions; shared by all threads."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: set[tuple[int, int]] = set()
        self.delivered: dict[tuple[int, int], int] = defaultdict(int)


def indexes(places: list[TopicPartition]) -> list[int]:
    return [place.partition for place in places]


class Member(threading.Thread):
    """A consumer on a thread: polls, commits, and leaves on request."""

    def __init__(self, ledger: Ledger, topic: str, settings: dict[str, Any], name: str) -> None:
        super().__init__(name=name)
        self.ledger = ledger
        self.topic = topic
        self.settings = settings
        self.stopping = threading.Event()

    def run(self) -> None:
        consumer = Consumer(self.settings)
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, places: self.ledger.given(self.name, indexes(places)),
            on_revoke=lambda _, places: self.ledger.taken(self.name, indexes(places)),
            on_lost=lambda _, places: self.ledger.lost(self.name, indexes(places)),
        )
        try:
            while not self.stopping.is_set():
                self.work(consumer)
        except Exception as error:
            self.ledger.fault(f"{self.name}: {error!r}")
        finally:
            self.ledger.left(self.name)  # close() may still report an assignment, and no revocation after it
            consumer.close()

    def leave(self) -> None:
        self.stopping.set()
        self.join()

    def work(self, consumer: Consumer) -> None:
        got = [message for message in consumer.consume(50, 0.05) if not message.error()]
        if not got:
            return
        with self.ledger.lock:
            for message in got:
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                self.ledger.delivered[partition, offset] += 1
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as refusal:
            if refusal.args[0].code() not in LOST_A_RACE:
                raise


@contextmanager
def producing(bootstrap: str, topic: str, ledger: Ledger) -> Iterator[None]:
    """Run a producer within the block; acknowledged records go into the ledger."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2})
    stopping = threading.Event()

    def acknowledged(error: Any, message: Any) -> None:
        if error is None:
            ledger.sent.add((message.partition(), message.offset()))

    def send() -> None:
        number = 0
        while not stopping.wait(0.005):
            for _ in range(5):
                producer.produce(topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=acknowledged)
                number += 1
            producer.poll(0)
        producer.flush(60)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def committed(watcher: Consumer, topic: str) -> list[int]:
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    return [place.offset for place in watcher.committed(places, timeout=60)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        {"partition.assignment.strategy": "range"},
        {"partition.assignment.strategy": "cooperative-sticky"},
        {"group.protocol": "consumer"},
    ],
    ids=["eager", "cooperative", "consumer"],
)
def test_nothing_is_lost_while_members_join_and_leave(kind: dict[str, Any]) -> None:
    random, ledger = Random(7), Ledger()
    with Broker(SETTINGS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("churn", PARTITIONS)])["churn"].result(60)
        settings: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "churn",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **kind,
        }
        if "group.protocol" not in kind:
            settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}
        watcher = Consumer({**settings, "group.protocol": "classic"})
        members: list[Member] = []
        number = 0
        try:
            with producing(broker.bootstrap, "churn", ledger):
                before = committed(watcher, "churn")
                deadline = time.monotonic() + SECONDS
                while time.monotonic() < deadline:
                    wanted = random.choice(MEMBERS)
                    while len(members) < wanted:
                        number += 1
                        members.append(Member(ledger, "churn", settings, f"member-{number}"))
                        members[-1].start()
                    while len(members) > wanted:
                        members.pop(random.randrange(len(members))).leave()
                    time.sleep(random.uniform(0.1, 0.8))  # how long this set of members lasts
                    now = committed(watcher, "churn")
                    assert all(later >= earlier for earlier, later in zip(before, now, strict=True)), (before, now)
                    before = now
            eventually(lambda: ledger.sent <= ledger.delivered.keys(), what="the delivery of all sent records")
        finally:
            for member in members:
                member.leave()
            watcher.close()
    assert not ledger.faults, ledger.faults
    assert len(ledger.sent) > 100
