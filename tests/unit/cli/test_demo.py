"""The steps of `penstock demo` without its processes: what it says about Spark, and when it stops."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli import demo
from penstock.cli.demo import Demo
from penstock.cli.errors import CommandError


@pytest.fixture
def running(tmp_path: Path) -> Demo:
    (tmp_path / "data-demo").mkdir()
    return Demo(tmp_path / "data", tmp_path / "orders", 5.0)


class Orders:
    """A consumer that sees a topic `orders` with two partitions of ten records."""

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics={"orders": SimpleNamespace(partitions={0: None, 1: None})})

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        return 0, 10


class NoOrders(Orders):
    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics={})


def write_state(running: Demo, **state: Any) -> None:
    (running._folder / "state.json").write_text(json.dumps(state))


def write_progress(running: Demo, flow: str, *offsets: int) -> None:
    """Write the checkpoint of a flow that has processed the partitions of `orders` up to these offsets."""
    folder = running._folder / "checkpoints" / flow / "0"
    for name in ("commits", "offsets"):
        (folder / name).mkdir(parents=True)
    (folder / "commits" / "3").touch()
    found = {"orders": {str(index): offset for index, offset in enumerate(offsets)}}
    (folder / "offsets" / "3").write_text(f"v1\n{{}}\n{json.dumps(found)}\n")


def describe(running: Demo, consumer: Orders | None = None) -> str:
    seen: Any = consumer or Orders()
    return running._describe_state(seen)


def test_without_spark_the_state_is_the_number_of_orders(running: Demo) -> None:
    assert describe(running) == "20 orders written"
    assert describe(running, NoOrders()) == "0 orders written"


def test_the_state_follows_spark_from_its_start_to_its_results(running: Demo) -> None:
    running._spark = subprocess.Popen([sys.executable, "-c", ""], text=True)
    running._spark.wait()
    assert describe(running) == "Spark is starting; 20 orders written, 20 waiting for it"
    (running._folder / "state.json").write_text("{ incomplete")
    assert describe(running).startswith("Spark is starting")
    write_state(running, state="running", flows=[{"rows": 0, "counted": {}}])
    assert describe(running) == "Spark processes its first batch; 20 orders written, 20 waiting"
    write_progress(running, "clean", 8, 10)
    write_progress(running, "sales", 10, 3)
    write_state(
        running, state="running", flows=[{"rows": 9, "counted": {"dead_letters": 2}}, {"rows": 0, "counted": {}}]
    )
    assert describe(running) == "Spark is running; 20 orders written, 9 waiting, 2 dead letters in this run"


def test_a_pipeline_that_exits_is_reported_with_its_last_words(
    running: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    running._spark = subprocess.Popen([sys.executable, "-c", ""], text=True)
    running._spark.wait()
    (running._folder / "pipeline.log").write_text("starting\nno broker responds\n")
    running._check_spark()
    assert "the pipeline exited: no broker responds. The broker keeps running." in capsys.readouterr().out
    running._check_spark()
    assert capsys.readouterr().out == "", "it is reported once"


def test_more_commands_are_shown_once_with_the_first_results(running: Demo, capsys: pytest.CaptureFixture[str]) -> None:
    running._first_results()
    assert capsys.readouterr().out == "", "there is no pipeline"
    running._spark = subprocess.Popen([sys.executable, "-c", ""], text=True)
    running._spark.wait()
    write_state(running, state="running", flows=[])
    running._first_results()
    printed = capsys.readouterr().out
    assert "the pipeline runs. More to try:" in printed
    assert f"penstock pipeline status {running._pipeline} --storage {running._folder}" in printed
    running._first_results()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("set_up", "said"),
    [
        (None, "Spark is not installed, so the pipeline is not started. Run: pip install 'penstock[spark]'"),
        (shlex.join([sys.executable, "-c", "exit(3)"]), "Spark was not installed; see "),
    ],
)
def test_the_demo_runs_without_spark(
    running: Demo, set_up: str | None, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "NEEDED", ("no_such_module",))
    running.start_spark(set_up)
    running.end()
    assert said in capsys.readouterr().out
    assert running._spark is None


def test_an_installation_is_stopped_with_the_demo(running: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "NEEDED", ("no_such_module",))
    monkeypatch.setattr(demo, "POLL_S", 0.0)
    stopping = running._stopping

    def stopped(seconds: float) -> bool:
        stopping.set()
        return True

    monkeypatch.setattr(stopping, "wait", stopped)
    running.start_spark(shlex.join([sys.executable, "-c", "import signal; signal.pause()"]))
    running.end()
    assert running._spark is None
    assert running._set_up is not None and running._set_up.returncode is not None


def test_nothing_is_started_after_a_stop(running: Demo) -> None:
    running.stop()
    running.start_orders()
    running.start_spark(None)
    running.watch()
    assert (running._orders, running._spark) == (None, None)
    running.end()


def test_a_broker_that_does_not_start_ends_the_demo(
    running: Demo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(command: list[str], stdout: Any = None) -> subprocess.Popen[str]:
        return running._process([sys.executable, "-c", "print('no space left')"], stdout)

    monkeypatch.setattr(running, "_penstock", broken)
    with pytest.raises(CommandError, match="The broker did not start"):
        running.start_broker(["--metrics", "0"])
    running.end()
    assert "no space left" in capsys.readouterr().out
