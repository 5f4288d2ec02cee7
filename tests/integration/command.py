"""Running the penstock command as people run it: as a process."""

import json
import subprocess
import sys
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-m", "penstock.cli.main"]
TIMEOUT_S = 30


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def penstock(*words: str, given: str | None = None) -> Outcome:
    """Run a command to its end; `given` is its standard input."""
    done = subprocess.run([*COMMAND, *words], input=given, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert "Traceback" not in done.stderr, done.stderr
    return Outcome(done.returncode, done.stdout, done.stderr)
