"""The same source and sink on Apache Kafka: what they speak is the standard protocol and nothing of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.log import Log
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import JavaMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def kafka() -> Iterator[Log]:
    try:
        peer = ApacheKafka()
    except JavaMissing as reason:
        pytest.skip(str(reason))
    with peer, Log(peer.bootstrap) as made:
        yield made


def test_rows_go_through_apache_kafka_once(spark: SparkSession, kafka: Log, tmp_path: Path) -> None:
    kafka.create("in", 3)
    kafka.create("out", 2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        kafka.fill("in", [f"{codec}-{index}" for index in range(200)], settings={"compression.type": codec})
    kafka.fill("in", ["aborted"] * 20, transaction="t", commit=False)
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", kafka.bootstrap)
    frame = reader.options(subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger="600").load()
    writer = frame.select("key", "value").writeStream.format("penstock").option("topic", "out")
    writer = writer.options(checkpointLocation=str(tmp_path), **{"kafka.bootstrap.servers": kafka.bootstrap})
    writer.trigger(availableNow=True).start().awaitTermination(200)
    expected = Counter(
        f"{codec}-{index}" for codec in ("none", "gzip", "snappy", "lz4", "zstd") for index in range(200)
    )
    assert kafka.committed_values("out") == expected
    batch = spark.read.format("penstock").option("kafka.bootstrap.servers", kafka.bootstrap).option("subscribe", "out")
    assert Counter(bytes(row.value).decode() for row in batch.load().collect()) == expected
