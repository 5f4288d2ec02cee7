"""Planning: the query of each flow, ordered so that every flow follows those that it reads.

A flow that refers to an output of the graph is analyzed again when Spark knows that output: temporary views as views,
stored outputs as external tables of this run's catalog. Raises for cycles and queries that Spark rejects.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException

from penstock_client.errors import PenstockClientError, nearest
from penstock_spark.pipelines.graph import FlowDefinition, Graph, OutputDefinition
from penstock_spark.pipelines.progress import ATTEMPTS, is_transient
from penstock_spark.pipelines.sources import Completion, completed
from penstock_spark.pipelines.spec import Spec
from penstock_spark.pipelines.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAKE_FORMATS: Final = ("delta", "iceberg")
_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    """A flow that can be started. `reads` names the stored outputs that it reads."""

    definition: FlowDefinition
    output: OutputDefinition
    frame: DataFrame
    reads: frozenset[str]

    @property
    def name(self) -> str:
        return self.definition.name


class Plan:
    """The flows in order, without those of temporary views, which are part of the others."""

    def __init__(self, graph: Graph, spec: Spec, spark: SparkSession, store: Store, completion: Completion) -> None:
        self._graph, self._spec, self._spark, self._store = graph, spec, spark, store
        self._completion = completion
        self._done: set[str] = set()
        self._under_way: list[str] = []
        self.flows: list[PlannedFlow] = []
        with _quiet(), completed(completion):
            for output in graph.outputs.values():
                self._forget(output)
            for name in graph.outputs:
                self._output(name)

    def fresh(self, flow: PlannedFlow) -> DataFrame:
        """Return the query of a materialized view over the current files of its tables."""
        for name in flow.reads:
            self.refresh(self._graph.outputs[name])
        with completed(self._completion):
            return flow.definition.query()

    def refresh(self, output: OutputDefinition) -> None:
        """Make Spark list a table's files again; it caches those that existed at the first access."""
        if output.kind in ("table", "view") and (output.format or "parquet").lower() not in LAKE_FORMATS:
            self._spark.catalog.refreshTable(output.name)

    def path(self, table: str) -> str:
        """Return the location of a table, including the generation of the flows that fill it."""
        generations = [self._store.generation(flow.name) for flow in self._into(table)]
        return f"{self._spec.tables(table)}/{max(generations, default=0)}"

    def downstream(self, flows: set[str]) -> set[str]:
        """Return these flows and all that must restart with them: those that share or read their tables."""
        found = set(flows)
        while True:
            stored = {flow.output.name for flow in self.flows if flow.name in found and flow.output.kind == "table"}
            more = {flow.name for flow in self.flows if flow.reads & stored or flow.output.name in stored}
            if more <= found:
                return found
            found |= more

    def _forget(self, output: OutputDefinition) -> None:
        """Drop an earlier run's table from the catalog: the order of flows is found by what does not exist yet."""
        if output.kind == "temporary":
            self._spark.catalog.dropTempView(output.name)
        elif output.kind != "sink":
            database, _, table = output.name.rpartition(".")
            known = not database or self._spark.catalog.databaseExists(database)
            if known:
                self._spark.sql(f"DROP TABLE IF EXISTS {_quoted(database, table)}")

    def _into(self, output: str) -> list[FlowDefinition]:
        return [flow for flow in self._graph.flows.values() if flow.target == output]

    def _output(self, name: str) -> None:
        if name in self._done:
            return
        if name in self._under_way:
            circle = " -> ".join([*self._under_way[self._under_way.index(name) :], name])
            raise PenstockClientError(f"the pipeline has a cycle: {circle}")
        self._under_way.append(name)
        output = self._graph.outputs[name]
        frames = [(flow, self._frame(flow)) for flow in self._into(name)]
        self._under_way.pop()
        self._done.add(name)
        if output.kind == "temporary":
            frames[0][1].createOrReplaceTempView(name)
            return
        for flow, frame in frames:
            _check_kind(flow, output, frame)
            self.flows.append(PlannedFlow(flow, output, frame, self._reads(frame)))
        if output.kind in ("table", "view"):
            self._make_table(output, frames[0][1])

    def _frame(self, flow: FlowDefinition) -> DataFrame:
        """Analyze the query, defining the outputs that it refers to first."""
        attempts = 1
        while True:
            try:
                frame = flow.query()
                if not hasattr(frame, "isStreaming"):
                    raise PenstockClientError(f"{flow.place}: {flow.name!r} must return a DataFrame, not {frame!r}")
                # Spark Connect analyzes a query only when it is used.
                _ = frame.schema
                return frame
            except Exception as error:
                if is_transient(str(error)) and attempts < ATTEMPTS:
                    attempts += 1
                    continue
                if not isinstance(error, AnalysisException):
                    raise
                missing = _missing(error)
                if missing is None or missing not in self._graph.outputs or missing in self._done:
                    raise self._refused(flow, error, missing) from error
                self._output(missing)

    def _refused(self, flow: FlowDefinition, error: AnalysisException, missing: str | None) -> PenstockClientError:
        message = " ".join(str(error).split())
        if "Failed to find data source: kafka" in message or "Failed to find the data source: kafka" in message:
            return PenstockClientError(
                "provider jvm needs the jars of Spark's Kafka connector: set spark.jars, or set "
                "spark.jars.packages to org.apache.spark:spark-sql-kafka-0-10_2.13:<version>, or use provider "
                "python"
            )
        if missing is not None and missing in self._graph.outputs:
            return PenstockClientError(f"{flow.place}: {missing!r} cannot be read: it is a sink, or has no rows yet")
        near = nearest(missing, self._graph.outputs) if missing else ""
        return PenstockClientError(f"{flow.place}: the query of {flow.name!r} cannot be planned: {message[:400]}{near}")

    def _make_table(self, output: OutputDefinition, frame: DataFrame) -> None:
        if (output.format or "parquet").lower() in LAKE_FORMATS:
            return  # other flows cannot stream from it; see docs/spark.md
        database, _, table = output.name.rpartition(".")
        if database:
            self._spark.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
        path = self.path(output.name)
        self._store.make_folder(path)
        columns = ", ".join(f"`{one.name}` {one.dataType.simpleString()}" for one in frame.schema.fields)
        kind = (output.format or "parquet").lower()
        self._spark.sql(f"CREATE TABLE {_quoted(database, table)} ({columns}) USING {kind} LOCATION '{path}'")

    def _reads(self, frame: DataFrame) -> frozenset[str]:
        """Return the stored outputs in a query's plan."""
        text = _explained(frame)
        stored = [one.name for one in self._graph.outputs.values() if one.kind in ("table", "view")]
        return frozenset(
            name for name in stored if name in self._done and re.search(rf"spark_catalog\.(\w+\.)?{name}\b", text)
        )


def _check_kind(flow: FlowDefinition, output: OutputDefinition, frame: DataFrame) -> None:
    if output.kind == "view" and frame.isStreaming:
        raise PenstockClientError(
            f"{flow.place}: the materialized view {output.name!r} is computed from a stream: use spark.read instead "
            "of spark.readStream, or make it a table"
        )
    if output.kind in ("table", "sink") and not frame.isStreaming:
        raise PenstockClientError(
            f"{flow.place}: {output.name!r} is a streaming {output.kind} but its query is not a stream: use "
            "spark.readStream (in SQL: FROM STREAM name), or make it a materialized view"
        )


def _quoted(database: str, table: str) -> str:
    return f"`{database}`.`{table}`" if database else f"`{table}`"


def _explained(frame: DataFrame) -> str:
    """Return the plan with its names: from the JVM, or from the Spark Connect server."""
    if hasattr(frame, "_jdf"):
        return str(frame._jdf.queryExecution().analyzed().toString())
    return str(frame._explain_string(extended=True))  # type: ignore[operator]


def _missing(error: AnalysisException) -> str | None:
    if error.getCondition() != _NOT_FOUND:
        return None
    return (error.getMessageParameters() or {}).get("relationName", "").replace("`", "") or None


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Spark's log while names are unresolved; it would log each one with a stack trace."""
    loggers = [logging.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, value in zip(loggers, before, strict=True):
            logger.disabled = value
