"""A runner for small test suites given as text, with some of our plugins."""

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]


def run_suite(folder: Path, text: str, *plugins: str) -> dict[str, set[str]]:
    """Return the verdicts of each test: PASSED or FAILED, and ERROR if its setup or teardown failed."""
    (folder / "test_suite.py").write_text(text)
    chosen = [word for plugin in plugins for word in ("-p", plugin)]
    command = [sys.executable, "-m", "pytest", "-rpEF", "-W", "error", "-p", "no:asyncio", *chosen, "test_suite.py"]
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        verdict, _, rest = line.partition(" test_suite.py::")
        if verdict in ("PASSED", "FAILED", "ERROR") and rest:
            found.setdefault(rest.split(" - ")[0], set()).add(verdict)
    assert found, done.stdout + done.stderr
    return found
