"""Reader of lake tables: one task per file; columns that a file lacks are null."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock_spark.lake.files import file_system
from penstock_spark.lake.options import LakeOptions
from penstock_spark.lake.tables import open_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class FilePartition(InputPartition):
    path: str


class LakeReader(DataSourceReader):
    """A reader of the files that are committed when the query is planned."""

    def __init__(self, options: LakeOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        return [FilePartition(path) for path in open_table(self._options).files()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq
        from pyspark.sql.pandas.types import to_arrow_schema

        if not isinstance(partition, FilePartition):
            return  # Spark creates one empty partition if there is none
        schema = to_arrow_schema(self._schema, timezone="UTC")
        system, _ = file_system(self._options.path)
        with system.open_input_file(partition.path) as source:
            file = pq.ParquetFile(source)
            names = [field.name for field in schema if file.schema_arrow.get_field_index(field.name) >= 0]
            for batch in file.iter_batches(columns=names):
                import pyarrow as pa

                yield from fitted(pa.Table.from_batches([batch]), schema).to_batches()


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with exactly these columns."""
    import pyarrow as pa

    columns = [
        rows.column(field.name).cast(field.type)
        if rows.schema.get_field_index(field.name) >= 0
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
