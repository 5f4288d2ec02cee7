"""The data source `lake`: `df.writeStream.format("lake").option("format", "delta").start("/data/orders")`."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from penstock_client.errors import PenstockClientError
from penstock_spark.lake.options import lake_options


class DefaultSource(DataSource):
    """A data source that writes streams and batches exactly once, and reads batches."""

    @classmethod
    def name(cls) -> str:
        return "lake"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        from penstock_spark.lake.tables import open_table

        options = lake_options(self.options)
        found = open_table(options).schema()
        if found is None:
            raise PenstockClientError(f"no {options.format} table exists at {options.path} yet")
        return from_arrow_schema(found)

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock_spark.lake.reading import LakeReader

        return LakeReader(lake_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock_spark.lake.writing import batch_writer

        return batch_writer(lake_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock_spark.lake.writing import stream_writer

        return stream_writer(lake_options(self.options), schema, overwrite=overwrite)
