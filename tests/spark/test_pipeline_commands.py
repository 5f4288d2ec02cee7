"""Tests of the command penstock pipeline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.log import Log
from tests.support.eventually import eventually

NewTopic = Callable[..., str]
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("lake", "delta", {"path": "lake"})

@dp.append_flow(target="lake")
def keep():
    rows = spark.readStream.format("penstock").option("subscribe", "TOPIC").load()
    return rows.selectExpr("cast(value as string) v")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "flows.py").write_text(FLOWS)
    (tmp_path / "spark-pipeline.yml").write_text(
        "name: test\nstorage: storage\nlibraries:\n  - glob: {include: flows.py}\nconfiguration:\n"
        "  spark.master: local[2]\n  spark.driver.memory: 1g\n  spark.ui.enabled: 'false'\n"
    )
    return tmp_path


def penstock(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli.main", "pipeline", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_sigterm_stops_a_run_after_its_batch_and_status_commands_show_it(
    project: Path, log: Log, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    (project / "flows.py").write_text(FLOWS.replace("TOPIC", topic))
    log.fill(topic, [str(number) for number in range(50)])
    command = [sys.executable, "-m", "penstock.cli.main", "pipeline", "run", str(project), "--continuous"]
    running = subprocess.Popen(
        [*command, "-b", log.bootstrap], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        committed = project / "storage" / "checkpoints" / "keep" / "0" / "commits" / "0"
        eventually(lambda: committed.exists() or running.poll() is not None, what="a batch", seconds_max=300)
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=120)
    finally:
        if running.poll() is None:
            os.kill(running.pid, signal.SIGKILL)
    assert running.returncode == 0, said
    assert "stopped; the next run continues from here" in said
    where = [str(project), "-b", log.bootstrap]
    status = penstock("status", str(project))
    assert "test: stopped (continuous" in status.stdout and "keep" in status.stdout
    lag = penstock("lag", *where, "--format", "csv")
    rows = [line.split(",") for line in lag.stdout.splitlines()[1:]]
    assert sum(int(row[4]) for row in rows) == 50 and {row[6] for row in rows} == {"0"}
    compacted = penstock("compact", str(project / "storage" / "lake"), "--as", "delta")
    assert compacted.returncode == 0 and ("became 1" in compacted.stdout or "nothing to do" in compacted.stdout)
    assert "no sink to a topic" in penstock("dlq", *where).stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "PROJECT/nowhere"], "does not exist"),
        (["run", "PROJECT", "--provider", "jvn"], "unknown provider 'jvn'"),
        (["run", "PROJECT", "-b", "127.0.0.1:1"], "127.0.0.1:1"),
        (["run", "PROJECT", "--set", "penstock.triger=1s"], "Did you mean 'penstock.trigger'"),
        (["replay", "PROJECT"], "Pass either --from-timestamp or --from-offset"),
        (["replay", "PROJECT", "--from-offset", "x"], "Invalid offset 'x'"),
        (["status", "PROJECT"], "has not run with storage"),
        (["compact", "PROJECT/none", "--as", "delta"], "no Delta table exists"),
        (["compact", "PROJECT/none", "--as", "orc"], "unknown lake format 'orc'"),
    ],
)
def test_errors_are_one_line_that_says_what_to_do(project: Path, words: list[str], expected: str) -> None:
    done = penstock(*[word.replace("PROJECT", str(project)) for word in words])
    assert done.returncode == 1
    assert expected in done.stderr and len(done.stderr.strip().splitlines()) <= 2, done.stderr
