"""The data source that Spark finds by itself under the name `penstock`."""

from __future__ import annotations

import gc
import sys
from functools import cache

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock_spark.topics.options import sink_options, source_options
from penstock_spark.topics.schema import check_schema, ddl


@cache
def spare_what_is_loaded() -> None:
    """Put the modules out of the garbage collector's sight, once in a process.

    Processes that plan for Spark's driver collect after each answer, just when the tasks begin and want the
    processors; they would look at every object of Arrow, numpy and Spark each time. See daemon.py for the tasks' own.
    """
    started_as = getattr(sys.modules["__main__"], "__spec__", None)
    if started_as is not None and started_as.name == "pyspark.daemon":
        gc.freeze()


class DefaultSource(DataSource):
    """`spark.read.format("penstock")`, `readStream`, `write` and `writeStream`."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        spare_what_is_loaded()
        return ddl(include_headers=self.options.get("includeHeaders", "false").lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock_spark.topics.readers import PenstockBatchReader

        spare_what_is_loaded()
        options = source_options(self.options, streaming=False)
        check_schema(schema, include_headers=options.include_headers)
        return PenstockBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock_spark.topics.readers import PenstockStreamReader

        options = source_options(self.options, streaming=True)
        check_schema(schema, include_headers=options.include_headers)
        return PenstockStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock_spark.topics.writers import batch_writer

        spare_what_is_loaded()
        return batch_writer(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock_spark.topics.writers import stream_writer

        spare_what_is_loaded()
        return stream_writer(sink_options(self.options), schema, overwrite=overwrite)
