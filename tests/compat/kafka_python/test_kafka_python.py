"""Tests of kafka-python 3: produce, consume, look up, administer. It uses the newest version of every API it knows."""

from __future__ import annotations

import time
import uuid

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import InvalidTopicError, MessageSizeTooLargeError, TopicAlreadyExistsError

from tests.compat.conftest import MakeTopic
from tests.compat.kafka_python.conftest import MakeProducer, ReadAll
from tests.support.eventually import eventually

START = 1_700_000_000_000


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", [None, "gzip"])
def test_records_arrive_in_order(
    make_topic: MakeTopic, make_producer: MakeProducer, read_all: ReadAll, codec: str | None, acks: int | str
) -> None:
    topic = make_topic()
    producer = make_producer(acks=acks, compression_type=codec, enable_idempotence=acks == "all")
    for number in range(100):
        producer.send(topic, key=b"k%d" % number, value=b"v%d" % number)
    producer.flush(timeout=60)
    got = read_all(topic, 100)
    assert [(one.offset, one.key, one.value) for one in got] == [(n, b"k%d" % n, b"v%d" % n) for n in range(100)]


def test_headers_timestamps_and_nulls_survive(
    make_topic: MakeTopic, make_producer: MakeProducer, read_all: ReadAll
) -> None:
    topic = make_topic()
    headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    sent = make_producer().send(topic, key=None, value=b"v", headers=headers, timestamp_ms=START, partition=0)
    metadata = sent.get(timeout=60)
    (got,) = read_all(topic, 1)
    assert (metadata.offset, metadata.timestamp) == (0, START)
    assert (got.key, got.value, got.timestamp, list(got.headers)) == (None, b"v", START, headers)


def test_a_record_too_large_for_the_topic_is_rejected(make_topic: MakeTopic, make_producer: MakeProducer) -> None:
    topic = make_topic(config={"max.message.bytes": "1000"})
    with pytest.raises(MessageSizeTooLargeError):
        make_producer().send(topic, value=b"x" * 5000).get(timeout=60)


def test_offsets_by_time_and_at_both_ends(
    make_topic: MakeTopic, make_producer: MakeProducer, consumer: KafkaConsumer
) -> None:
    topic = make_topic()
    producer = make_producer()
    for number in range(10):
        producer.send(topic, value=b"v", timestamp_ms=START + number * 1000)
    producer.flush(timeout=60)
    where = TopicPartition(topic, 0)
    assert consumer.beginning_offsets([where]) == {where: 0}
    assert consumer.end_offsets([where]) == {where: 10}
    found = consumer.offsets_for_times({where: START + 4500})
    assert (found[where].offset, found[where].timestamp) == (5, START + 5000)
    assert consumer.offsets_for_times({where: START + 99_000}) == {where: None}


def test_reading_may_start_inside_a_batch(
    make_topic: MakeTopic, make_producer: MakeProducer, read_all: ReadAll
) -> None:
    topic = make_topic()
    producer = make_producer(linger_ms=50)
    for number in range(20):
        producer.send(topic, value=b"%d" % number)
    producer.flush(timeout=60)
    assert [one.offset for one in read_all(topic, 7, offset=13)] == list(range(13, 20))


def test_topics_are_created_described_extended_and_deleted(python_admin: KafkaAdminClient) -> None:
    name = f"kafka-python-{time.time_ns()}"
    python_admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
    (described,) = python_admin.describe_topics([name])
    assert len(described["partitions"]) == 2
    with pytest.raises(TopicAlreadyExistsError):
        python_admin.create_topics({name: {}})
    python_admin.create_partitions({name: 5})
    eventually(lambda: len(python_admin.describe_topics([name])[0]["partitions"]) == 5)
    python_admin.delete_topics([name])
    eventually(lambda: name not in python_admin.list_topics())
    with pytest.raises(InvalidTopicError):
        python_admin.create_topics({"no/slash": {"num_partitions": 1}})


def test_topics_can_be_described_by_id(python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    name = make_topic()
    (by_name,) = python_admin.describe_topics([name])
    (by_id,) = python_admin.describe_topics([uuid.UUID(str(by_name["topic_id"]))])
    assert by_id["name"] == name


def test_configs_are_described_and_altered(python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    name = make_topic(config={"retention.ms": "5000"})
    topic = ConfigResource(ConfigResourceType.TOPIC, name)

    def modified() -> object:
        return python_admin.describe_configs([topic])

    assert "retention.ms" in str(modified())
    python_admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"segment.ms": "70000"})])
    eventually(lambda: "70000" in str(modified()))
    assert "retention.ms" in str(modified()), "an incremental change must not affect other options"


def test_records_are_deleted_up_to_an_offset(
    python_admin: KafkaAdminClient, make_topic: MakeTopic, make_producer: MakeProducer, consumer: KafkaConsumer
) -> None:
    topic = make_topic()
    producer = make_producer()
    for _ in range(10):
        producer.send(topic, value=b"v")
    producer.flush(timeout=60)
    where = TopicPartition(topic, 0)
    python_admin.delete_records({where: 4})
    assert consumer.beginning_offsets([where]) == {where: 4}


def test_the_cluster_and_its_log_folders_are_described(python_admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    cluster = python_admin.describe_cluster()
    assert cluster["cluster_id"]
    assert len(cluster["brokers"]) == 1
    assert topic in str(python_admin.describe_log_dirs([topic]))
