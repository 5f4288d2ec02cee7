"""Tests of kafka-python's group consumers: assignment, rebalances, commits, and resuming."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata, TopicPartition

from tests.compat.conftest import MakeTopic
from tests.compat.kafka_python.conftest import MakeProducer

SECONDS_MAX = 60


@contextmanager
def consumer(bootstrap: str, topic: str, **settings: Any) -> Iterator[KafkaConsumer]:
    wanted = {
        "group_id": f"{topic}-group",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 300,
        "fetch_max_wait_ms": 100,
        **settings,
    }
    made = KafkaConsumer(topic, bootstrap_servers=bootstrap, **wanted)
    # If kafka-python joins before it has the topic's metadata, it joins again, and sometimes never reads afterwards.
    # Without a delay of the first rebalance, the group is often faster than the metadata.
    made.partitions_for_topic(topic)
    try:
        yield made
    finally:
        made.close()


def poll_until(made: list[KafkaConsumer], holds: Callable[[], bool]) -> list[Any]:
    got: list[Any] = []
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, [one.assignment() for one in made]
        for one in made:
            got += [record for records in one.poll(timeout_ms=50).values() for record in records]
    return got


def read(one: KafkaConsumer, count: int) -> list[Any]:
    got: list[Any] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count}"
        got += [record for records in one.poll(timeout_ms=50).values() for record in records]
    return got


def test_a_group_resumes_at_its_committed_offset(
    bootstrap: str, make_topic: MakeTopic, make_producer: MakeProducer
) -> None:
    topic = make_topic(partitions=2)
    producer = make_producer()
    for number in range(20):
        producer.send(topic, value=b"%d" % number, partition=number % 2)
    producer.flush(timeout=60)
    with consumer(bootstrap, topic) as one:
        assert sorted(int(record.value) for record in read(one, 20)) == list(range(20))
        one.commit({TopicPartition(topic, 0): OffsetAndMetadata(10, "a note", 0)})
        one.commit({TopicPartition(topic, 1): OffsetAndMetadata(7, "", -1)})
        found = one.committed(TopicPartition(topic, 0), metadata=True)
        assert (found.offset, found.metadata) == (10, "a note")
    with consumer(bootstrap, topic) as again:
        assert {(record.partition, record.offset) for record in read(again, 3)} == {(1, 7), (1, 8), (1, 9)}


def test_two_members_share_and_one_takes_over(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=4)
    with consumer(bootstrap, topic) as first:
        poll_until([first], lambda: len(first.assignment()) == 4)
        with consumer(bootstrap, topic) as second:
            poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2)
            assert first.assignment() | second.assignment() == {TopicPartition(topic, index) for index in range(4)}
        poll_until([first], lambda: len(first.assignment()) == 4)


def test_the_admin_client_sees_changes_and_deletes_the_group(
    bootstrap: str, make_topic: MakeTopic, kafka_admin: KafkaAdminClient
) -> None:
    topic = make_topic(partitions=2)
    group = f"{topic}-group"
    with consumer(bootstrap, topic) as one:
        poll_until([one], lambda: len(one.assignment()) == 2)
        one.commit({TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1)})
        assert group in str(kafka_admin.list_groups())
        assert "Stable" in str(kafka_admin.describe_groups([group]))
    assert "Empty" in str(kafka_admin.describe_groups([group]))
    kafka_admin.delete_groups([group])
    assert group not in str(kafka_admin.list_groups())


@pytest.fixture
def kafka_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()
