"""The definitions of a pipeline, collected through Spark's registry of graph elements.

`load` runs the Python files and parses the SQL files of the spec, without running queries; plan.py analyzes those.
Raises for names that are defined twice, flows without a target, and unknown file types.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, TemporaryView

from penstock_client.errors import PenstockClientError, nearest
from penstock_spark.pipelines.spec import Spec
from penstock_spark.pipelines.sqlfile import Definition, definitions

if TYPE_CHECKING:
    from pyspark.pipelines.flow import AutoCdcFlow, Flow
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """A query and its target."""

    name: str
    target: str
    query: Callable[[], DataFrame]
    settings: dict[str, str]
    place: str


@dataclass(frozen=True, slots=True)
class OutputDefinition:
    """An output; kind is table, view (materialized), temporary or sink."""

    name: str
    kind: str
    format: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    place: str = ""


@dataclass(slots=True)
class Graph:
    """The definitions of a pipeline, in order of definition."""

    outputs: dict[str, OutputDefinition] = field(default_factory=dict)
    flows: dict[str, FlowDefinition] = field(default_factory=dict)

    def add_output(self, output: OutputDefinition) -> None:
        if output.name in self.outputs:
            raise PenstockClientError(f"{output.place}: {output.name!r} is defined twice, first at "
                                     f"{self.outputs[output.name].place}")  # fmt: skip
        self.outputs[output.name] = output

    def add_flow(self, flow: FlowDefinition) -> None:
        if flow.name in self.flows:
            raise PenstockClientError(f"{flow.place}: the flow {flow.name!r} is defined twice, first at "
                                     f"{self.flows[flow.name].place}")  # fmt: skip
        self.flows[flow.name] = flow

    def check(self) -> None:
        for flow in self.flows.values():
            if flow.target not in self.outputs:
                near = nearest(flow.target, self.outputs)
                raise PenstockClientError(
                    f"{flow.place}: the target {flow.target!r} of flow {flow.name!r} is not defined.{near}"
                )
        filled = {flow.target for flow in self.flows.values()}
        for name, output in self.outputs.items():
            if name not in filled:
                raise PenstockClientError(f"{output.place}: {name!r} has no flow: add an append_flow to it")
        if not self.flows:
            raise PenstockClientError("the pipeline has no definitions: check the globs under 'libraries'")


class _Registry(GraphElementRegistry):
    """A registry that stores the definitions of decorators and SQL."""

    def __init__(self, spark: SparkSession, graph: Graph) -> None:
        self._spark, self._graph = spark, graph

    def register_output(self, output: Output) -> None:
        place = _place(output)
        if isinstance(output, Sink):
            made = OutputDefinition(output.name, "sink", output.format, dict(output.options), place)
        elif isinstance(output, TemporaryView):
            made = OutputDefinition(output.name, "temporary", place=place)
        elif isinstance(output, MaterializedView | StreamingTable):
            kind = "view" if isinstance(output, MaterializedView) else "table"
            made = OutputDefinition(output.name, kind, output.format, dict(output.table_properties), place)
        else:
            raise PenstockClientError(f"{place}: this runner does not support outputs of type {type(output).__name__}")
        self._graph.add_output(made)

    def register_flow(self, flow: Flow) -> None:
        self._graph.add_flow(FlowDefinition(flow.name, flow.target, flow.func, dict(flow.spark_conf), _place(flow)))

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        raise PenstockClientError(
            f"{_place(flow)}: AUTO CDC is supported only by Spark's runner: use spark-pipelines run"
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        for one in definitions(sql_text, str(file_path)):
            self._define(one, str(file_path))

    def _define(self, one: Definition, place: str) -> None:
        if one.kind == "set":
            self._spark.conf.set(one.name, str(one.query).strip().strip("'\""))
            return
        if one.kind != "flow":
            self._graph.add_output(OutputDefinition(one.name, one.kind, one.format, place=place))
        if one.query is not None:
            query = one.query
            flow = FlowDefinition(one.name, one.target or one.name, lambda: self._spark.sql(query), {}, place)
            self._graph.add_flow(flow)


def load(spec: Spec, spark: SparkSession) -> Graph:
    """Load the definitions from the files of a pipeline."""
    graph = Graph()
    registry = _Registry(spark, graph)
    with _inside(spec.folder), graph_element_registration_context(registry):
        for pattern in spec.globs:
            files = [path for path in sorted(spec.folder.glob(pattern)) if _is_definition(path)]
            if not files:
                raise PenstockClientError(f"no file in {spec.folder} matches '{pattern}' (libraries of the spec)")
            for path in files:
                _read(path, spec, registry, spark)
    graph.check()
    return graph


def _is_definition(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")


def _read(path: Path, spec: Spec, registry: _Registry, spark: SparkSession) -> None:
    relative = path.relative_to(spec.folder)
    if path.suffix == ".sql":
        registry.register_sql(path.read_text(encoding="utf-8"), relative)
    elif path.suffix == ".py":
        found = importlib.util.spec_from_file_location(path.stem, path)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        module.__dict__["spark"] = spark
        try:
            found.loader.exec_module(module)
        except PenstockClientError:
            raise
        except Exception as error:
            line = _line(error, path)
            raise PenstockClientError(f"{relative}{line}: {type(error).__name__}: {error}") from error
    else:
        raise PenstockClientError(f"{relative}: a pipeline consists of .py and .sql files; narrow the globs")


def _line(error: BaseException, path: Path) -> str:
    trace, line = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    return line


def _place(element: Any) -> str:
    where = element.source_code_location
    return f"{os.path.relpath(where.filename)}:{where.line_number}" if where.filename else "the pipeline"


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Run code in a pipeline's directory, so that its files can import each other and open relative paths."""
    before = os.getcwd()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        os.chdir(before)
