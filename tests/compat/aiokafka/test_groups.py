"""Tests of aiokafka's group consumers: assignment, rebalances, commits, and resuming."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from tests.compat.conftest import MakeTopic

SECONDS_MAX = 60


@asynccontextmanager
async def consumer(bootstrap: str, topic: str, group: str, **settings: Any) -> AsyncIterator[Any]:
    wanted = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 300, **settings}
    made = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **wanted)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def produce(bootstrap: str, topic: str, count: int, partitions: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            await producer.send(topic, value=b"%d" % number, partition=number % partitions)
        await producer.flush()


async def until(holds: Callable[[], bool], work: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not holds():
            await work()


async def test_a_group_resumes_at_its_committed_offset(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    await produce(bootstrap, topic, 20, 2)
    async with consumer(bootstrap, topic, f"{topic}-group") as one, asyncio.timeout(SECONDS_MAX):
        got = [await one.getone() for _ in range(20)]
        assert sorted(int(record.value) for record in got) == list(range(20))
        await one.commit({TopicPartition(topic, 0): (10, "a note"), TopicPartition(topic, 1): 7})
    async with consumer(bootstrap, topic, f"{topic}-group") as again, asyncio.timeout(SECONDS_MAX):
        assert await again.committed(TopicPartition(topic, 0)) == 10
        got = [await again.getone() for _ in range(3)]
        assert {(record.partition, record.offset) for record in got} == {(1, 7), (1, 8), (1, 9)}


async def test_two_members_share_and_one_takes_over(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=4)
    group = f"{topic}-group"
    async with consumer(bootstrap, topic, group) as first:
        await until(lambda: len(first.assignment()) == 4, lambda: first.getmany(timeout_ms=50))
        async with consumer(bootstrap, topic, group) as second:

            async def both() -> None:
                await asyncio.gather(first.getmany(timeout_ms=50), second.getmany(timeout_ms=50))

            await until(lambda: len(first.assignment()) == len(second.assignment()) == 2, both)
            assert first.assignment() | second.assignment() == {TopicPartition(topic, index) for index in range(4)}
        await until(lambda: len(first.assignment()) == 4, lambda: first.getmany(timeout_ms=50))


async def test_a_static_member_keeps_its_partitions(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    group = f"{topic}-group"
    for _ in range(2):
        async with consumer(bootstrap, topic, group, group_instance_id="one", session_timeout_ms=10_000) as one:
            await until(lambda: len(one.assignment()) == 2, lambda: one.getmany(timeout_ms=50))
            assert one.assignment() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}


async def test_the_admin_client_sees_the_group(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    group = f"{topic}-group"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        async with consumer(bootstrap, topic, group) as one:
            await until(lambda: len(one.assignment()) == 2, lambda: one.getmany(timeout_ms=50))
            await one.commit({TopicPartition(topic, 0): 0})
            assert (group, "consumer") in await admin.list_consumer_groups()
            (described,) = await admin.describe_consumer_groups([group])
            assert described.groups[0][2] == "Stable"
            offsets = await admin.list_consumer_group_offsets(group)
            assert offsets[TopicPartition(topic, 0)].offset == 0
    finally:
        await admin.close()
