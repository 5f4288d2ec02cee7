"""The interface between lake tables and the sink, and the choice of the class for a format.

`commit` registers files once per (query, batch) and returns whether it did; a batch that was committed before is
ignored. Each format stores its fence in the table itself, so that fence and data change together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from penstock_client.errors import PenstockClientError
from penstock_spark.lake.files import Fence, StagedFile
from penstock_spark.lake.options import LakeOptions

if TYPE_CHECKING:
    import pyarrow as pa


class LakeTable(Protocol):
    """One table, opened again for each commit, because others write to it too."""

    @property
    def prefix(self) -> str:
        """Return the directory of new files, relative to the table."""

    def schema(self) -> pa.Schema | None:
        """Return the table's columns, or None if the table does not exist yet."""

    def files(self) -> list[str]:
        """Return the paths of the committed files."""

    def commit(self, staged: Sequence[StagedFile], schema: pa.Schema, fence: Fence, *, overwrite: bool) -> bool:
        """Register files; return False if the batch was already committed."""

    def committed(self, fence: Fence) -> bool:
        """Return whether this batch is committed."""

    def holds(self, names: Collection[str]) -> set[str]:
        """Return those of the names that are part of the table and must not be deleted."""

    def compact(self, *, size: int) -> tuple[int, int]:
        """Merge files smaller than `size`; return the number of files before and after."""


def open_table(options: LakeOptions) -> LakeTable:
    try:
        if options.format == "delta":
            from penstock_spark.lake.delta import Delta

            return Delta(options)
        if options.format == "iceberg":
            from penstock_spark.lake.iceberg import Iceberg

            return Iceberg(options)
    except ImportError as error:
        raise PenstockClientError(
            f"the format {options.format} needs the package {error.name}: run pip install 'penstock[spark]'"
        ) from error
    from penstock_spark.lake.parquet import ParquetFolder

    return ParquetFolder(options)


def new_columns(table: pa.Schema, rows: pa.Schema, options: LakeOptions) -> list[pa.Field]:
    """Return the columns that the table lacks. Raises if a column has another type in the table."""
    missing = []
    for field in rows:
        index = table.get_field_index(field.name)
        if index < 0:
            missing.append(field)
        elif not _same(table.field(index).type, field.type):
            raise PenstockClientError(
                f"the column {field.name} is {table.field(index).type} in the table {options.path} and {field.type} in "
                "the rows: cast it to the table's type, or write to another table (columns may be added, not changed)"
            )
    if missing and not options.merge_schema:
        names = ", ".join(field.name for field in missing)
        raise PenstockClientError(
            f"the table {options.path} has no column {names} and mergeSchema is false: set it to true to add the column"
        )
    return missing


def _same(one: pa.DataType, other: pa.DataType) -> bool:
    """Compare types as a table does: string equals large_string, and names inside lists are ignored."""
    import pyarrow as pa

    if pa.types.is_nested(one) and pa.types.is_nested(other):
        if one.num_fields != other.num_fields or pa.types.is_struct(one) != pa.types.is_struct(other):
            return False
        named = pa.types.is_struct(one)
        pairs = [(one.field(index), other.field(index)) for index in range(one.num_fields)]
        return all(_same(a.type, b.type) and (not named or a.name == b.name) for a, b in pairs)
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return (one.tz is None) == (other.tz is None)
    return bool(_plain(one) == _plain(other))


def _plain(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind
