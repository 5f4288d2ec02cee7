"""The sink with faults: its processes die at a chosen point, the first time they reach it.

Registered with Spark as `faulty`; the option `fault` names the point, `marker` is a file that records the fault.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock_client.protocol import coordination
from penstock_client.protocol.coordination import Transaction, init_producer
from penstock_spark.topics import writers
from penstock_spark.topics.options import SinkOptions, sink_options
from penstock_spark.topics.writers import PenstockStreamWriter

FAULTS = (
    "task dies with its transaction open",
    "driver dies before the decision",
    "driver dies after the decision",
    "driver dies between two commits",
    "driver dies after the commits",
    "transactions time out after the decision",
)


class FaultySource(DataSource):
    """A data source of which only the stream writer is used."""

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options = dict(self.options)
        fault, marker = options.pop("fault"), options.pop("marker")
        return FaultyWriter(sink_options(options), fault, marker)


class FaultyWriter(PenstockStreamWriter):
    """A writer that dies without an exception or cleanup."""

    def __init__(self, options: SinkOptions, fault: str, marker: str) -> None:
        super().__init__(options)
        self._fault = fault
        self._marker = marker

    def _dies_here(self, fault: str) -> bool:
        if self._fault != fault or Path(self._marker).exists():
            return False
        Path(self._marker).touch()
        return True

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0 and self._dies_here("task dies with its transaction open"):
            os._exit(9)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self._dies_here("driver dies before the decision"):
            os._exit(9)
        end_all = coordination.end_all

        def dying(cluster: Any, transactions: list[Transaction], *, commit: bool) -> list[Transaction]:
            if transactions and self._dies_here("driver dies after the decision"):
                os._exit(9)
            if transactions and self._dies_here("driver dies between two commits"):
                end_all(cluster, transactions[:1], commit=commit)
                os._exit(9)
            if transactions and self._dies_here("transactions time out after the decision"):
                for one in transactions[:1]:
                    init_producer(cluster, one.transactional_id, 60_000)
                os._exit(9)
            return end_all(cluster, transactions, commit=commit)

        vars(writers)["end_all"] = dying
        super().commit(messages, batchId)
        if self._dies_here("driver dies after the commits"):
            os._exit(9)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: a dead driver does not abort."""
