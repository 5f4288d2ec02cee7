"""Tests of kafka-python's transactional producer and read_committed consumers."""

from __future__ import annotations

import time

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from tests.compat.conftest import MakeTopic

SECONDS_MAX = 60


def read(bootstrap: str, topic: str, isolation: str, count: int) -> list[bytes]:
    """Return what a reader sees from the start, waiting slightly longer than needed for this many records."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest", fetch_max_wait_ms=100
    )
    try:
        partitions = [TopicPartition(topic, index) for index in range(2)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        got: list[bytes] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(got) < count:
            assert time.monotonic() < deadline, got
            for records in consumer.poll(timeout_ms=200).values():
                got += [record.value for record in records]
        for records in consumer.poll(timeout_ms=300).values():
            got += [record.value for record in records]
        return sorted(got)
    finally:
        consumer.close()


def new_producer(bootstrap: str, transactional_id: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    return producer


def test_committed_transactions_are_seen_and_aborted_ones_are_not(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    producer = new_producer(bootstrap, f"id-of-{topic}")
    for number in range(4):
        producer.begin_transaction()
        for index in range(2):
            producer.send(topic, b"%d/%d" % (number, index), partition=index).get(SECONDS_MAX)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    assert read(bootstrap, topic, "read_committed", 4) == [b"0/0", b"0/1", b"2/0", b"2/1"]
    assert len(read(bootstrap, topic, "read_uncommitted", 8)) == 8


def test_offsets_are_committed_with_the_transaction_or_not_at_all(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    group = f"group-of-{topic}"
    partition = TopicPartition(topic, 1)
    producer = new_producer(bootstrap, f"id-of-{topic}")
    for offset, is_commit in ((5, True), (9, False)):
        producer.begin_transaction()
        producer.send(topic, b"%d" % offset, partition=0).get(SECONDS_MAX)
        producer.send_offsets_to_transaction({partition: OffsetAndMetadata(offset, "", -1)}, group)
        if is_commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    assert consumer.committed(partition) == 5
    consumer.close()
    assert read(bootstrap, topic, "read_committed", 1) == [b"5"]


def test_a_new_producer_fences_the_previous_one(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    name = f"id-of-{topic}"
    zombie = new_producer(bootstrap, name)
    zombie.begin_transaction()
    zombie.send(topic, b"zombie", partition=0).get(SECONDS_MAX)
    newer = new_producer(bootstrap, name)
    newer.begin_transaction()
    newer.send(topic, b"newer", partition=0).get(SECONDS_MAX)
    newer.commit_transaction()
    newer.close()
    with pytest.raises(KafkaError):
        zombie.commit_transaction()
    zombie.close(timeout=1)
    assert read(bootstrap, topic, "read_committed", 1) == [b"newer"]
