"""Tests of clients above their quota: they are limited and throttled, and do not affect others."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.process import BrokerProcess
from tests.support.command import penstock
from tests.support.eventually import eventually
from tests.support.sharing import Sharing

RATE = 1_000_000
RECORD = b"x" * 10_000
SECONDS = 3.0
SAVED_UP_S = 1.5


@contextmanager
def with_topics() -> Iterator[BrokerProcess]:
    with BrokerProcess() as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        topics = [NewTopic(name, 1, 1) for name in ("limited", "free", "read")]
        for made in admin.create_topics(topics).values():
            made.result(60)
        yield process


@pytest.fixture
def broker(sharing: Sharing) -> BrokerProcess:
    return sharing.of(with_topics)


def quota(broker: BrokerProcess, *words: str) -> None:
    outcome = penstock("quota", *words, "--bootstrap", broker.bootstrap)
    assert outcome.code == 0, outcome.err


def produce(bootstrap: str, client_id: str, topic: str, seconds: float, **settings: object) -> list[int]:
    """Produce as fast as possible; return the acknowledged sizes."""
    acked: list[int] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "linger.ms": 5,
            "batch.size": 100_000,
            "queue.buffering.max.kbytes": 1024,
            "log_level": 2,
            **settings,
        }
    )

    def delivered(error: object, message: object) -> None:
        assert error is None, error
        acked.append(len(RECORD))

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            producer.produce(topic, RECORD, on_delivery=delivered)
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)
    producer.purge(in_queue=True, in_flight=True, blocking=True)
    return acked


def fill(bootstrap: str, topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "free", "linger.ms": 5})
    for _ in range(size // len(RECORD)):
        producer.produce(topic, RECORD)
        producer.poll(0)
    assert producer.flush(60) == 0


def most(seconds: float) -> float:
    """Return the maximum for a time: the rate, the unused quota, and the data in flight."""
    return RATE * (seconds + SAVED_UP_S)


def throttle_times(text: str) -> list[int]:
    """Return the throttle times, in ms, in the client's statistics."""
    return [node["throttle"]["max"] for node in json.loads(text)["brokers"].values()]


def test_a_producer_is_limited_to_its_quota_and_others_are_not(broker: BrokerProcess) -> None:
    quota(broker, "set", "--client-id", "limited", f"producer_byte_rate={RATE}")
    throttled: dict[str, list[int]] = {"limited": [], "free": []}

    def listening(client_id: str) -> dict[str, object]:
        times = throttled[client_id]
        return {"statistics.interval.ms": 100, "stats_cb": lambda text: times.extend(throttle_times(text))}

    over = threading.Event()
    sent: list[int] = []

    def probe() -> None:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "client.id": "free", "linger.ms": 0, **listening("free")}
        )
        while not over.is_set():
            producer.produce("free", b"ping")
            assert producer.flush(60) == 0
            sent.append(1)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        begun = time.monotonic()
        acked = produce(broker.bootstrap, "limited", "limited", SECONDS, **listening("limited"))
        took_s = time.monotonic() - begun
    finally:
        over.set()
        thread.join()
    assert 0 < sum(acked) <= most(took_s)
    assert max(throttled["limited"]) > 0
    assert sent and max(throttled["free"], default=0) == 0


def test_a_consumer_is_limited_to_its_quota(broker: BrokerProcess) -> None:
    fill(broker.bootstrap, "read", 20 * RATE)
    limited = ("--user", "ANONYMOUS", "--client-id", "default")
    quota(broker, "set", *limited, f"consumer_byte_rate={RATE}")
    throttled: list[int] = []
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "reader",
            "group.id": "g",
            "statistics.interval.ms": 100,
            "stats_cb": lambda text: throttled.extend(throttle_times(text)),
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition("read", 0, 0)])

    def read() -> int:
        message = consumer.poll(0.1)
        return 0 if message is None or message.error() else len(message.value() or b"")

    begun, passed = time.monotonic(), 0
    while time.monotonic() < begun + SECONDS:
        passed += read()
    # The client prefetches more than it returns, and the quota counts what is fetched.
    assert 0 < passed <= most(time.monotonic() - begun)
    assert max(throttled) > 0
    # A change takes effect immediately, even for a client muted by the old quota, under which this would take minutes.
    quota(broker, "set", *limited, f"consumer_byte_rate={RATE / 1000}")
    throttled.clear()
    eventually(lambda: read() >= 0 and max(throttled, default=0) > 0, what="a throttled fetch")
    quota(broker, "remove", *limited)
    more = 0

    def is_much() -> bool:
        nonlocal more
        more += read()
        return more > 5 * RATE

    eventually(is_much, what="five seconds' worth of records")
    consumer.close()


def test_a_producer_without_acks_is_limited_too(broker: BrokerProcess) -> None:
    quota(broker, "set", "--client-id", "limited", f"producer_byte_rate={RATE}")
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "end"})
    partition = TopicPartition("limited", 0)
    first = reader.get_watermark_offsets(partition, timeout=60)[1]
    begun = time.monotonic()
    produce(broker.bootstrap, "limited", "limited", SECONDS, acks=0)
    written = (reader.get_watermark_offsets(partition, timeout=60)[1] - first) * len(RECORD)
    reader.close()
    assert 0 < written <= most(time.monotonic() - begun)


def test_quotas_survive_a_restart(broker: BrokerProcess) -> None:
    quota(broker, "set", "--client-id", "limited", f"producer_byte_rate={RATE}")
    quota(broker, "set", "--ip", "default", "connection_creation_rate=1000")
    broker.kill()
    broker.start()
    rows = penstock("quota", "list", "--format", "json", "--bootstrap", broker.bootstrap).json()
    assert {(row["client-id"], row["ip"], row["quota"], row["value"]) for row in rows} == {
        ("limited", None, "producer_byte_rate", RATE),
        (None, "default", "connection_creation_rate", 1000),
    }
    quota(broker, "remove", "--ip", "default", "connection_creation_rate")
    refused = penstock("quota", "set", "--ip", "default", "producer_byte_rate=1", "--bootstrap", broker.bootstrap)
    assert refused.code == 1 and "Invalid configuration key producer_byte_rate" in refused.err
