"""The suite in parallel workers: `python -m tests [--slow | --browser] [--workers N] [arguments of pytest]`.

Runs all tests that are marked neither slow nor browser, or all that are marked as the option says. There are two
workers for each core that this process may use, because most of the time a test that starts processes waits for them;
with --browser, there is one. The tests come in random order (tests/support/order.py). All other arguments go to
pytest: `--seed 17` repeats an order, `tests/unit -k frame` runs a part. Exits as pytest does: 0 if every test passed,
1 if any did not.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

BYTECODE = Path(__file__).parents[1] / ".cache" / "bytecode"


def core_count() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__, add_help=False, allow_abbrev=False)
    parser.add_argument("--slow", dest="marked", action="store_const", const="slow", default="not slow and not browser")
    parser.add_argument("--browser", dest="marked", action="store_const", const="browser")
    parser.add_argument("--workers", type=int)
    given, rest = parser.parse_known_args()
    # A browser keeps a core busy by itself.
    workers = given.workers or (core_count() if given.marked == "browser" else 2 * core_count())
    command = [sys.executable, "-m", "pytest", "-n", str(workers), "-m", given.marked, "--durations=15", *rest]
    return subprocess.call(command, env=with_bytecode(os.environ))


def with_bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, with bytecode written to the cache if it must not be written beside the sources.

    Otherwise each of the hundreds of processes that the tests start would compile all that it imports.
    """
    changed = dict(environment)
    if changed.pop("PYTHONDONTWRITEBYTECODE", None):
        changed.setdefault("PYTHONPYCACHEPREFIX", str(BYTECODE))
    return changed


if __name__ == "__main__":
    sys.exit(main())
