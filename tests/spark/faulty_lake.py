"""The lake sink with faults: its processes die at chosen points, the first time they reach them.

Registered with Spark as `faulty_lake`; `fault` names the point, `marker` is a file that records the fault.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock_spark.lake.options import LakeOptions, lake_options
from penstock_spark.lake.writing import LakeStreamWriter

FAULTS = (
    "task dies after its file",
    "driver dies before the commit",
    "commit fails after it was done",
    "driver dies after the commit",
)


class FaultyLake(DataSource):
    """A data source of which only the stream writer is used."""

    @classmethod
    def name(cls) -> str:
        return "faulty_lake"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = dict(self.options)
        fault, marker = options.pop("fault"), options.pop("marker")
        return FaultyWriter(lake_options(options), schema, fault, marker)


class FaultyWriter(LakeStreamWriter):
    """A writer that dies without an exception or cleanup."""

    def __init__(self, options: LakeOptions, schema: StructType, fault: str, marker: str) -> None:
        super().__init__(options, schema, overwrite=False)
        self._fault, self._marker = fault, marker

    def _is_here(self, fault: str) -> bool:
        if self._fault != fault or Path(self._marker).exists():
            return False
        Path(self._marker).touch()
        return True

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0 and self._is_here("task dies after its file"):
            os._exit(9)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self._is_here("driver dies before the commit"):
            os._exit(9)
        super().commit(messages, batchId)
        if self._is_here("commit fails after it was done"):
            raise RuntimeError("the response was lost")
        if self._is_here("driver dies after the commit"):
            os._exit(9)
