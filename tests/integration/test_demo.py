"""Tests of penstock demo: the broker serves from its ready line on, even if another part fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.eventually import eventually
from tests.support.ports import free_ports

GENERATE = """
import sys, time
from confluent_kafka.admin import AdminClient, NewTopic
admin = AdminClient({"bootstrap.servers": sys.argv[sys.argv.index("--bootstrap") + 1]})
admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
time.sleep(600)
"""


def test_a_pipeline_that_fails_leaves_the_broker_serving_until_ctrl_c(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "generate.py").write_text(GENERATE)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "penstock.cli.main", "demo", "--data", str(tmp_path / "data")]
    command += [
        "--port",
        str(port),
        "--metrics",
        "0",
        "--pipeline",
        str(tmp_path / "pipeline"),
        "--set",
        "num.partitions=1",
    ]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert running.stdout is not None
    try:
        assert running.stdout.readline().endswith("] starting the broker\n")
        assert any(line.startswith(f"ready localhost:{port}") for line in running.stdout)
        said = ""
        for line in running.stdout:
            said += line
            if "the pipeline exited" in line:
                break
        assert "has no spark-pipeline.yml" in said and "The broker keeps running" in said
        admin = AdminClient({"bootstrap.servers": f"localhost:{port}"})
        eventually(lambda: "orders" in admin.list_topics(timeout=60).topics)
        running.send_signal(signal.SIGINT)
        rest = running.communicate(timeout=60)[0]
    finally:
        if running.poll() is None:
            running.kill()
    assert running.returncode == 0 and "stopped" in rest


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find the processes")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL], ids=lambda each: each.name)
@pytest.mark.parametrize("moment", ["org.apache.spark.deploy.SparkSubmit", "pyspark.daemon"])
def test_every_process_ends_with_the_demo(moment: str, number: signal.Signals, tmp_path: Path) -> None:
    """The demo ends while Spark's JVM starts, or when its Python workers run."""
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")
    command = [sys.executable, "-m", "penstock.cli.main", "demo", "--data", str(tmp_path / "data"), "--port", "0"]
    # Demos that start at the same time would choose the same port for their metrics.
    command += ["--metrics", "0"]
    with (tmp_path / "output.txt").open("w") as output:
        running = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=tmp_path)
        try:
            eventually(
                lambda: running.poll() is not None or moment in str(descendants(running.pid)),
                what=moment,
                seconds_max=300,
            )
            assert running.poll() is None, (tmp_path / "output.txt").read_text()
            started = descendants(running.pid)
            # Each part of the demo has a session of its own. A process keeps its session when it starts another
            # program, or when its parent ends.
            sessions = {each.session for each in started} - {os.getsid(0)}
            running.send_signal(number)
            running.wait(60)
            eventually(
                lambda: not [each for each in processes() if each.session in sessions],
                what=f"the end of {started}",
                seconds_max=120,
            )
        finally:
            running.kill()
            running.wait()
    # The broker, the producer of orders, and the pipeline with its JVM.
    assert len(sessions) >= 3, started


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    command: str


def processes() -> list[Process]:
    """Return all processes of this machine that run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            # It has ended.
            continue
        if state != "Z":
            found.append(Process(int(folder.name), int(parent), int(session), command))
    return found


def descendants(pid: int) -> list[Process]:
    """Return all processes that a process has started, directly or not."""
    listed = processes()
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {each.pid for each in listed if each.parent in found}
    return [each for each in listed if each.pid in found - {pid}]


def test_a_directory_without_a_demo_is_rejected(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "demo", "--pipeline", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "has no generate.py" in done.stderr
