"""SQL over records: a million JSON values from the live log, aggregated by DuckDB."""

from __future__ import annotations

import json
import time

from confluent_kafka import Producer

from benchmarks.load import Load
from benchmarks.targets import Target
from penstock.sqlview import query

RECORDS = 1_000_000
CITIES = ("Riga", "Lyon", "Oslo", "Cork")
Figures = dict[str, float]


def json_records(load: Load, target: Target, scale: float) -> Figures:
    """Measure from the call to the result, including reading the log. Always a million records, as in the target."""
    topic = target.new_topic()
    try:
        _fill(target.server.bootstrap, topic)
        sql = (
            "SELECT value->>'$.city' AS city, count(*), sum((value->>'$.amount')::BIGINT) "
            f"FROM topic('{topic}') GROUP BY 1"
        )
        began = time.perf_counter()
        rows = query(sql, bootstrap=target.server.bootstrap, timeout_s=120).rows
        seconds = time.perf_counter() - began
    finally:
        target.delete_topic(topic)
    assert sum(row[1] for row in rows) == RECORDS, "some records were not read"
    return {"s": seconds, "records/s": RECORDS / seconds}


def _fill(bootstrap: str, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2 * RECORDS, "acks": 1}
    )
    for number in range(RECORDS):
        value = json.dumps({"id": number, "city": CITIES[number % 4], "amount": number % 97})
        producer.produce(topic, key=str(number % 5000), value=value)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("the records could not be written")
