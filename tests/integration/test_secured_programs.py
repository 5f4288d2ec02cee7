"""The worker and the client that Spark uses, on a secured broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from penstock.worker import Record, Worker
from penstock_client.connect import connection_options


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    pytest.importorskip("cryptography")
    with Broker(secure=True) as broker:
        yield broker


def produce(broker: Broker, topic: str) -> None:
    from confluent_kafka import Producer

    producer = Producer(dict(broker.client_properties))
    for number in range(3):
        producer.produce(topic, str(number))
    assert producer.flush(60) == 0


def test_a_worker_logs_in(secured: Broker) -> None:
    produce(secured, "work")
    seen: list[bytes | None] = []

    def handle(record: Record) -> None:
        seen.append(record.value)

    security = {name: value for name, value in secured.client_properties.items() if name != "bootstrap.servers"}
    worker = Worker(handle, topics=["work"], group="workers", bootstrap=secured.bootstrap, client=security)
    assert worker.run(idle_stop_s=0.3).succeeded == 3
    assert sorted(filter(None, seen)) == [b"0", b"1", b"2"]


def test_the_client_of_the_spark_source_logs_in(secured: Broker) -> None:
    produce(secured, "scanned")
    with connection_options(secured.client_properties).cluster() as cluster:
        assert cluster.topic("scanned").name == "scanned"
