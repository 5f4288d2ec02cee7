"""Tests of declarative pipelines with our runner, on real Spark and a live node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock_client.errors import PenstockClientError
from penstock_spark.pipelines.lag import lag_rows
from penstock_spark.pipelines.progress import FlowProgress
from penstock_spark.pipelines.run import Wish, run
from penstock_spark.pipelines.sources import Replay
from penstock_spark.pipelines.spec import Spec, load_spec
from penstock_spark.pipelines.store import Store
from tests.spark.log import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopic = Callable[..., str]
SPEC = """
name: test
storage: storage
libraries:
  - glob: {include: flows/**}
"""
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

# Defined before what it reads: order in files does not matter.
@dp.table
def doubled():
    return spark.readStream.table("numbers").selectExpr("n * 2 as n")

@dp.table
def numbers():
    rows = spark.readStream.format("penstock").option("subscribe", "TOPIC").load()
    return rows.selectExpr("cast(cast(value as string) as long) n")

dp.create_sink("back", "penstock", {"topic": "TARGET"})

@dp.append_flow(target="back")
def copy():
    return spark.readStream.table("big").selectExpr("cast(n as string) value")
"""
SQL = """
-- A view of a stream; and a table that each run recomputes.
CREATE TEMPORARY VIEW big AS SELECT * FROM STREAM numbers WHERE n >= 5;
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS c, sum(n) AS s FROM doubled;
"""


class Project:
    """A pipeline in a separate directory."""

    def __init__(self, folder: Path, spark: SparkSession, log: Log) -> None:
        self.folder, self._spark, self._log = folder, spark, log
        (folder / "flows").mkdir(parents=True)
        (folder / "spark-pipeline.yml").write_text(SPEC)

    def write(self, name: str, text: str) -> None:
        (self.folder / "flows" / name).write_text(text)

    @property
    def spec(self) -> Spec:
        return load_spec(self.folder).with_changes(storage=None, bootstrap=self._log.bootstrap, provider=None)

    def run(self, wish: Wish | None = None) -> dict[str, FlowProgress]:
        done = run(self.spec, self._spark, wish or Wish(), lambda _: None, lambda _: None)
        return {one.name: one for one in done}

    def table(self, name: str) -> list[int]:
        return sorted(row.n for row in self._spark.read.table(name).collect())


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession, log: Log) -> Project:
    return Project(tmp_path / "project", spark, log)


def test_a_pipeline_runs_continues_and_is_replayed(
    project: Project, spark: SparkSession, log: Log, new_topic: NewTopic
) -> None:
    topic, target = new_topic(), new_topic()
    project.write("flows.py", FLOWS.replace("TOPIC", topic).replace("TARGET", target))
    project.write("views.sql", SQL)
    log.fill(topic, [str(number) for number in range(10)])
    first = project.run()
    assert project.table("numbers") == list(range(10))
    assert project.table("doubled") == list(range(0, 20, 2))
    assert [(row.c, row.s) for row in spark.read.table("total").collect()] == [(10, 90)]
    assert log.committed_values(target) == {str(number): 1 for number in range(5, 10)}
    assert {one.state for one in first.values()} == {"finished"} and first["numbers"].rows == 10

    log.fill(topic, ["10"])
    assert [(row["flow"], row["lag"]) for row in lag_rows(project.spec)] == [("numbers", 1)]
    second = project.run()
    assert second["numbers"].rows == 1, "it continues at its checkpoint"
    assert project.table("doubled") == list(range(0, 22, 2))
    assert lag_rows(project.spec)[0]["lag"] == 0

    project.run(Wish(replay=Replay(offset=8), flows=["numbers"]))
    assert project.table("numbers") == [8, 9, 10], "a replayed table is rewritten"
    assert project.table("doubled") == [16, 18, 20], "and so are tables that read it"
    state = Store(project.spec.storage).state()
    assert state is not None and state["state"] == "finished" and state["topics"] == [target]


def test_a_failing_flow_stops_the_run_and_says_why(project: Project, log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    project.write(
        "flows.py",
        FLOWS.split("dp.create_sink")[0]
        .replace("TOPIC", topic)
        .replace("cast(cast(value as string) as long) n", "raise_error('no such number') n"),
    )
    log.fill(topic, ["1"])
    with pytest.raises(PenstockClientError, match=r"the flow 'numbers' failed: .*no such number"):
        project.run()
    state = Store(project.spec.storage).state()
    assert state is not None and state["state"] == "failed"
    assert {one["name"]: one["state"] for one in state["flows"]}["numbers"] == "failed"


def test_a_checkpoint_of_another_topic_is_rejected(project: Project, log: Log, new_topic: NewTopic) -> None:
    one, other = new_topic(), new_topic()
    text = FLOWS.split("# Defined")[0] + "@dp.table\n" + FLOWS.split("@dp.table\n")[2].split("dp.create_sink")[0]
    log.fill(one, ["1"])
    log.fill(other, ["1"])
    project.write("flows.py", text.replace("TOPIC", one))
    project.run()
    project.write("flows.py", text.replace("TOPIC", other))
    with pytest.raises(PenstockClientError, match="the checkpoint belongs to another query: it has offsets of"):
        project.run()


HEAD = "from pyspark import pipelines as dp\nfrom pyspark.sql import SparkSession\nspark = SparkSession.active()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@dp.materialized_view\ndef a():\n    return spark.table('b')\n"
         "@dp.materialized_view\ndef b():\n    return spark.table('a')\n", "has a cycle: a -> b -> a"),
        ("@dp.materialized_view\ndef apples():\n    return spark.range(1)\n"
         "@dp.materialized_view\ndef b():\n    return spark.table('appels')\n", "Did you mean 'apples'"),
        ("@dp.table\ndef a():\n    return spark.range(1)\n", "its query is not a stream"),
        ("@dp.materialized_view\ndef a():\n    return 3\n", "must return a DataFrame"),
        ("@dp.append_flow(target='nowhere')\ndef a():\n    return spark.range(1)\n",
         "the target 'nowhere' of flow 'a' is not defined"),
        ("1 / 0\n", r"flows/flows.py, line 4: ZeroDivisionError"),
        ("dp.create_sink('s', 'penstock', {})\n", "'s' has no flow"),
        ("", "the pipeline has no definitions"),
    ],
)  # fmt: skip
def test_invalid_definitions_are_reported_with_their_location(project: Project, text: str, expected: str) -> None:
    project.write("flows.py", HEAD + text)
    with pytest.raises(PenstockClientError, match=expected):
        project.run()
