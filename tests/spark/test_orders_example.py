"""Tests of the example pipeline: every good order is in the Delta table once, bad ones in the dead-letter topic."""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.testing import BrokerProcess
from penstock_spark.pipelines.run import Wish, run
from penstock_spark.pipelines.spec import load_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipelines" / "orders"
COUNT = 400


@pytest.fixture
def shop() -> Iterator[str]:
    """Provide a separate broker per test, because the example's topics have fixed names, with four hundred orders."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        with BrokerProcess() as broker:
            importlib.import_module("generate").run(broker.bootstrap, rate=0, count=COUNT, seed=7)
            yield broker.bootstrap
    finally:
        sys.path.remove(str(EXAMPLE))


def values(bootstrap: str, topic: str, partitions: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "look", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        for message in consumer.consume(500, timeout=0.2):
            if message.error():
                ended += 1
            else:
                found.append(bytes(message.value() or b""))
    consumer.close()
    return found


def is_good(value: bytes) -> bool:
    try:
        order = json.loads(value)
    except ValueError:
        return False
    return "customer_id" in order and order["amount"] > 0


def test_every_good_order_is_kept_once_and_every_bad_one_is_dead_lettered(
    spark: SparkSession, shop: str, tmp_path: Path
) -> None:
    spec = load_spec(EXAMPLE).with_changes(storage=str(tmp_path), bootstrap=shop, provider=None)
    done = {one.name: one for one in run(spec, spark, Wish(), lambda _: None, lambda _: None)}
    sent = values(shop, "orders", 2)
    good = Counter(json.loads(value)["order_id"] for value in sent if is_good(value))
    bad = [value for value in sent if not is_good(value)]
    assert good and bad and max(good.values()) > 1, "the generator must create duplicates and bad rows"

    table = spark.read.format("lake").option("format", "delta").load(str(tmp_path / "lake" / "orders"))
    kept = Counter(row.order_id for row in table.collect())
    assert kept == Counter(dict.fromkeys(good, 1))
    assert table.where("country IS NULL").count() == 0
    assert Counter(values(shop, "orders.dlq", 1)) == Counter(bad)
    assert done["reject"].counted == {"dead_letters": len(bad), "orders.read": len(sent), "orders.bad": len(bad)}
    assert spark.read.table("countries").count() == 5
    for value in values(shop, "sales", 1):
        window: dict[str, Any] = json.loads(value)
        assert window["orders"] > 0 and window["amount"] > 0

    backfill = importlib.import_module("backfill")
    orders, windows = backfill.backfill(spark, shop, str(tmp_path / "backfill"))
    assert orders == len(good) and windows > 0


def test_the_same_files_run_on_sparks_own_connector(
    spark: SparkSession, connector: list[str], shop: str, tmp_path: Path
) -> None:
    if not connector:
        pytest.skip("the jars of Spark's Kafka connector cannot be fetched here")
    spec = load_spec(EXAMPLE).with_changes(storage=str(tmp_path), bootstrap=shop, provider="jvm")
    run(spec, spark, Wish(), lambda _: None, lambda _: None)
    table = spark.read.format("lake").option("format", "delta").load(str(tmp_path / "lake" / "orders"))
    good = {json.loads(value)["order_id"] for value in values(shop, "orders", 2) if is_good(value)}
    assert sorted(row.order_id for row in table.collect()) == sorted(good)
