"""Tests of aiokafka's transactional producer and read_committed consumers."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from tests.compat.conftest import MakeTopic

SECONDS_MAX = 60


async def read(bootstrap: str, topic: str, isolation: str, count: int) -> list[bytes]:
    """Return what a reader sees from the start, waiting slightly longer than needed for this many records."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest", fetch_max_wait_ms=100
    )
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, index) for index in range(2)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        got: list[bytes] = []
        async with asyncio.timeout(SECONDS_MAX):
            while len(got) < count:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    got += [record.value for record in records]
            for records in (await consumer.getmany(timeout_ms=300)).values():
                got += [record.value for record in records]
        return sorted(got)
    finally:
        await consumer.stop()


async def test_committed_transactions_are_seen_and_aborted_ones_are_not(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"id-of-{topic}") as producer:
        for number in range(4):
            await producer.begin_transaction()
            for index in range(2):
                await producer.send_and_wait(topic, b"%d/%d" % (number, index), partition=index)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    assert await read(bootstrap, topic, "read_committed", 4) == [b"0/0", b"0/1", b"2/0", b"2/1"]
    assert len(await read(bootstrap, topic, "read_uncommitted", 8)) == 8


async def test_offsets_are_committed_with_the_transaction_or_not_at_all(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    group = f"group-of-{topic}"
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"id-of-{topic}") as producer:
        async with producer.transaction():
            await producer.send(topic, b"first", partition=0)
            await producer.send_offsets_to_transaction({TopicPartition(topic, 1): 5}, group)
        with pytest.raises(RuntimeError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"second", partition=0)
                await producer.send_offsets_to_transaction({TopicPartition(topic, 1): 9}, group)
                raise RuntimeError("something went wrong")
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        assert await consumer.committed(TopicPartition(topic, 1)) == 5
    finally:
        await consumer.stop()
    assert await read(bootstrap, topic, "read_committed", 1) == [b"first"]


async def test_a_new_producer_fences_the_previous_one(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    name = f"id-of-{topic}"
    zombie = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    await zombie.start()
    await zombie.begin_transaction()
    await zombie.send_and_wait(topic, b"zombie", partition=0)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as newer, newer.transaction():
        await newer.send_and_wait(topic, b"newer", partition=0)
    with pytest.raises(ProducerFenced):
        await zombie.commit_transaction()
    await zombie.stop()
    assert await read(bootstrap, topic, "read_committed", 1) == [b"newer"]
