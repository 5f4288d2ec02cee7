"""Tests of consuming with librdkafka: positions, times, watermarks, limits. Partitions are assigned manually."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from tests.compat.confluent.conftest import MakeConsumer, Read, Send, take
from tests.compat.conftest import MakeTopic

START = 1_700_000_000_000


@pytest.fixture
def timed_topic(make_topic: MakeTopic, send: Send) -> str:
    """Create a topic with 100 records, one per second of CreateTime, in several batches."""
    topic = make_topic()
    send(topic, [{"value": str(n), "timestamp": START + n * 1000} for n in range(100)], batch_num_messages=7)
    return topic


def test_watermarks_are_the_first_and_the_next_offset(make_consumer: MakeConsumer, timed_topic: str) -> None:
    consumer = make_consumer()
    assert consumer.get_watermark_offsets(TopicPartition(timed_topic, 0), timeout=60) == (0, 100)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (START, 0),
        (START + 1, 1),
        (START + 41_000, 41),
        (START + 41_500, 42),
        (START - 10, 0),
        (START + 999_000, OFFSET_END),
    ],
)
def test_a_timestamp_finds_the_first_record_that_is_not_older(
    make_consumer: MakeConsumer, timed_topic: str, asked: int, expected: int
) -> None:
    consumer = make_consumer()
    (found,) = consumer.offsets_for_times([TopicPartition(timed_topic, 0, asked)], timeout=60)
    assert found.error is None
    assert found.offset == expected


def test_every_offset_can_be_a_starting_point(make_consumer: MakeConsumer, timed_topic: str) -> None:
    consumer = make_consumer()
    consumer.assign([TopicPartition(timed_topic, 0, 0)])
    take(consumer, 1)
    for offset in (99, 3, 50, 6, 7, 8, 0):
        consumer.seek(TopicPartition(timed_topic, 0, offset))
        first, *_ = take(consumer, 1)
        assert (first.offset(), first.value()) == (offset, str(offset).encode())


def test_small_fetches_read_everything_once(read: Read, timed_topic: str) -> None:
    got = read(timed_topic, 100, fetch_message_max_bytes=100, fetch_max_bytes=1_000, message_max_bytes=1_000)
    assert [one.offset() for one in got] == list(range(100))


def test_a_reader_at_the_end_is_woken_by_a_new_record(
    make_consumer: MakeConsumer, send: Send, timed_topic: str
) -> None:
    # If the long poll missed the record, it would arrive too late for the reader below.
    consumer = make_consumer(fetch_wait_max_ms=100_000, socket_timeout_ms=110_000)
    _, end = consumer.get_watermark_offsets(TopicPartition(timed_topic, 0), timeout=60)
    consumer.assign([TopicPartition(timed_topic, 0, end)])
    assert consumer.poll(1) is None
    send(timed_topic, [{"value": b"news"}])
    (news,) = take(consumer, 1)
    assert news.value() == b"news"


def test_an_offset_beyond_the_end_is_reset_by_the_reset_policy(read: Read, timed_topic: str) -> None:
    got = read(timed_topic, 1, offset=5_000, auto_offset_reset="earliest")
    assert got[0].offset() == 0


def test_many_partitions_are_read_together(make_topic: MakeTopic, send: Send, make_consumer: MakeConsumer) -> None:
    topic = make_topic(partitions=8)
    send(topic, [{"value": str(n), "partition": n % 8} for n in range(800)])
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(8)])
    got = take(consumer, 800)
    assert sorted(int(one.value() or b"-1") for one in got) == list(range(800))
    for partition in range(8):
        offsets = [one.offset() for one in got if one.partition() == partition]
        assert offsets == list(range(100))


def test_the_crc_check_of_the_client_passes(read: Read, timed_topic: str) -> None:
    assert len(read(timed_topic, 100, check_crcs=True)) == 100


def test_list_topics_names_the_cluster_and_its_leader(make_consumer: MakeConsumer, timed_topic: str) -> None:
    consumer: Consumer = make_consumer()
    metadata = consumer.list_topics(timed_topic, timeout=60)
    topic = metadata.topics[timed_topic]
    assert topic.error is None
    assert metadata.cluster_id
    assert metadata.controller_id in metadata.brokers
    assert topic.partitions[0].leader in metadata.brokers
    assert topic.partitions[0].isrs == topic.partitions[0].replicas == [topic.partitions[0].leader]


def test_read_committed_sees_plain_records(read: Read, timed_topic: str) -> None:
    assert len(read(timed_topic, 100, isolation_level="read_committed")) == 100
