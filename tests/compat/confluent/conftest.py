"""Helpers that produce and consume with confluent-kafka."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

READ_SECONDS_MAX = 60.0
_groups = itertools.count(1)

Send = Callable[..., list[Message]]
Read = Callable[..., list[Message]]
MakeConsumer = Callable[..., Consumer]


@pytest.fixture
def make_consumer(bootstrap: str) -> Iterator[MakeConsumer]:
    opened: list[Consumer] = []

    def make(**settings: Any) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"unused-{next(_groups)}",  # required by the client; assign() does not join a group
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        opened.append(consumer)
        return consumer

    yield make
    for consumer in opened:
        consumer.close()


@pytest.fixture
def send(bootstrap: str) -> Send:
    """Produce messages and return the delivery reports; raise the first error."""

    def run(topic: str, messages: Iterable[dict[str, Any]], **settings: Any) -> list[Message]:
        reports: list[Message] = []
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
            reports.append(message)

        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **dotted})
        for message in messages:
            producer.produce(topic, on_delivery=delivered, **message)
            producer.poll(0)
        assert producer.flush(60) == 0
        if errors:
            raise KafkaException(errors[0])
        return reports

    return run


@pytest.fixture
def read(make_consumer: MakeConsumer) -> Read:
    """Read `count` messages of one partition, starting at an offset."""

    def run(
        topic: str, count: int, *, partition: int = 0, offset: int = OFFSET_BEGINNING, **settings: Any
    ) -> list[Message]:
        consumer = make_consumer(**settings)
        consumer.assign([TopicPartition(topic, partition, offset)])
        return take(consumer, count)

    return run


def take(consumer: Consumer, count: int) -> list[Message]:
    """Read exactly `count` messages, skipping end-of-partition events."""
    taken: list[Message] = []
    polls = int(READ_SECONDS_MAX / 0.5)
    while len(taken) < count and polls > 0:
        polls -= 1
        for message in consumer.consume(count - len(taken), timeout=0.5):
            error = message.error()
            if error is None:
                taken.append(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
    assert len(taken) == count, f"{len(taken)} of {count} messages arrived within {READ_SECONDS_MAX:.0f} s"
    return taken
