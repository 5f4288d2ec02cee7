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


def test_a_directory_without_a_demo_is_rejected(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "demo", "--pipeline", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "has no generate.py" in done.stderr
