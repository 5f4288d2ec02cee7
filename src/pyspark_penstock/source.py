"""The data source that Spark finds by itself under the name `penstock`."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyspark_penstock.options import sink_options, source_options
from pyspark_penstock.schema import check_schema, ddl


class DefaultSource(DataSource):
    """`spark.read.format("penstock")`, `readStream`, `write` and `writeStream`."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        return ddl(include_headers=self.options.get("includeHeaders", "false").lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_penstock.readers import PenstockBatchReader

        options = source_options(self.options, streaming=False)
        check_schema(schema, include_headers=options.include_headers)
        return PenstockBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyspark_penstock.readers import PenstockStreamReader

        options = source_options(self.options, streaming=True)
        check_schema(schema, include_headers=options.include_headers)
        return PenstockStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_penstock.writers import batch_writer

        return batch_writer(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pyspark_penstock.writers import stream_writer

        return stream_writer(sink_options(self.options), schema, overwrite=overwrite)
