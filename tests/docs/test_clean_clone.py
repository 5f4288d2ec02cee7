"""The first minutes of a new user: README.md in a clean clone, with nothing installed.

Runs what the other tests of the documentation leave out: `make run DEMO=0`, the page in the environment that it sets
up, and `make run` until Spark has printed results.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, Block, blocks
from tests.docs.shell import SERVERS, Shell
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.ports import free_ports

SET_UP_S_MAX = 1500


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the files of the working tree that belong to the repository."""
    folder = tmp_path_factory.mktemp("clone")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a clone of the repository")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


class Running:
    """A `make run` in its own session, with its output in a file."""

    def __init__(self, clone: Path, words: list[str], port: int) -> None:
        self._path = clone / "make-run.txt"
        own = ("PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PENSTOCK_BOOTSTRAP")
        environment = {name: value for name, value in os.environ.items() if name not in own}
        with self._path.open("wb") as output:
            self._process = subprocess.Popen(
                ["make", "run", *words],
                cwd=clone,
                env={**environment, "PORT": str(port), "PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._path.read_text(errors="replace")

    def wait_for(self, text: str) -> float:
        """Wait for a text; return the longest time without any output meanwhile."""
        longest, size, changed_at = 0.0, 0, time.monotonic()

        def is_there() -> bool:
            nonlocal longest, size, changed_at
            now, found = time.monotonic(), self._path.stat().st_size
            longest = max(longest, now - changed_at)
            if found != size:
                size, changed_at = found, now
            if self._process.poll() is not None:
                if "No matching distribution" in self.output or "Connection" in self.output:
                    pytest.skip(f"needs a package registry: {self.output[-300:]}")
                raise AssertionError(f"make run ended: {self.output}")
            assert "the pipeline exited" not in self.output, self.output
            return text in self.output

        eventually(is_there, what=f"{text!r} in the output of make run", seconds_max=SET_UP_S_MAX)
        return longest

    def interrupt(self) -> bool:
        """Press Ctrl-C; return whether the command has ended."""
        try:
            os.killpg(self._process.pid, signal.SIGINT)
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            return False
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        return True


@contextmanager
def make_run(clone: Path, *words: str, port: int) -> Iterator[Running]:
    running = Running(clone, list(words), port)
    try:
        yield running
    finally:
        has_ended = running.interrupt()
    assert has_ended, f"Ctrl-C did not stop it: {running.output}"


@pytest.mark.slow
@pytest.mark.timeout(2 * SET_UP_S_MAX)
def test_the_readme_works_in_the_environment_of_make_run(clone: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with make_run(clone, "DEMO=0", port=port) as running:
        running.wait_for(f"ready localhost:{port}")
        with Shell(tmp_path, programs=clone / ".venv" / "bin", broker_port=port) as shell:
            for block in blocks("README.md"):
                if is_for_a_new_user(block):
                    shell.run(block)


def is_for_a_new_user(block: Block) -> bool:
    """Whether a block needs nothing but what `make run` installs, and the broker that it starts."""
    if block.language not in ("console", "python") or "not run" in block.marks:
        return False
    # test_run.py runs those that start other nodes on the same port, and a test that needs pytest.
    return "def test_" not in block.text and not any(SERVERS.search(each.text) for each in block.commands_if_console)


@pytest.mark.slow
@pytest.mark.timeout(2 * SET_UP_S_MAX)
def test_make_run_shows_results_resumes_and_is_never_silent(clone: Path) -> None:
    (port,) = free_ports(1)
    for expected in ("it reads the topic from its beginning", "it continues where the last run stopped"):
        with make_run(clone, f"DATA={clone / 'demo'}", port=port) as running:
            silent_s = running.wait_for("window (UTC)          country   orders")
            running.wait_for("the pipeline runs")
            assert expected in running.output
        # It prints something every five seconds; without that, the set-up would be silent for minutes.
        assert silent_s < PATIENCE_S, running.output
