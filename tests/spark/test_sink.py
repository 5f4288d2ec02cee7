"""Tests of writing to topics: batches, and streams that stay exactly-once when processes die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.spark.faults import run_into_fault
from tests.spark.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]


def write(frame: DataFrame, log: Log, **options: Any) -> None:
    writer = frame.write.format("penstock").option("kafka.bootstrap.servers", log.bootstrap)
    writer.options(**options).mode("append").save()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_is_written_once_in_every_codec(spark: SparkSession, log: Log, new_topic: NewTopic, codec: str) -> None:
    topic = new_topic(3)
    frame = spark.range(2000).selectExpr("cast(id as string) key", "cast(id as string) value")
    write(frame, log, topic=topic, compression=codec)
    assert log.committed_values(topic) == Counter(str(index) for index in range(2000))


def test_keys_are_partitioned_as_by_java_clients(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    topic, twin = new_topic(5), new_topic(5)
    keys = [f"key-{index * 37}" for index in range(200)]
    write(spark.createDataFrame([(key, key) for key in keys], "key string, value string"), log, topic=topic)
    producer = Producer({"bootstrap.servers": log.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(twin, key=key, value=key)
    assert producer.flush(60) == 0
    assert where(log, topic) == where(log, twin)


def where(log: Log, topic: str) -> dict[str, int]:
    """Return the partition of each value."""
    consumer = Consumer({"bootstrap.servers": log.bootstrap, "group.id": "look", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(5)])
    found: dict[str, int] = {}
    ended = 0
    while ended < 5:
        for message in consumer.consume(500, timeout=0.2):
            if message.error():
                ended += 1
            else:
                found[bytes(message.value() or b"").decode()] = message.partition() or 0
    consumer.close()
    return found


def test_columns_choose_topic_partition_headers_and_time(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    one, other = new_topic(2), new_topic(2)
    rows = [(one, 1, "a"), (other, 0, "b"), (one, 0, "c"), (other, None, "d")]
    frame = spark.createDataFrame(rows, "topic string, partition int, value string").selectExpr(
        "*", "array(struct('origin' as key, cast('test' as binary) as value)) as headers",
        "timestamp_millis(86400000) as timestamp",
    )  # fmt: skip
    write(frame, log)
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", log.bootstrap)
    found = reader.options(subscribe=f"{one},{other}", includeHeaders="true").load().collect()
    assert {(row.topic, bytes(row.value).decode()) for row in found} == {(row[0], row[2]) for row in rows}
    assert {bytes(row.value): row.partition for row in found if row.topic == one} == {b"a": 1, b"c": 0}
    assert all(row.key is None and row.timestamp.day == 2 for row in found)
    assert all([(header.key, bytes(header.value)) for header in row.headers] == [("origin", b"test")] for row in found)


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ("id as valeu", {"topic": "t"}, "unknown column 'valeu'. Did you mean 'value'"),
        ("cast(id as string) value", {}, "set the option topic, or add a column topic"),
        ("id as value", {"topic": "t"}, "column value is bigint, but must be binary or string"),
        ("cast(id as string) value", {"topic": "missing"}, "topic 'missing' does not exist"),
        ("cast(id as string) value", {"topic": "t", "compression": "ztsd"}, "Did you mean 'zstd'"),
        ("cast(id as string) value", {"topic": "t", "guarantee": "once"}, "exactly-once, at-least-once"),
        ("'x' as value, 9 as partition", {}, "has partition 9 of topic .* whose partitions are 0 to 0"),
    ],
)
def test_invalid_writes_are_reported(
    spark: SparkSession, log: Log, new_topic: NewTopic, columns: str, options: dict[str, str], expected: str
) -> None:
    if "9 as" in columns:
        options = {"topic": new_topic()}
    with pytest.raises(Exception, match=expected):
        write(spark.range(1).selectExpr(*columns.split(", ")), log, **options)


class Flow:
    """A stream from topic to topic."""

    def __init__(self, spark: SparkSession, log: Log, folder: Path, source: str, target: str) -> None:
        self._spark, self._log, self._folder = spark, log, folder
        self._source, self._target = source, target

    def run(self, sink: str = "penstock", **options: str) -> None:
        reader = self._spark.readStream.format("penstock").option("kafka.bootstrap.servers", self._log.bootstrap)
        frame = reader.options(subscribe=self._source, startingOffsets="earliest", maxOffsetsPerTrigger="600").load()
        writer = (
            frame.select("key", "value").writeStream.format(sink).option("kafka.bootstrap.servers", self._log.bootstrap)
        )
        writer = writer.options(topic=self._target, checkpointLocation=str(self._folder / "checkpoint"), **options)
        writer.trigger(availableNow=True).start().awaitTermination(200)


@pytest.fixture
def flow(spark: SparkSession, log: Log, new_topic: NewTopic, tmp_path: Path) -> tuple[Flow, str]:
    source, target = new_topic(2), new_topic(2)
    log.fill(source, [str(index) for index in range(1000)])
    return Flow(spark, log, tmp_path, source, target), target


ONCE = Counter(str(index) for index in range(1000))


@pytest.mark.parametrize(
    "fault",
    [
        "task dies with its transaction open",
        "driver dies before the decision",
        "driver dies after the decision",
        "driver dies between two commits",
        "driver dies after the commits",
        "transactions time out after the decision",
    ],
)
def test_each_row_is_written_once_although(
    spark: SparkSession, log: Log, flow: tuple[Flow, str], tmp_path: Path, fault: str
) -> None:
    from pyspark import cloudpickle

    from tests.spark import faulty

    cloudpickle.register_pickle_by_value(faulty)  # type: ignore[no-untyped-call]
    spark.dataSource.register(faulty.FaultySource)
    stream, target = flow
    marker = tmp_path / "died"
    survived = run_into_fault(partial(stream.run, "faulty", fault=fault, marker=str(marker)), marker)
    assert survived == fault.startswith("task"), "a dead task is retried, a dead driver ends the query"
    stream.run()
    assert log.committed_values(target) == ONCE
    assert not open_transactions(log), "open transactions would block readers"


def open_transactions(log: Log) -> list[str]:
    from penstock_client.protocol.cluster import Cluster
    from penstock_client.protocol.coordination import open_transactions

    with Cluster(log.bootstrap) as cluster:
        return open_transactions(cluster, "penstock-spark")


def test_at_least_once_needs_no_transaction(log: Log, flow: tuple[Flow, str]) -> None:
    stream, target = flow
    stream.run(guarantee="at-least-once")
    assert log.committed_values(target) == ONCE
