"""A plain session in an environment that is not activated: importing the package is enough."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing import BrokerProcess
from tests.docs.markdown import blocks

JOB = """
import sys

if sys.argv[2] == "imported":
    import penstock_spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
read = spark.read.format("penstock").option("kafka.bootstrap.servers", sys.argv[1])
print("rows", read.option("subscribe", "orders").load().count())
"""


def run_job(tmp_path: Path, bootstrap: str, how: str) -> subprocess.CompletedProcess[str]:
    from penstock_spark.java import ensure_java

    # The first python3 of the PATH has no packages.
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    (bare / "python3").chmod(0o755)
    (tmp_path / "job.py").write_text(JOB)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    environment |= {"PATH": f"{bare}{os.pathsep}{os.environ['PATH']}", "JAVA_HOME": str(ensure_java())}
    command = [sys.executable, str(tmp_path / "job.py"), bootstrap, how]
    return subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", ["imported", "not imported"])
def test_the_workers_use_the_python_of_the_driver_if_the_package_is_imported(tmp_path: Path, how: str) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")
    from confluent_kafka import Producer

    with BrokerProcess() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders", "1")
        assert producer.flush(60) == 0
        done = run_job(tmp_path, broker.bootstrap, how)
    if how == "imported":
        assert "rows 1" in done.stdout, done.stderr[-3000:]
    else:
        (quoted,) = [block for block in blocks("docs/spark.md") if "DATA_SOURCE_NOT_FOUND" in block.text]
        assert quoted.text.strip() in done.stderr, done.stderr[-3000:]
