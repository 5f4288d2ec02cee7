"""Tests of files that become unreadable while a node runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.process import BrokerProcess

RECORDS = 400


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(data=tmp_path / "data") as started:
        yield started


def produce(broker: BrokerProcess, partition: int, count: int) -> list[KafkaError | None]:
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "delivery.timeout.ms": 3000, "linger.ms": 5})
    for _ in range(count):
        producer.produce(
            "t", os.urandom(1000), partition=partition, on_delivery=lambda error, _: outcomes.append(error)
        )
    producer.flush(60)
    return outcomes


@pytest.mark.parametrize("kept", [100_000, 10_000], ids=["sent by sendfile", "sent by copy"])
def test_a_segment_truncated_under_a_running_node_affects_only_its_partition(broker: BrokerProcess, kept: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(30)
    # Less than one batch more than what is kept, so that it is sent in one slice of the intended size.
    lost = RECORDS if kept > 65_536 else kept // 1000 + 15
    assert produce(broker, 0, lost) == [None] * lost
    assert produce(broker, 1, RECORDS) == [None] * RECORDS
    (segment,) = (broker.data / "t-0").glob("*.log")
    os.truncate(segment, kept)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition("t", 0, 0), TopicPartition("t", 1, 0)])
        healthy = 0
        deadline = time.monotonic() + 60
        while healthy < RECORDS and time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=0.5):
                healthy += message.error() is None and message.partition() == 1
        assert healthy == RECORDS
    finally:
        consumer.close()
    said = broker.log_path.read_text()
    assert f"{segment} has {kept} bytes" in said
    assert "t-0 is quarantined from offset" in said
    assert "Traceback" not in said
    # The client retries until its timeout, so the last error it reports is its own.
    (refused,) = produce(broker, 0, 1)
    assert refused is not None
    assert produce(broker, 1, 1) == [None]
