"""Tests that streams into lake tables stay exactly-once when processes die, and that tables are read as rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.faults import run_into_fault
from tests.spark.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]


class Stream:
    """A stream from a topic to a table, with a few rows per batch."""

    def __init__(self, spark: SparkSession, log: Log, topic: str, folder: Path, kind: str) -> None:
        self._spark, self._log, self._topic = spark, log, topic
        self._kind, self.path = kind, str(folder / "lake" / "orders")
        self._checkpoint = str(folder / "checkpoint")

    def run(self, sink: str = "lake", columns: str = "cast(cast(value as string) as long) id", **options: str) -> None:
        reader = self._spark.readStream.format("penstock").option("kafka.bootstrap.servers", self._log.bootstrap)
        rows = reader.options(subscribe=self._topic, startingOffsets="earliest", maxOffsetsPerTrigger="150").load()
        writer = rows.selectExpr(*columns.split(", ")).writeStream.format(sink)
        writer = writer.options(format=self._kind, path=self.path, checkpointLocation=self._checkpoint, **options)
        writer.trigger(availableNow=True).start().awaitTermination(200)

    def rows(self) -> DataFrame:
        return self._spark.read.format("lake").option("format", self._kind).load(self.path)


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_each_row_is_in_the_table_once_after_any_fault(
    spark: SparkSession, log: Log, new_topic: NewTopic, tmp_path: Path, kind: str
) -> None:
    from pyspark import cloudpickle

    from tests.spark import faulty_lake

    cloudpickle.register_pickle_by_value(faulty_lake)  # type: ignore[no-untyped-call]
    spark.dataSource.register(faulty_lake.FaultyLake)
    topic = new_topic(2)
    stream = Stream(spark, log, topic, tmp_path, kind)
    written = 0
    # All faults for one format; for the others the hardest one: abort after a completed commit.
    faults = faulty_lake.FAULTS if kind == "delta" else faulty_lake.FAULTS[2:3]
    for number, fault in enumerate(faults):
        log.fill(topic, [str(index) for index in range(written, written + 100)])
        written += 100
        marker = tmp_path / f"died-{number}"
        survived = run_into_fault(partial(stream.run, "faulty_lake", fault=fault, marker=str(marker)), marker)
        assert survived == fault.startswith("task"), "a dead task is retried, a dead driver ends the query"
    stream.run()
    assert sorted(row.id for row in stream.rows().collect()) == list(range(written))


def test_a_stream_adds_a_column_and_old_rows_have_null(
    spark: SparkSession, log: Log, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    stream = Stream(spark, log, topic, tmp_path, "delta")
    log.fill(topic, ["1", "2"])
    stream.run()
    log.fill(topic, ["3"])
    stream.run(columns="cast(cast(value as string) as long) id, timestamp")
    found = {row.id: row.timestamp for row in stream.rows().collect()}
    assert found[1] is None and found[2] is None and found[3] is not None
    log.fill(topic, ["4"])
    with pytest.raises(Exception, match=r"column id is int64 in the table .* and string in the rows"):
        stream.run(columns="cast(value as string) id")


def test_a_batch_replaces_a_table_in_one_step(spark: SparkSession, tmp_path: Path) -> None:
    def write(count: int, mode: str, kind: str) -> None:
        writer = spark.range(count).write.format("lake").option("format", kind).mode(mode)
        writer.save(str(tmp_path / kind))

    write(5, "append", "delta")
    write(3, "overwrite", "delta")
    assert spark.read.format("lake").option("format", "delta").load(str(tmp_path / "delta")).count() == 3
    with pytest.raises(Exception, match="cannot be overwritten atomically"):
        write(3, "overwrite", "parquet")
    with pytest.raises(Exception, match="no delta table exists at"):
        spark.read.format("lake").option("format", "delta").load(str(tmp_path / "nothing"))
