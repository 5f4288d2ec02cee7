"""Tests of penstock demo: the broker serves from its ready line on, even if another part fails."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.eventually import eventually
from tests.support.ports import free_ports

JVM = "org.apache.spark.deploy.SparkSubmit"
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
    command += ["--port", str(port), "--pipeline", str(tmp_path / "pipeline"), "--set", "num.partitions=1"]
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
def test_every_process_ends_with_the_demo(number: signal.Signals, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")
    command = [sys.executable, "-m", "penstock.cli.main", "demo", "--data", str(tmp_path / "data"), "--port", "0"]
    with (tmp_path / "output.txt").open("w+") as output:
        running = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=tmp_path)
        try:
            eventually(lambda: JVM in " ".join(descendants(running.pid).values()), what="Spark's JVM", seconds_max=300)
            started = descendants(running.pid)
            running.send_signal(number)
            running.wait(60)
            eventually(lambda: not [pid for pid, name in started.items() if command_of(pid) == name], what=str(started))
        finally:
            running.kill()
            running.wait()
    # The broker, the producer of orders, the pipeline and its JVM.
    assert len(started) >= 4, started


def descendants(pid: int) -> dict[int, str]:
    """Return the command lines of all processes that a process has started, directly or not."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _fields(int(folder.name))):
            parents[int(folder.name)] = int(fields[1])
    found, grown = {pid}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return {each: command_of(each) for each in found - {pid}}


def command_of(pid: int) -> str:
    """Return the command line of a process; an empty string if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _fields(pid: int) -> list[str]:
    """Return what /proc tells of a process after its name: state, parent and so on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def test_a_directory_without_a_demo_is_rejected(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "demo", "--pipeline", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "has no generate.py" in done.stderr
