"""Tests of the same pipeline files on a standalone Spark and through Spark Connect, over three brokers of which
one is stopped; and of the sink with speculative execution.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.log import Log
from tests.support.penstock_cluster import PenstockCluster

if TYPE_CHECKING:
    from tests.spark.connect_server import ConnectServer
    from tests.spark.standalone import Standalone

CHECKOUT = Path(__file__).parents[2]

FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("table", "lake", {"format": "delta", "path": "lake"})
dp.create_sink("back", "penstock", {"topic": "copied"})


def numbers():
    return spark.readStream.format("penstock").option("subscribe", "numbers").load()


@dp.append_flow(target="table")
def keep():
    return numbers().selectExpr("cast(value as string) v")


@dp.append_flow(target="back")
def copy():
    return numbers().select("key", "value")
"""
SPEC = """
name: numbers
storage: storage
libraries:
  - glob: {include: flows.py}
configuration:
  spark.driver.memory: 1g
  spark.executor.memory: 512m
  spark.executor.cores: "1"
  # No task starts before both workers have an executor.
  spark.cores.max: "2"
  spark.scheduler.minRegisteredResourcesRatio: "1.0"
  spark.scheduler.maxRegisteredResourcesWaitingTime: 200s
  spark.ui.enabled: "false"
  spark.driver.host: 127.0.0.1
  spark.driver.bindAddress: 127.0.0.1
"""
ROWS = 1000
RUN_S_MAX = 600.0
LOG_TAIL_SIZE = 4000


# A copy of a task is started as soon as half of the tasks are done.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def brokers() -> Iterator[PenstockCluster]:
    with PenstockCluster(count=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def log(brokers: PenstockCluster) -> Log:
    made = Log(brokers.bootstrap)
    for name in ("numbers", "copied", "speculated"):
        made.create(name, 2, {"min.insync.replicas": "2"}, replicas=3)
    return made


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")
    from tests.spark.standalone import Standalone

    with Standalone(tmp_path_factory.mktemp("standalone")) as spark:
        yield spark


@pytest.fixture(scope="module")
def project(standalone: Standalone, brokers: PenstockCluster, log: Log, tmp_path_factory: pytest.TempPathFactory) -> (
    Path
):  # fmt: skip
    """Provide the pipeline's directory, after a first run on the standalone master."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "flows.py").write_text(FLOWS)
    (folder / "spark-pipeline.yml").write_text(SPEC)
    log.fill("numbers", [str(number) for number in range(ROWS)])
    run(folder, brokers, f"spark.master={standalone.url}")
    return folder


@pytest.fixture(scope="module")
def connect(standalone: Standalone, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """Provide a server with the executors of the standalone cluster, which the first run has released."""
    from tests.spark.connect_server import ConnectServer

    places = os.pathsep.join(str(CHECKOUT / folder) for folder in ("", "src", "client/src"))
    settings = {
        "spark.master": standalone.url,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": places,
        **SPECULATION,
    }
    with ConnectServer(tmp_path_factory.mktemp("connect"), settings) as server:
        yield server


def run(folder: Path, brokers: PenstockCluster, where: str) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "pipeline", "run", str(folder)]
    command += ["--bootstrap", brokers.bootstrap, "--set", where]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        error.add_note(spark_log(folder))
        raise
    assert done.returncode == 0, spark_log(folder) + done.stderr + done.stdout


def spark_log(folder: Path) -> str:
    """Return the last output of the driver, for the report of a failed run."""
    path = folder / "storage" / "spark.log"
    return path.read_text(errors="replace")[-LOG_TAIL_SIZE:] if path.exists() else "Spark was not started. "


def kept(folder: Path) -> Counter[str]:
    from deltalake import DeltaTable

    return Counter(DeltaTable(str(folder / "storage" / "lake")).to_pyarrow_table()["v"].to_pylist())


def test_both_workers_of_a_standalone_master_run_tasks(standalone: Standalone, project: Path, log: Log) -> None:
    expected = log.committed_values("numbers")  # the next test adds some
    assert standalone.workers_that_ran() == 2
    assert log.committed_values("copied") == expected
    assert kept(project) == expected


def test_the_next_run_continues_through_spark_connect_with_one_broker_down(
    connect: ConnectServer, project: Path, brokers: PenstockCluster, log: Log
) -> None:
    brokers.kill(3)
    log.fill("numbers", [str(number) for number in range(ROWS, 2 * ROWS)])
    run(project, brokers, f"spark.remote={connect.url}")
    expected = Counter(str(number) for number in range(2 * ROWS))
    assert log.committed_values("copied") == expected
    assert kept(project) == expected


def test_a_speculative_attempt_duplicates_nothing(
    connect: ConnectServer, brokers: PenstockCluster, log: Log, tmp_path: Path
) -> None:
    words = [connect.url, brokers.bootstrap, "numbers", "speculated", str(tmp_path)]
    command = [sys.executable, "-m", "tests.spark.slow_sink", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr + done.stdout
    attempts = sorted(path.name for path in tmp_path.glob("partition-*"))
    assert attempts[:2] == ["partition-0-attempt-0", "partition-0-attempt-1"], "both attempts wrote their rows"
    seen = log.committed_values("speculated")
    assert seen == log.committed_values("numbers") and set(seen.values()) == {1}
