"""Tests of batch reads from a live node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import BrokerProcess
from tests.spark.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]


def read(spark: SparkSession, log: Log, **options: Any) -> DataFrame:
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", log.bootstrap)
    return reader.options(**options).load()


def values(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def message(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(error.value)


def test_every_codec_headers_and_nulls_are_read(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        log.fill(topic, [f"{codec}-{index}" for index in range(300)], settings={"compression.type": codec})
    log.fill(topic, ["with-headers"], headers=[("a", b"1"), ("b", b"")])
    frame = read(spark, log, subscribe=topic, includeHeaders="true")
    rows = frame.collect()
    assert len(rows) == 5 * 300 + 1
    assert len({(row.partition, row.offset) for row in rows}) == len(rows)
    assert all(bytes(row.key) == bytes(row.value) and row.topic == topic and row.timestampType == 0 for row in rows)
    (with_headers,) = [row for row in rows if row.headers]
    assert [(header.key, bytes(header.value)) for header in with_headers.headers] == [("a", b"1"), ("b", b"")]


def test_positions_by_offset_name_and_time(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for stamp in (1_000, 2_000, 3_000):
        for partition in (0, 1):
            log.fill(topic, [f"{stamp}-{index}" for index in range(10)], partition=partition, timestamp=stamp)
    start = json.dumps({topic: {"0": 25, "1": -2}})
    end = json.dumps({topic: {"0": -1, "1": 3}})
    assert read(spark, log, subscribe=topic, startingOffsets=start, endingOffsets=end).count() == 5 + 3
    assert read(spark, log, subscribe=topic, startingTimestamp="2000", endingTimestamp="3000").count() == 20
    by_time = json.dumps({topic: {"0": 3_000, "1": 99_000}})
    assert read(spark, log, subscribe=topic, startingOffsetsByTimestamp=by_time).count() == 10
    assert read(spark, log, assign=json.dumps({topic: [1]}), minPartitions="4").rdd.getNumPartitions() == 4


def test_filters_on_offset_partition_and_time_narrow_the_fetch(
    spark: SparkSession, log: Log, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    for stamp in (1_000, 2_000):
        log.fill(topic, [f"{stamp}-{index}" for index in range(500)], partition=0, timestamp=stamp)
        log.fill(topic, [f"{stamp}-{index}" for index in range(500)], partition=1, timestamp=stamp)
    frame = read(spark, log, subscribe=topic, maxRecordsPerPartition="100")
    assert frame.rdd.getNumPartitions() == 20
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        some = frame.where("partition = 1 and offset >= 450 and offset < 470")
        assert (some.count(), some.rdd.getNumPartitions()) == (20, 1)
        late = frame.where("timestamp >= timestamp_millis(2000)")
        assert (late.count(), late.rdd.getNumPartitions()) == (1000, 10)
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_a_filter_of_one_query_does_not_stay_with_the_frame(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    log.fill(topic, [str(index) for index in range(20)])
    frame = read(spark, log, subscribe=topic)
    assert frame.where("offset > 14").count() == 5
    assert frame.count() == 20


def test_a_schema_chooses_columns(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    log.fill(topic, ["a", "b"])
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", log.bootstrap).option("subscribe", topic)
    rows = reader.schema("offset BIGINT, value BINARY").load().collect()
    assert [(row.offset, bytes(row.value)) for row in rows] == [(0, b"a"), (1, b"b")]
    with pytest.raises(Exception, match=r"unknown column 'valeu'.*Did you mean 'value'"):
        reader.schema("valeu BINARY").load().collect()


def test_only_committed_rows_are_read_by_default(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    log.fill(topic, ["plain"])
    log.fill(topic, [f"aborted-{index}" for index in range(50)], transaction=f"a-{topic}", commit=False)
    log.fill(topic, ["committed"], transaction=f"b-{topic}")
    log.fill(topic, ["again"], transaction=f"a-{topic}")
    assert values(read(spark, log, subscribe=topic)) == ["again", "committed", "plain"]
    assert read(spark, log, subscribe=topic, isolation="read_uncommitted").count() == 53


def test_segment_files_have_the_same_rows(
    spark: SparkSession, broker: BrokerProcess, log: Log, new_topic: NewTopic
) -> None:
    topic = new_topic(2, segment_bytes="1048576")
    text = "x" * 1000
    for partition in (0, 1):
        log.fill(topic, [f"{index}-{text}" for index in range(3000)], partition=partition)
        log.fill(topic, [f"no-{index}" for index in range(50)], partition=partition, transaction="s", commit=False)
        log.fill(topic, [f"more-{index}-{text}" for index in range(2000)], partition=partition)
    assert len(list(Path(broker.data).glob(f"{topic}-0/*.log"))) > 2
    expected = values(read(spark, log, subscribe=topic))
    assert len(expected) == 10_000
    for mode in ("segments", "auto"):
        frame = read(spark, log, subscribe=topic, mode=mode, dataFolder=str(broker.data))
        assert frame.rdd.getNumPartitions() > 2
        assert values(frame) == expected
        limits = {"startingOffsets": json.dumps({topic: {"0": 2990, "1": 5000}}), "mode": mode}
        assert read(spark, log, subscribe=topic, dataFolder=str(broker.data), **limits).count() == 2010 + 51


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscribe": "nowhere"}, "topic 'nowhere' does not exist.*penstock topic create"),
        ({"subscribe": "a", "startingOfsets": "x"}, "unknown option 'startingofsets'.* Did you mean 'startingOffsets'"),
        ({"subscribe": "a", "kafka.sasl.mechanisms": "PLAIN"}, "Did you mean 'kafka.sasl.mechanism'"),
        ({"subscribe": "a", "assign": "{}"}, "exactly one of"),
        ({"subscribePattern": "no-such-.*"}, "no topic at .* matches"),
        ({"subscribe": "a", "kafka.bootstrap.servers": "127.0.0.1:1", "deadline": "300"}, "no broker responded at 127"),
    ],
)  # fmt: skip
def test_an_error_says_what_to_do(spark: SparkSession, log: Log, options: dict[str, str], expected: str) -> None:
    with pytest.raises(Exception, match=expected):
        read(spark, log, **options).count()


def test_offsets_out_of_range_fail_or_move(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    log.fill(topic, [str(index) for index in range(20)])
    log.trim(topic, 0, 10)
    gone = json.dumps({topic: {"0": 5}})
    with pytest.raises(Exception, match=r"offset 5 of .* out of range \(10 to 20\): 5 rows were removed"):
        read(spark, log, subscribe=topic, startingOffsets=gone).count()
    assert read(spark, log, subscribe=topic, startingOffsets=gone, failOnDataLoss="false").count() == 10
