"""Tests of streams from a live node: progress, limits, and changes of a topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.spark.log import Log
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NewTopic = Callable[..., str]
# The first batch waits for the start of Python processes.
BATCH_S_MAX = 300.0


class Flow:
    """A stream into a directory of text files, run to the current end each time."""

    def __init__(self, spark: SparkSession, log: Log, folder: Path, **options: Any) -> None:
        self._spark, self._log, self._folder, self.options = spark, log, folder, options

    def start(self, **trigger: Any) -> StreamingQuery:
        reader = self._spark.readStream.format("penstock").option("kafka.bootstrap.servers", self._log.bootstrap)
        frame = reader.options(startingOffsets="earliest", **self.options).load()
        writer = frame.selectExpr("cast(value as string) value").writeStream.format("text")
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return writer.trigger(**trigger).start(str(self._folder / "out"))

    def run(self, **options: Any) -> StreamingQuery:
        self.options |= options
        query = self.start(availableNow=True)
        query.awaitTermination(200)
        return query

    def rows(self) -> list[str]:
        if not (self._folder / "out" / "_spark_metadata").exists():
            return []
        return sorted(row.value for row in self._spark.read.text(str(self._folder / "out")).collect())


@pytest.fixture
def flow(spark: SparkSession, log: Log, tmp_path: Path) -> Callable[..., Flow]:
    return lambda **options: Flow(spark, log, tmp_path, **options)


def test_a_stream_stops_at_the_end_and_continues_from_there(
    log: Log, new_topic: NewTopic, flow: Callable[..., Flow]
) -> None:
    topic = new_topic(2)
    log.fill(topic, [f"a{index}" for index in range(1000)])
    made = flow(subscribe=topic, maxOffsetsPerTrigger=400, groupId=f"g-{topic}")
    first = made.run()
    taken = [progress["numInputRows"] for progress in first.recentProgress if progress["numInputRows"]]
    assert sum(taken) == 1000 and max(taken) <= 400
    log.fill(topic, [f"b{index}" for index in range(10)])
    made.run()
    assert len(made.rows()) == len(set(made.rows())) == 1010
    consumer = Consumer({"bootstrap.servers": log.bootstrap, "group.id": f"g-{topic}"})
    committed = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=60)
    consumer.close()
    assert sum(one.offset for one in committed) == 1010, "the group's offsets are at the end"


def latest(query: StreamingQuery, topic: str) -> dict[str, int]:
    """Return the topic's end in the query's progress; the text of a running query is not parsed yet."""
    progress = query.lastProgress
    offsets = progress["sources"][0]["latestOffset"] if progress else None
    found = (json.loads(offsets) if isinstance(offsets, str) else offsets or {}).get(topic, {})
    return {partition: int(offset) for partition, offset in found.items()}


def test_progress_has_the_lag_and_new_partitions_are_read(
    log: Log, new_topic: NewTopic, flow: Callable[..., Flow]
) -> None:
    topic = new_topic(1)
    log.fill(topic, ["one"])
    made = flow(subscribe=topic)
    query = made.start(processingTime="0 seconds")
    try:
        eventually(lambda: made.rows() == ["one"], seconds_max=BATCH_S_MAX)
        log.add_partitions(topic, 2)
        log.fill(topic, ["two"], partition=1)
        eventually(lambda: made.rows() == ["one", "two"], seconds_max=BATCH_S_MAX)
        eventually(lambda: latest(query, topic) == {"0": 1, "1": 1}, seconds_max=BATCH_S_MAX)
    finally:
        query.stop()
    assert made.rows() == ["one", "two"]


def test_a_recreated_topic_is_detected(log: Log, new_topic: NewTopic, flow: Callable[..., Flow]) -> None:
    topic = new_topic(1)
    log.fill(topic, ["old"])
    made = flow(subscribe=topic)
    made.run()
    log.delete(topic)
    log.create(topic)
    log.fill(topic, ["new-1", "new-2"])
    with pytest.raises(Exception, match="was deleted and recreated since the checkpoint"):
        made.run()
    made.run(failOnDataLoss="false")
    assert made.rows() == ["new-1", "new-2", "old"]


def test_a_checkpoint_of_another_topic_is_rejected(log: Log, new_topic: NewTopic, flow: Callable[..., Flow]) -> None:
    one, other = new_topic(), new_topic()
    log.fill(one, ["x"])
    made = flow(subscribe=one)
    made.run()
    with pytest.raises(Exception, match=f"has offsets of topic '{one}', but this query reads topic '{other}'"):
        made.run(subscribe=other)


def test_rows_removed_by_retention_fail_the_query_or_are_skipped(
    log: Log, new_topic: NewTopic, flow: Callable[..., Flow]
) -> None:
    topic = new_topic()
    log.fill(topic, ["a"])
    made = flow(subscribe=topic)
    made.run()
    log.fill(topic, ["b", "c", "d"])
    log.trim(topic, 0, 3)
    with pytest.raises(Exception, match=r"offset 1 of .* is out of range .*2 rows were removed.*failOnDataLoss=false"):
        made.run()
    made.run(failOnDataLoss="false")
    assert made.rows() == ["a", "d"]


def test_a_pattern_includes_new_topics(log: Log, new_topic: NewTopic, flow: Callable[..., Flow]) -> None:
    first = new_topic()
    log.fill(first, ["one"])
    made = flow(subscribePattern=f"{first}(-more)?")
    made.run()
    log.create(f"{first}-more", 2)
    log.fill(f"{first}-more", ["two"])
    made.run()
    assert made.rows() == ["one", "two"]
