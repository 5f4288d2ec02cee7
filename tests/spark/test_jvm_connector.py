"""Tests of Spark's Kafka connector against a Penstock node, compared row by row with our source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]


@pytest.fixture(autouse=True)
def jars(connector: list[str]) -> None:
    if not connector:
        pytest.skip("the jars of Spark's Kafka connector are not available: Maven is missing or cannot resolve them")


def read(spark: SparkSession, log: Log, form: str = "kafka", **options: Any) -> DataFrame:
    reader = spark.read.format(form).option("kafka.bootstrap.servers", log.bootstrap)
    return reader.options(**options).load()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(
        (
            row.partition,
            row.offset,
            bytes(row.key),
            bytes(row.value),
            row.timestamp,
            row.timestampType,
            None if row.headers is None else [(one.key, bytes(one.value)) for one in row.headers],
        )
        for row in frame.collect()
    )


def test_both_sources_return_the_same_rows(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    log.fill(topic, [f"a-{index}" for index in range(500)], settings={"compression.type": "zstd"})
    log.fill(topic, ["aborted"] * 10, transaction=f"t-{topic}", commit=False)
    log.fill(topic, ["b"] * 10, transaction=f"t-{topic}", headers=[("one", b"1"), ("one", b"2")])
    common = {"subscribe": topic, "includeHeaders": "true"}
    theirs = rows(read(spark, log, **common, **{"kafka.isolation.level": "read_committed"}))
    assert len(theirs) == 510
    assert rows(read(spark, log, "penstock", **common)) == theirs


def test_batches_by_pattern_and_by_time(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    one, other = new_topic(), new_topic()
    for stamp in (1000, 2000):
        log.fill(one, [str(stamp)] * 5, timestamp=stamp)
        log.fill(other, [str(stamp)] * 7, timestamp=stamp)
    assert read(spark, log, subscribePattern=f"{one}|{other}").count() == 24
    assert read(spark, log, subscribe=f"{one},{other}", startingTimestamp="2000").count() == 12
    assert read(spark, log, subscribe=one, endingTimestamp="2000").count() == 5


def test_the_stream_and_the_sink_work(spark: SparkSession, log: Log, new_topic: NewTopic, tmp_path: Path) -> None:
    source, target = new_topic(2), new_topic(2)
    log.fill(source, [str(index) for index in range(1000)])
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", log.bootstrap)
    frame = reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="600").load()
    writer = frame.select("key", "value").writeStream.format("kafka").option("kafka.bootstrap.servers", log.bootstrap)
    writer = writer.options(topic=target, checkpointLocation=str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination(200)
    assert log.committed_values(target) == Counter(str(index) for index in range(1000))
