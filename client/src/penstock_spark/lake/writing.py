"""Spark writers for lake tables: tasks write files, the driver registers them once per (query, batch).

After any crash, a batch that runs again either is already committed and drops its new files, or commits them. `abort`
never deletes a file of the table: Spark also calls it when `commit` failed after its work was done.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock_client.errors import PenstockClientError
from penstock_spark.lake.files import Fence, StagedFile, arrow_schema, gathered, remove_files, write_file
from penstock_spark.lake.options import LakeOptions
from penstock_spark.lake.tables import new_columns, open_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = logging.getLogger("penstock_spark")


@dataclass
class Staged(WriterCommitMessage):
    """The files that one task wrote."""

    query: str
    files: tuple[StagedFile, ...]


def batch_writer(options: LakeOptions, schema: StructType, *, overwrite: bool) -> LakeBatchWriter:
    _check(options, schema)
    return LakeBatchWriter(options, schema, "batch-" + secrets.token_hex(8), overwrite=overwrite)


def stream_writer(options: LakeOptions, schema: StructType, *, overwrite: bool) -> LakeStreamWriter:
    _check(options, schema)
    return LakeStreamWriter(options, schema, overwrite=overwrite)


class LakeBatchWriter(DataSourceArrowWriter):
    """A batch writer: all rows of a job become visible together."""

    def __init__(self, options: LakeOptions, schema: StructType, write_id: str, *, overwrite: bool) -> None:
        self._options, self._schema = options, schema
        self._write_id, self._overwrite = write_id, overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, self._schema, self._write_id, "0", iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options, self._schema, messages, Fence(self._write_id, 0), overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._options, messages)


class LakeStreamWriter(DataSourceStreamArrowWriter):
    """A stream writer: each micro-batch is written exactly once."""

    def __init__(self, options: LakeOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options, self._schema, self._overwrite = options, schema, overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "tasks run inside Spark"
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if not query or batch is None:
            raise PenstockClientError("Spark did not set the query id, which exactly-once writes need")
        return _write(self._options, self._schema, query, batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = _staged(messages)
        if staged:
            fence = Fence(staged[0].query, batchId)
            _commit(self._options, self._schema, messages, fence, overwrite=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _abort(self._options, messages)


def _write(
    options: LakeOptions, schema: StructType, query: str, batch: str, batches: Iterator[pa.RecordBatch]
) -> Staged:
    from pyspark import TaskContext

    context = TaskContext.get()
    part = f"{batch}-{context.partitionId() if context is not None else 0}"
    prefix = open_table(options).prefix
    files = write_file(
        gathered(batches), arrow_schema(schema), folder=options.path, prefix=prefix, part=part,
        compression=options.compression,
    )  # fmt: skip
    return Staged(query, tuple(files))


def _commit(
    options: LakeOptions,
    schema: StructType,
    messages: Sequence[WriterCommitMessage | None],
    fence: Fence,
    *,
    overwrite: bool,
) -> None:
    files = [file for one in _staged(messages) for file in one.files]
    if not files and not overwrite:
        return
    if not open_table(options).commit(files, arrow_schema(schema), fence, overwrite=overwrite):
        log.info("batch %d of %s was already committed to %s", fence.batch, fence.query, options.path)
        _drop(options, files)


def _abort(options: LakeOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    try:
        _drop(options, [file for one in _staged(messages) for file in one.files])
    except Exception as error:
        # Unreferenced files only use space; keep them if it is unknown whether they are referenced.
        log.warning("cannot delete the files of an aborted batch in %s: %s", options.path, error)


def _drop(options: LakeOptions, files: Sequence[StagedFile]) -> None:
    names = [one.name for one in files]
    held = open_table(options).holds(names)
    remove_files(options.path, [name for name in names if name not in held])


def _staged(messages: Sequence[Any]) -> list[Staged]:
    return [one for one in messages if isinstance(one, Staged)]


def _check(options: LakeOptions, schema: StructType) -> None:
    """Check on the driver, before any task runs, that the table supports the schema."""
    wanted = arrow_schema(schema)
    table = open_table(options).schema()
    if table is not None:
        new_columns(table, wanted, options)
