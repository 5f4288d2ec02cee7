"""A leak fails the test that leaks and no other."""

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
SUITE = """
import socket

class Cycle:
    def __init__(self, held):
        self.held, self.itself = held, self

async def work():
    pass

def test_closes():
    Cycle(socket.socket()).held.close()

def test_leaks():
    Cycle(socket.socket())

def test_innocent():
    pass

def test_fails_and_leaks():
    cycle = Cycle(socket.socket())
    assert not cycle

def test_innocent_too():
    pass

def test_last_of_the_module_forgets_to_await():
    Cycle(work())
"""


def test_a_leak_fails_the_test_that_leaks(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-rEF",
        "-W",
        "error",
        "-p",
        "no:asyncio",
        "-p",
        "tests.support.leaks",
        "test_suite.py",
    ]
    here = os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": here}, capture_output=True, text=True)
    verdicts = {line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("ERROR", "FAILED"))}
    assert verdicts == {
        "ERROR test_suite.py::test_leaks",
        "FAILED test_suite.py::test_fails_and_leaks",
        "ERROR test_suite.py::test_fails_and_leaks",
        "ERROR test_suite.py::test_last_of_the_module_forgets_to_await",
    }, done.stdout + done.stderr
