"""Fixtures: a broker whose groups form without delay, and helpers that fill topics."""

import itertools
from collections.abc import Callable, Iterable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker

_numbers = itertools.count(1)

# Without a delay a group starts with its first member; a killed member is removed after a second.
GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}

Fill = Callable[..., str]


@pytest.fixture(scope="session")
def group_broker() -> Iterator[Broker]:
    """Provide one broker for all tests with groups; use unique topics and groups."""
    with Broker(GROUP_SETTINGS) as broker:
        yield broker


@pytest.fixture
def fill(group_broker: Broker) -> Fill:
    """Create a topic, write (key, value) records to it, and return its name."""

    def run(records: Iterable[tuple[str | None, str]] = (), *, partitions: int = 1, topic: str | None = None) -> str:
        if topic is None:
            topic = f"filled-{next(_numbers)}"
            admin = AdminClient({"bootstrap.servers": group_broker.bootstrap})
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
        producer = Producer({"bootstrap.servers": group_broker.bootstrap, "acks": "all", "linger.ms": 5})
        for key, value in records:
            producer.produce(topic, value, key, headers=[("n", value[:20].encode())])
        assert producer.flush(60) == 0
        return topic

    return run
