"""Tests of kafkajs (JavaScript) and franz-go (Go): small programs that check themselves, and franz-go's share tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.support.foreign import CACHE, command, copied, fetch, go_program, node_program, run

HERE = Path(__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_kafkajs_administers_and_produces(bootstrap: str) -> None:
    program = node_program(HERE / "kafkajs", "kafkajs")
    assert "ok" in run(*program, bootstrap, f"kafkajs-{time.time_ns()}", folder=HERE)


def test_franz_go_produces_consumes_and_administers(bootstrap: str) -> None:
    program = go_program(HERE / "franz_go", "franz_go")
    assert "ok" in run(*program, bootstrap, f"franz-go-{time.time_ns()}", folder=HERE)


def test_franz_go_passes_its_own_tests_of_share_groups() -> None:
    go = command("go")
    with copied(HERE / "franz_go", "franz_go") as folder:
        fetch("franz-go", go, "mod", "tidy", folder=folder)
        module = Path(run(go, "list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go", folder=folder).strip())
    suite = CACHE / "franz-go-suite"
    if not suite.is_dir():
        # Modules are read-only where Go keeps them.
        shutil.copytree(module, suite, copy_function=shutil.copyfile)
    fetch("what franz-go's tests need", go, "test", "-run", "^$", "./pkg/kgo", folder=suite)
    with Broker({"group.share.min.record.lock.duration.ms": "1000"}) as broker:
        environment = {
            **os.environ,
            "KGO_SEEDS": broker.bootstrap,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": "20000",
        }
        done = subprocess.run(
            [go, "test", "-run", "^TestShareGroup", "-count=1", "-timeout", "900s", "./pkg/kgo"],
            cwd=suite, env=environment, capture_output=True, text=True, timeout=1000, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
