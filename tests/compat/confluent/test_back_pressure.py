"""Tests of consumers that are slower than the producer: they pause, leave the group, or limit their fetches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from penstock.testing.process import BrokerProcess
from tests.compat.churn import PARTITIONS, SETTINGS, GroupTarget, new_target

SECONDS_MAX = 60.0
SESSION_MS = int(SETTINGS["group.consumer.session.timeout.ms"])
VERY_LONG = {"fetch_wait_max_ms": 4 * 60_000, "socket_timeout_ms": 5 * 60_000}
"""A fetch without records is answered long after its reader has given up."""


@pytest.fixture
def target(churn_broker: BrokerProcess) -> GroupTarget:
    return new_target(churn_broker.bootstrap)


@contextmanager
def member(target: GroupTarget, protocol: str, **settings: Any) -> Iterator[Consumer]:
    wanted = {
        "bootstrap.servers": target.bootstrap,
        "group.id": target.group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 2,
        **({"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200} if protocol == "classic" else {}),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    consumer = Consumer(wanted)
    consumer.subscribe([target.topic])
    try:
        yield consumer
    finally:
        consumer.close()


def produce(target: GroupTarget, count: int, *, size: int = 10, partitions: int = PARTITIONS) -> None:
    producer = Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 0})
    for number in range(count):
        producer.produce(target.topic, b"x" * size, partition=number % partitions)
        if size > 1000:
            producer.flush(60)  # a separate batch
    assert producer.flush(60) == 0


def poll_until(consumers: list[Consumer], holds: Callable[[], bool]) -> list[int]:
    """Poll until a condition holds; return the error codes."""
    deadline, codes = time.monotonic() + SECONDS_MAX, []
    while not holds():
        assert time.monotonic() < deadline, [len(one.assignment()) for one in consumers]
        for one in consumers:
            message = one.poll(0.02)
            error = None if message is None else message.error()
            if error is not None:
                codes.append(error.code())
    return codes


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.slow)])
def test_a_consumer_that_stops_polling_loses_its_partitions_and_may_rejoin(target: GroupTarget, protocol: str) -> None:
    with (
        member(target, protocol, max_poll_interval_ms=SESSION_MS) as slow,
        member(target, protocol, max_poll_interval_ms=60_000) as quick,
    ):
        both = [slow, quick]
        poll_until(both, lambda: all(len(one.assignment()) == PARTITIONS // 2 for one in both))
        poll_until([quick], lambda: len(quick.assignment()) == PARTITIONS)
        codes = poll_until(both, lambda: all(len(one.assignment()) == PARTITIONS // 2 for one in both))
        assert KafkaError._MAX_POLL_EXCEEDED in codes


@pytest.mark.parametrize("protocol", ["consumer", pytest.param("classic", marks=pytest.mark.slow)])
def test_a_pause_longer_than_the_session_keeps_the_member(target: GroupTarget, protocol: str) -> None:
    with member(target, protocol) as consumer:
        poll_until([consumer], lambda: len(consumer.assignment()) == PARTITIONS)
        name = consumer.memberid()
        consumer.pause(consumer.assignment())
        produce(target, PARTITIONS)
        deadline = time.monotonic() + 1.5 * SESSION_MS / 1000
        while time.monotonic() < deadline:
            assert consumer.poll(0.1) is None
        assert (consumer.memberid(), len(consumer.assignment())) == (name, PARTITIONS)
        consumer.resume(consumer.assignment())
        got: list[Any] = []
        while len(got) < PARTITIONS and time.monotonic() < deadline + SECONDS_MAX:
            got += consumer.consume(PARTITIONS, timeout=0.2)
        assert len(got) == PARTITIONS


def fetches_to_read(target: GroupTarget, count: int, **settings: Any) -> int:
    """Return the number of requests that the client needs to read this many records of the first partition."""
    sent: list[int] = []

    def counted(text: str) -> None:
        sent.append(sum(broker["req"].get("Fetch", 0) for broker in json.loads(text)["brokers"].values()))

    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": "none",
            "statistics.interval.ms": 100,
            "stats_cb": counted,
            "log_level": 2,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    try:
        consumer.assign([TopicPartition(target.topic, 0, OFFSET_BEGINNING)])
        got, deadline = 0, time.monotonic() + SECONDS_MAX
        while got < count and time.monotonic() < deadline:
            got += len([one for one in consumer.consume(count, timeout=0.1) if one.error() is None])
        assert got == count
        before = len(sent)
        while len(sent) == before:
            consumer.poll(0.1)
        return sent[-1]
    finally:
        consumer.close()


def test_a_fetch_returns_at_most_the_partition_limit(target: GroupTarget) -> None:
    produce(target, 40, size=10_000, partitions=1)
    assert fetches_to_read(target, 40, **VERY_LONG) < 10
    assert fetches_to_read(target, 40, **VERY_LONG, max_partition_fetch_bytes=21_000) >= 20
    assert fetches_to_read(target, 40, **VERY_LONG, fetch_max_bytes=21_000, message_max_bytes=20_000) >= 20


def test_a_fetch_waits_for_enough_bytes_or_long_enough(target: GroupTarget) -> None:
    produce(target, 20, partitions=1)
    assert fetches_to_read(target, 20, fetch_min_bytes=1, **VERY_LONG) <= 3
    started = time.monotonic()
    fetches_to_read(target, 20, fetch_min_bytes=1_000_000, fetch_wait_max_ms=1500)
    assert time.monotonic() - started >= 1.4
    produce(target, 100, size=20_000, partitions=1)
    # Enough bytes are available now. If the fetch waited anyway, the records would arrive too late.
    fetches_to_read(target, 20, fetch_min_bytes=1_000_000, **VERY_LONG)
