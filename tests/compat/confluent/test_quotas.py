"""Clients over their quota: held to the rate, told to wait, and no burden to the others."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.process import BrokerProcess
from tests.integration.command import penstock

RATE = 1_000_000
RECORD = b"x" * 10_000
SECONDS = 5.0
SETTLED_AFTER_S = 1.0


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        topics = [NewTopic(name, 1, 1) for name in ("limited", "free")]
        for made in admin.create_topics(topics).values():
            made.result(10)
        yield process


def quota(broker: BrokerProcess, *words: str) -> None:
    outcome = penstock("quota", *words, "--bootstrap", broker.bootstrap)
    assert outcome.code == 0, outcome.err


def produce(bootstrap: str, client_id: str, topic: str, seconds: float, **settings: object) -> list[tuple[float, int]]:
    """Produce as fast as it goes; returns when how many bytes were acknowledged."""
    acked: list[tuple[float, int]] = []
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
        acked.append((time.monotonic(), len(RECORD)))

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            producer.produce(topic, RECORD, on_delivery=delivered)
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)
    producer.purge(in_queue=True, in_flight=True, blocking=True)
    return acked


def settled_rate(passed: list[tuple[float, int]], begun: float) -> float:
    """Bytes a second after the first moments, in which what was saved up passes."""
    counted = [(when, size) for when, size in passed if when > begun + SETTLED_AFTER_S]
    return sum(size for _, size in counted[1:]) / (counted[-1][0] - counted[0][0])


def test_a_producer_is_held_to_its_quota_and_others_are_not(broker: BrokerProcess) -> None:
    quota(broker, "set", "--client-id", "limited", f"producer_byte_rate={RATE}")
    latencies: dict[str, list[float]] = {"alone": [], "beside": []}

    def probe(label: str, stop: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "free", "linger.ms": 0})
        while not stop.is_set():
            begun = time.monotonic()
            producer.produce("free", b"ping")
            producer.flush(10)
            latencies[label].append(time.monotonic() - begun)
            time.sleep(0.005)

    for label in latencies:
        stop = threading.Event()
        thread = threading.Thread(target=probe, args=(label, stop))
        thread.start()
        if label == "alone":
            time.sleep(3)
        else:
            begun = time.monotonic()
            passed = produce(broker.bootstrap, "limited", "limited", SECONDS)
        stop.set()
        thread.join()
    rate = settled_rate(passed, begun)
    assert 0.9 * RATE <= rate <= 1.1 * RATE, rate
    p99 = {label: sorted(times)[int(len(times) * 0.99)] for label, times in latencies.items()}
    # A busy machine alone can cost one of some hundred probes a few milliseconds.
    assert p99["beside"] <= 2 * p99["alone"] + 0.005, p99


def test_a_consumer_is_held_to_its_quota(broker: BrokerProcess) -> None:
    produce(broker.bootstrap, "free", "free", 2.0)
    quota(broker, "set", "--user", "ANONYMOUS", "--client-id", "default", f"consumer_byte_rate={RATE}")
    throttled: list[int] = []

    def stats(text: str) -> None:
        told = json.loads(text)
        throttled.extend(node["throttle"]["max"] for node in told["brokers"].values())

    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "reader",
            "group.id": "g",
            "statistics.interval.ms": 500,
            "stats_cb": stats,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition("free", 0, 0)])
    passed: list[tuple[float, int]] = []
    begun = time.monotonic()
    while time.monotonic() < begun + SECONDS:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            passed.append((time.monotonic(), len(message.value() or b"")))
    rate = settled_rate(passed, begun)
    assert 0.85 * RATE <= rate <= 1.1 * RATE, rate
    assert max(throttled) > 0
    # A change holds at once, also for who is muted by the old quota.
    quota(broker, "remove", "--user", "ANONYMOUS", "--client-id", "default")
    begun, more = time.monotonic(), 0
    while time.monotonic() < begun + 1.0:
        message = consumer.poll(0.05)
        more += 0 if message is None or message.error() else len(message.value() or b"")
    consumer.close()
    assert more > 2 * RATE


def test_a_producer_without_acks_is_held_too(broker: BrokerProcess) -> None:
    quota(broker, "set", "--client-id", "limited", f"producer_byte_rate={RATE}")
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "end"})
    place = TopicPartition("limited", 0)
    first = reader.get_watermark_offsets(place, timeout=5)[1]
    begun = time.monotonic()
    produce(broker.bootstrap, "limited", "limited", 3.0, acks=0)
    written = (reader.get_watermark_offsets(place, timeout=5)[1] - first) * len(RECORD)
    reader.close()
    assert written <= 1.1 * RATE * (time.monotonic() - begun) + RATE / 2


def test_quotas_survive_a_restart(broker: BrokerProcess) -> None:
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
