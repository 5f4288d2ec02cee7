"""Helpers that produce and consume with kafka-python."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from tests.compat.kafka_python.sockets import closing_sockets

MakeProducer = Callable[..., KafkaProducer]
ReadAll = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def client_sockets() -> Iterator[list[socket.socket]]:
    with closing_sockets() as opened:
        yield opened


@pytest.fixture
def make_producer(bootstrap: str) -> Iterator[MakeProducer]:
    opened: list[KafkaProducer] = []

    def make(**settings: Any) -> KafkaProducer:
        producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
        opened.append(producer)
        return producer

    yield make
    for producer in opened:
        producer.close(timeout=5)


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[KafkaConsumer]:
    with_no_group = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest", fetch_max_wait_ms=100
    )
    yield with_no_group
    with_no_group.close()


@pytest.fixture
def read_all(consumer: KafkaConsumer) -> ReadAll:
    """Read `count` records of one partition, starting at an offset."""

    def run(topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Any]:
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.seek(where, offset)
        got: list[Any] = []
        for _ in range(30):
            got += consumer.poll(timeout_ms=500).get(where, [])
            if len(got) >= count:
                break
        assert len(got) == count
        return got

    return run


@pytest.fixture
def python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()
