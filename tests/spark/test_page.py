"""Test of docs/spark.md: runs its code block by block on one Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import BrokerProcess
from tests.docs.markdown import blocks
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "docs/spark.md"
RECORDS = 40


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name in ("orders", "orders-clean"):
        admin.create_topics([NewTopic(name, 4)])[name].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce("orders", key=str(number), value=f'{{"id": {number}, "amount": {number}}}')
    assert producer.flush(30) == 0


def test_every_block_of_the_page_works(spark: SparkSession, tmp_path: Path) -> None:
    with BrokerProcess() as broker:
        fill(broker.bootstrap)
        space: dict[str, Any] = {"__name__": "page"}
        try:
            for block in blocks(PAGE):
                # A fragment is not a program; a pipeline's file runs under `penstock pipeline` (test_pipelines.py).
                if block.language != "python" or "fragment" in block.marks or "not run" in block.marks:
                    continue
                code = block.text.replace("localhost:9092", broker.bootstrap).replace("/data/", f"{tmp_path}/")
                exec(compile(code, str(block), "exec"), space)
            assert space["orders"].count() == RECORDS
            assert (space["good"].count(), space["bad"].count()) == (RECORDS - 1, 1)
            clean = spark.read.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap)
            written = clean.option("subscribe", "orders-clean").load
            eventually(lambda: written().count() == RECORDS, what="all rows in orders-clean", seconds_max=300)
            lake = spark.read.format("lake").option("format", "delta").load(f"{tmp_path}/lake/orders")
            assert lake.count() == RECORDS
        finally:
            for query in spark.streams.active:
                query.stop()
            space.clear()
