"""Transactions under load: how many small ones per second, and their cost for a steady stream of records.

The load comes from confluent-kafka: a transaction is a few round trips, so the broker's coordinators are measured. The
stream is measured in transactions of a tenth of a second and without transactions.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks.load import Load
from benchmarks.targets import Target

SMALL_COUNT = 2_000
STREAM_SECONDS = 8.0
TRANSACTION_S = 0.1
RECORD = b"x" * 1000
Figures = dict[str, float]


def small_transactions(load: Load, target: Target, scale: float) -> Figures:
    """Commit one small record and the offsets of one group, repeatedly."""
    topic = target.new_topic()
    producer = _producer(target, transactional=True)
    consumer = Consumer({"bootstrap.servers": target.server.bootstrap, "group.id": f"bench-{topic}", "log_level": 3})
    _give_flush_mode(target)
    many = max(50, int(SMALL_COUNT * scale))
    began = 0.0
    for number in range(-10, many):
        if number == 0:
            began = time.monotonic()
        producer.begin_transaction()
        producer.produce(topic, b"one small record")
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, max(number, 0))], consumer.consumer_group_metadata()
        )
        producer.commit_transaction()
    seconds = time.monotonic() - began
    consumer.close()
    target.delete_topic(topic)
    return {"transactions/s": many / seconds}


def stream(*, transactional: bool) -> Callable[[Load, Target, float], Figures]:
    """Send records of 1 KB as fast as possible, in transactions of a tenth of a second or without."""

    def run(load: Load, target: Target, scale: float) -> Figures:
        topic = target.new_topic()
        producer = _producer(target, transactional=transactional)
        if transactional:
            _give_flush_mode(target)
        seconds = max(2.0, STREAM_SECONDS * scale)
        began = time.monotonic()
        count = 0
        while (now := time.monotonic()) < began + seconds:
            if transactional:
                producer.begin_transaction()
            while time.monotonic() < now + TRANSACTION_S:
                count += _produce_some(producer, topic)
            if transactional:
                producer.commit_transaction()
        producer.flush(60)
        elapsed = time.monotonic() - began
        target.delete_topic(topic)
        return {"records/s": count / elapsed}

    return run


def _produce_some(producer: Producer, topic: str) -> int:
    for number in range(1000):
        try:
            producer.produce(topic, RECORD)
        except BufferError:
            producer.poll(0.01)
            return number
    producer.poll(0)
    return 1000


def _producer(target: Target, *, transactional: bool) -> Producer:
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": target.server.bootstrap,
        "linger.ms": 5,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 100_000,
        "log_level": 3,
    }
    if not transactional:
        return Producer(settings)
    producer = Producer({**settings, "transactional.id": f"bench-{time.monotonic_ns()}"})
    producer.init_transactions(30)
    return producer


def _give_flush_mode(target: Target) -> None:
    """Set the flush mode of the coordinators' topics, which exist by now, to that of the target."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in target.topic_config
        if name == "flush.mode"
    ]
    admin = AdminClient({"bootstrap.servers": target.server.bootstrap, "log_level": 3})
    internal = [name for name in admin.list_topics(timeout=10).topics if name.startswith("__")]
    resources = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries) for name in internal]
    if entries and resources:
        for answer in admin.incremental_alter_configs(resources).values():
            answer.result(timeout=15)
