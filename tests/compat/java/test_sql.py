"""Tests of SQL on Apache Kafka, over the standard protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.sqlview import query
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import JavaMissing

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    try:
        peer = ApacheKafka()
    except JavaMissing as reason:
        pytest.skip(str(reason))
    with peer:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap})
        admin.create_topics([NewTopic("orders", 2, 1, config={"retention.ms": "86400000"})])["orders"].result(60)
        producer = Producer({"bootstrap.servers": peer.bootstrap})
        for number in range(100):
            producer.produce("orders", key=f"k{number % 5}", value=f'{{"id": {number}}}', partition=number % 2)
        assert producer.flush(60) == 0
        yield peer.bootstrap


def test_tables_are_filled_from_apache_kafka(bootstrap: str) -> None:
    (topic,) = query("SELECT * FROM Topic WHERE name = 'orders'", bootstrap=bootstrap).dicts()
    assert (topic["partition_count"], topic["replication_factor"], topic["retention_ms"]) == (2, 1, 86_400_000)
    (brokers,) = query("SELECT count(*) AS n FROM Broker", bootstrap=bootstrap).dicts()
    assert brokers["n"] == 1
    least = {"Partition": 2, "Replica": 2, "Config": 2, "Producer": 0, "ConsumerGroup": 0, "PartitionAssignment": 0,
             "GroupState": 0, "Member": 0, "Lag": 0, "ProducerTransaction": 0, "Quota": 0}  # fmt: skip
    for name, count in least.items():
        (counted,) = query(f"SELECT count(*) AS n FROM {name}", bootstrap=bootstrap).dicts()
        assert counted["n"] >= count, name


def test_records_are_read_from_apache_kafka(bootstrap: str) -> None:
    found = query(
        "SELECT key, count(*) AS n, sum((value->>'$.id')::BIGINT) AS total FROM topic('orders') "
        'WHERE "offset" < 40 GROUP BY key ORDER BY key',
        bootstrap=bootstrap,
    ).dicts()
    assert [(row["key"], row["n"]) for row in found] == [(f"k{number}", 16) for number in range(5)]
    assert sum(row["total"] for row in found) == sum(range(80))
