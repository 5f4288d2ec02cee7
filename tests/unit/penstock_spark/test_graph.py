"""The definitions of a pipeline are collected from its files without Spark; mistakes name their file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock_client.errors import PenstockClientError
from penstock_spark.pipelines.graph import Graph, load
from penstock_spark.pipelines.spec import load_spec

SPEC = """
name: test
storage: storage
libraries:
  - glob: {include: flows/**}
"""
HEAD = "from pyspark import pipelines as dp\n"


class FakeConf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value


class FakeSpark:
    """The part of a session that definitions use."""

    def __init__(self) -> None:
        self.conf = FakeConf()
        self.queries: list[str] = []

    def sql(self, text: str) -> str:
        self.queries.append(text)
        return f"rows of {text}"


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark = FakeSpark()
        (folder / "flows").mkdir()
        (folder / "spark-pipeline.yml").write_text(SPEC)

    def load(self, **files: str) -> Graph:
        """Load the definitions of files, which are named by their stem and the suffix behind the last underscore."""
        for name, text in files.items():
            (self.folder / "flows" / ".".join(name.rsplit("_", 1))).write_text(text)
        spark: Any = self.spark
        return load(load_spec(self.folder), spark)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_sql_files_define_outputs_and_flows(project: Project) -> None:
    graph = project.load(
        orders_sql="""
        SET spark.sql.shuffle.partitions = '4';
        CREATE STREAMING TABLE orders USING parquet;
        CREATE FLOW in_euro AS INSERT INTO orders SELECT 1;
        CREATE MATERIALIZED VIEW totals AS SELECT 2;
        CREATE TEMPORARY VIEW recent AS SELECT 3;
        """
    )
    assert {name: one.kind for name, one in graph.outputs.items()} == {
        "orders": "table",
        "totals": "view",
        "recent": "temporary",
    }
    assert {name: one.target for name, one in graph.flows.items()} == {
        "in_euro": "orders",
        "totals": "totals",
        "recent": "recent",
    }
    assert project.spark.conf == {"spark.sql.shuffle.partitions": "4"}
    assert project.spark.queries == [], "definitions run no query"
    rows: Any = graph.flows["totals"].query()
    assert rows == "rows of SELECT 2"


def test_python_files_define_outputs_and_flows_and_see_the_session(project: Project) -> None:
    graph = project.load(
        flows_py=HEAD
        + "spark.conf.set('seen', 'yes')\n"
        + "dp.create_sink('letters', 'penstock', {'topic': 'orders.dlq'})\n"
        + "@dp.append_flow(target='letters')\ndef bad():\n    return 1\n"
        + "@dp.table\ndef orders():\n    return 2\n"
        + "@dp.materialized_view\ndef totals():\n    return 3\n"
        + "@dp.temporary_view\ndef recent():\n    return 4\n"
    )
    assert {name: one.kind for name, one in graph.outputs.items()} == {
        "letters": "sink",
        "orders": "table",
        "totals": "view",
        "recent": "temporary",
    }
    assert graph.outputs["letters"].options == {"topic": "orders.dlq"}
    assert graph.flows["bad"].target == "letters"
    assert project.spark.conf == {"seen": "yes"}


def test_files_of_a_pipeline_import_each_other(project: Project) -> None:
    (project.folder / "shared_names.py").write_text("NAME = 'orders'\n")
    graph = project.load(
        flows_py=HEAD + "from shared_names import NAME\n@dp.table(name=NAME)\ndef anything():\n    return 1\n"
    )
    assert list(graph.outputs) == ["orders"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a_py": HEAD + "1 / 0\n"}, "flows/a.py, line 2: ZeroDivisionError: division by zero"),
        ({"a_py": HEAD + "@dp.append_flow(target='ordrs')\ndef f():\n    return 1\n",
          "b_sql": "CREATE MATERIALIZED VIEW orders AS SELECT 1"},
         "the target 'ordrs' of flow 'f' is not defined. Did you mean 'orders'"),
        ({"a_py": HEAD + "dp.create_sink('s', 'penstock', {})\n"}, "'s' has no flow: add an append_flow to it"),
        ({"a_py": HEAD}, "the pipeline has no definitions"),
        ({"a_txt": "notes"}, "flows/a.txt: a pipeline consists of .py and .sql files; narrow the globs"),
        ({}, "no file in .* matches"),
        ({"a_sql": "CREATE MATERIALIZED VIEW v AS SELECT 1", "b_sql": "CREATE MATERIALIZED VIEW v AS SELECT 2"},
         "flows/b.sql: 'v' is defined twice, first at flows/a.sql"),
        ({"a_sql": "CREATE STREAMING TABLE t; CREATE FLOW f AS INSERT INTO t SELECT 1; "
                   "CREATE FLOW f AS INSERT INTO t SELECT 2"},
         "the flow 'f' is defined twice, first at flows/a.sql"),
        ({"a_sql": "DROP TABLE t"}, "flows/a.sql: the statement 'DROP TABLE t' is not allowed in a pipeline"),
        ({"a_py": HEAD + "from penstock_client.errors import PenstockClientError\n"
                  "raise PenstockClientError('no topic orders')\n"}, "^no topic orders$"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_place(project: Project, files: dict[str, str], expected: str) -> None:
    with pytest.raises(PenstockClientError, match=expected):
        project.load(**files)


def test_hidden_files_are_no_definitions(project: Project) -> None:
    (project.folder / "flows" / ".flows.py.swp").write_text("")
    (project.folder / "flows" / "__pycache__").mkdir()
    (project.folder / "flows" / "__pycache__" / "a.pyc").write_text("")
    assert list(project.load(a_sql="CREATE MATERIALIZED VIEW v AS SELECT 1").outputs) == ["v"]
