"""Small programs in JavaScript and Go that use a client library: fetched and built below .cache, or skipped."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.java_tools import CHECKOUT

CACHE = CHECKOUT / ".cache"


def run(*words: str, folder: Path) -> str:
    done = _done(words, folder)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def node_program(source: Path, name: str) -> list[str]:
    """Return the command that runs `check.js` in a folder with its package.json."""
    node, npm = command("node"), command("npm")
    with copied(source, name) as folder:
        if not (folder / "node_modules").is_dir():
            fetch("kafkajs", npm, "install", "--no-audit", "--no-fund", folder=folder)
    return [node, str(folder / "check.js")]


def go_program(source: Path, name: str) -> list[str]:
    """Return the command that runs the program in a folder with its go.mod."""
    go = command("go")
    with copied(source, name) as folder:
        fetch("franz-go", go, "mod", "tidy", folder=folder)
        run(go, "build", "-o", "check", ".", folder=folder)
    return [str(folder / "check")]


@contextmanager
def copied(source: Path, name: str) -> Iterator[Path]:
    """Copy a folder below .cache, so that the checkout is not changed; one test process at a time."""
    folder = CACHE / name
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.copytree(source, folder, dirs_exist_ok=True)
        yield folder


def fetch(what: str, *words: str, folder: Path) -> None:
    """Run a command that fetches from a registry; skip the test if that fails."""
    done = _done(words, folder)
    if done.returncode != 0:
        pytest.skip(f"{what} cannot be fetched: {done.stderr.strip()[-300:]}")


def _done(words: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=900, check=False)


def command(name: str) -> str:
    """Return the path of a program; skip the test if it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found
