"""The suite in parallel workers: `python -m tests [--slow] [--workers N] [arguments of pytest]`.

Runs all tests that are not marked slow, or with --slow all that are, with three workers for every two cores that this
process may use: a third of the time, a test waits for something. The tests come in random order
(tests/support/order.py). All other arguments go to pytest: `--seed 17` repeats an order, `tests/unit -k frame` runs a
part. Exits as pytest does: 0 if every test passed, 1 if any did not.
"""

import argparse
import os
import subprocess
import sys


def core_count() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__, add_help=False, allow_abbrev=False)
    parser.add_argument("--slow", action="store_true")
    cores = core_count()
    parser.add_argument("--workers", type=int, default=cores + cores // 2)
    given, rest = parser.parse_known_args()
    marked = "slow" if given.slow else "not slow"
    command = [sys.executable, "-m", "pytest", "-n", str(given.workers), "-m", marked, "--durations=15", *rest]
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
