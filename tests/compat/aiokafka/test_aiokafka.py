"""Tests of aiokafka: produce, consume and administer from asyncio."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError

from tests.compat.conftest import MakeTopic

START = 1_700_000_000_000
SECONDS_MAX = 60


async def read_all(bootstrap: str, topic: str, count: int, *, offset: int = 0, partition: int = 0) -> list[object]:
    """Read `count` records of one partition, starting at an offset."""
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.seek(where, offset)
        async with asyncio.timeout(SECONDS_MAX):
            return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_with_every_acks_arrives_in_order(
    bootstrap: str, make_topic: MakeTopic, codec: str | None, acks: int | str
) -> None:
    topic = make_topic()
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks=acks, compression_type=codec, linger_ms=5
    ) as producer:
        for number in range(50):
            await producer.send(topic, key=b"k%d" % number, value=b"v%d" % number * 20)
        await producer.flush()
    got = await read_all(bootstrap, topic, 50)
    assert [(one.offset, one.key, one.value) for one in got] == [  # type: ignore[attr-defined]
        (n, b"k%d" % n, b"v%d" % n * 20) for n in range(50)
    ]


async def test_an_idempotent_producer_gets_increasing_offsets(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        offsets = [(await producer.send_and_wait(topic, b"%d" % number)).offset for number in range(20)]
    assert offsets == list(range(20))


async def test_headers_and_timestamps_survive(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        metadata = await producer.send_and_wait(topic, b"v", headers=headers, timestamp_ms=START)
    assert (metadata.offset, metadata.timestamp, metadata.timestamp_type) == (0, START, 0)
    (got,) = await read_all(bootstrap, topic, 1)
    assert list(got.headers) == headers  # type: ignore[attr-defined]
    assert got.timestamp == START  # type: ignore[attr-defined]


async def test_log_append_time_is_returned_in_the_metadata(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        metadata = await producer.send_and_wait(topic, b"v", timestamp_ms=START)
    assert metadata.timestamp_type == 1
    assert abs(metadata.timestamp - time.time() * 1000) < 20_000


async def test_a_record_too_large_for_the_topic_is_rejected(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"max.message.bytes": "1000"})
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, b"x" * 5000)


async def test_offsets_by_time_and_at_both_ends(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for number in range(10):
            await producer.send_and_wait(topic, b"v", timestamp_ms=START + number * 1000)
    where = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([where])
        assert await consumer.beginning_offsets([where]) == {where: 0}
        assert await consumer.end_offsets([where]) == {where: 10}
        found = await consumer.offsets_for_times({where: START + 4500})
        assert (found[where].offset, found[where].timestamp) == (5, START + 5000)


async def test_reading_may_start_inside_a_batch(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        await asyncio.gather(*[await producer.send(topic, b"%d" % number) for number in range(20)])
    got = await read_all(bootstrap, topic, 7, offset=13)
    assert [one.offset for one in got] == list(range(13, 20))  # type: ignore[attr-defined]


async def test_topics_are_created_extended_described_and_deleted(bootstrap: str) -> None:
    name = f"aiokafka-{time.time_ns()}"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        created = await admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
        assert created.topic_errors[0][1] == 0
        await admin.create_partitions({name: NewPartitions(3)})
        async with asyncio.timeout(SECONDS_MAX):
            while len((await admin.describe_topics([name]))[0]["partitions"]) != 3:  # noqa: ASYNC110 - a remote state
                await asyncio.sleep(0.02)
        (described,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        assert "retention.ms" in str(described)
        deleted = await admin.delete_topics([name])
        assert deleted.topic_error_codes == [(name, 0)]
    finally:
        await admin.close()
