"""The sink with one slow attempt, and a Spark Connect client that streams into it:

    python -m tests.spark.slow_sink sc://host:port BOOTSTRAP SOURCE TARGET FOLDER

The first attempt of the first task writes its rows and then hangs with its transaction open, until Spark kills it
because a speculative attempt was faster. Every attempt that has written leaves a file in the directory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock_spark.topics.options import SinkOptions, sink_options
from penstock_spark.topics.source import DefaultSource
from penstock_spark.topics.writers import PenstockStreamWriter

HANGS_S = 90.0


class SlowSource(DataSource):
    """A data source of which only the stream writer is used."""

    @classmethod
    def name(cls) -> str:
        return "slow"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = dict(self.options)
        folder = options.pop("folder")
        return SlowWriter(sink_options(options), Path(folder))


class SlowWriter(PenstockStreamWriter):
    """A writer whose first attempt at the first partition is slow."""

    def __init__(self, options: SinkOptions, folder: Path) -> None:
        super().__init__(options)
        self._folder = folder

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        (self._folder / f"partition-{context.partitionId()}-attempt-{context.attemptNumber()}").touch()
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            time.sleep(HANGS_S)
        return message


def main(url: str, bootstrap: str, source: str, target: str, folder: str) -> int:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(url).getOrCreate()
    for one in (DefaultSource, SlowSource):
        spark.dataSource.register(one)
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.options(subscribe=source, startingOffsets="earliest").load().select("key", "value")
    writer = frame.writeStream.format("slow").option("kafka.bootstrap.servers", bootstrap)
    writer = writer.options(topic=target, folder=folder, checkpointLocation=f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
