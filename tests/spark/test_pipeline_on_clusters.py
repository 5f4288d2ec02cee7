"""The same pipeline files on a standalone Spark of two workers, over three brokers of which one goes away."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.spark.log import Log
from tests.support.penstock_cluster import PenstockCluster

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
  spark.ui.enabled: "false"
  spark.driver.host: 127.0.0.1
  spark.driver.bindAddress: 127.0.0.1
"""
ROWS = 1000


@pytest.fixture
def brokers() -> Iterator[PenstockCluster]:
    with PenstockCluster(count=3) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_two_workers_and_three_brokers_keep_each_row_once(brokers: PenstockCluster, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")
    from deltalake import DeltaTable

    from tests.spark.standalone import Standalone

    (tmp_path / "flows.py").write_text(FLOWS)
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    topics = [NewTopic(name, 2, 3, config={"min.insync.replicas": "2"}) for name in ("numbers", "copied")]
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    for done in admin.create_topics(topics).values():
        done.result(30)
    log = Log(brokers.bootstrap)
    with Standalone(tmp_path) as spark:
        command = [sys.executable, "-m", "penstock.cli.main", "pipeline", "run", str(tmp_path)]
        command += ["--bootstrap", brokers.bootstrap, "--set", f"spark.master={spark.url}"]
        for half in range(2):
            log.fill("numbers", [str(number) for number in range(half * ROWS, half * ROWS + ROWS)])
            done_run = subprocess.run(command, capture_output=True, text=True, timeout=220, check=False)
            assert done_run.returncode == 0, done_run.stderr + done_run.stdout
            if half == 0:
                brokers.kill(3)
        assert spark.workers_that_ran() == 2
    expected = Counter(str(number) for number in range(2 * ROWS))
    assert Counter(DeltaTable(str(tmp_path / "storage" / "lake")).to_pyarrow_table()["v"].to_pylist()) == expected
    assert log.committed_values("copied") == expected
