"""kafkajs (JavaScript) and franz-go (Go), each a small program that checks itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.java_tools import CHECKOUT

HERE = Path(__file__).parent
CACHE = CHECKOUT / ".cache"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        "PENSTOCK_TEST_MORE_CLIENTS" not in os.environ,
        reason="fetches from other languages' registries: set PENSTOCK_TEST_MORE_CLIENTS=1",
    ),
]


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def command(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def copied(name: str) -> Path:
    """Build below .cache, so that the checkout stays as it is."""
    folder = CACHE / name
    shutil.copytree(HERE / name, folder, dirs_exist_ok=True)
    return folder


def test_kafkajs_administers_and_produces(bootstrap: str) -> None:
    node, npm = command("node"), command("npm")
    folder = copied("kafkajs")
    if not (folder / "node_modules").is_dir():
        run(npm, "install", "--no-audit", "--no-fund", folder=folder)
    assert "ok" in run(node, "check.js", bootstrap, f"kafkajs-{time.time_ns()}", folder=folder)


def test_franz_go_produces_consumes_and_administers(bootstrap: str) -> None:
    go = command("go")
    folder = copied("franz_go")
    run(go, "mod", "tidy", folder=folder)
    run(go, "build", "-o", "check", ".", folder=folder)
    assert "ok" in run(str(folder / "check"), bootstrap, f"franz-go-{time.time_ns()}", folder=folder)
