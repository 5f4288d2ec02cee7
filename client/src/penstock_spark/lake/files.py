"""Parquet files of one task: written next to the table, registered later by the driver.

A file name is never reused, so a file that no commit refers to can be deleted at any time.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock_client.errors import PenstockClientError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

ROWS_PER_GROUP = 100_000


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that is not part of a table yet; `name` is relative to the table's directory."""

    name: str
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class Fence:
    """The identity of a commit: each batch of a query is committed to the table once."""

    query: str
    batch: int


def file_system(path: str) -> tuple[Any, str]:
    """Return the file system of a path or URI, and the path in it."""
    from pyarrow import fs

    found, inside = fs.FileSystem.from_uri(path if "://" in path else os.path.abspath(path.removeprefix("file:")))
    return found, str(inside)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema; timestamps are in UTC, regardless of the session's time zone."""
    from pyspark.sql.pandas.types import to_arrow_schema

    for field in schema.fields:
        kind = field.dataType.simpleString()
        if kind in ("variant", "void", "interval"):
            raise PenstockClientError(
                f"the column {field.name} is {kind}, which lake tables do not support: cast it, "
                f"as in to_json({field.name}), or leave it out"
            )
    return to_arrow_schema(schema, timezone="UTC")


def write_file(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, folder: str, prefix: str, part: str, compression: str
) -> list[StagedFile]:
    """Write rows to one new file, or to none if there are no rows. `prefix` is its directory in the table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    system, root = file_system(folder)
    name = f"{prefix}part-{part}-{secrets.token_hex(8)}.parquet"
    target = f"{root}/{name}"
    writer: pq.ParquetWriter | None = None
    rows = 0
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if writer is None:
                system.create_dir(target.rpartition("/")[0], recursive=True)
                codec = None if compression == "none" else compression
                writer = pq.ParquetWriter(target, schema, filesystem=system, compression=codec)
            table = pa.Table.from_batches([batch]).cast(schema)
            writer.write_table(table, row_group_size=ROWS_PER_GROUP)
            rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        return []
    return [StagedFile(name, system.get_file_info(target).size, rows)]


def remove_files(folder: str, names: Iterable[str]) -> None:
    """Delete files, on a best-effort basis: leftover files belong to no commit and only use space."""
    system, root = file_system(folder)
    for name in names:
        try:
            system.delete_file(f"{root}/{name}")
        except OSError:
            continue


def gathered(batches: Iterator[pa.RecordBatch], rows_least: int = ROWS_PER_GROUP) -> Iterator[pa.RecordBatch]:
    """Combine small batches into larger ones: each write creates a row group, and small ones are slow to read."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= rows_least:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, rows = [], 0
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
