"""The data source that Spark discovers under the name `penstock`."""

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
def exclude_modules_from_gc() -> None:
    """Exclude the loaded modules from garbage collection, once per process.

    Processes that plan for Spark's driver collect after each response, just when the tasks start and need the CPU, and
    would scan every object of Arrow, numpy and Spark each time. daemon.py does the same for tasks.
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
        exclude_modules_from_gc()
        return ddl(include_headers=self.options.get("includeHeaders", "false").lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock_spark.topics.readers import PenstockBatchReader

        exclude_modules_from_gc()
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

        exclude_modules_from_gc()
        return batch_writer(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock_spark.topics.writers import stream_writer

        exclude_modules_from_gc()
        return stream_writer(sink_options(self.options), schema, overwrite=overwrite)
