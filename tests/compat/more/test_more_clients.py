"""Tests of kafkajs (JavaScript) and franz-go (Go), each a small program that checks itself."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.java_tools import CHECKOUT

HERE = Path(__file__).parent
CACHE = CHECKOUT / ".cache"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def run(*command: str, folder: Path) -> str:
    done = _done(command, folder)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def fetch(what: str, *command: str, folder: Path) -> None:
    """Run a command that fetches from a registry; skip the test if that fails."""
    done = _done(command, folder)
    if done.returncode != 0:
        pytest.skip(f"{what} cannot be fetched: {done.stderr.strip()[-300:]}")


def _done(command: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)


def command(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def copied(name: str) -> Path:
    """Build below .cache, so that the checkout is not changed."""
    folder = CACHE / name
    shutil.copytree(HERE / name, folder, dirs_exist_ok=True)
    return folder


def test_kafkajs_administers_and_produces(bootstrap: str) -> None:
    node, npm = command("node"), command("npm")
    folder = copied("kafkajs")
    if not (folder / "node_modules").is_dir():
        fetch("kafkajs", npm, "install", "--no-audit", "--no-fund", folder=folder)
    assert "ok" in run(node, "check.js", bootstrap, f"kafkajs-{time.time_ns()}", folder=folder)


def test_franz_go_produces_consumes_and_administers(bootstrap: str) -> None:
    go = command("go")
    folder = copied("franz_go")
    fetch("franz-go", go, "mod", "tidy", folder=folder)
    run(go, "build", "-o", "check", ".", folder=folder)
    assert "ok" in run(str(folder / "check"), bootstrap, f"franz-go-{time.time_ns()}", folder=folder)
