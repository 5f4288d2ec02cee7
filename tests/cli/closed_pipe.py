"""Runs commands whose reader is gone: `python -m tests.cli.closed_pipe BOOTSTRAP`, one JSON list of words per line.

Prints a JSON list with the exit code and the standard error of each. A command runs in a fork of a process that has
loaded the program, and ends as a program does: what it has not written yet is flushed at its end.
"""

import json
import os
import sys

from penstock.cli.main import main


def run(words: list[str]) -> tuple[int, str] | None:
    """Run a command in a child; return its exit code and standard error, or None in the child."""
    reading, errors = os.pipe()
    child = os.fork()
    if child == 0:
        nobody_reads, output = os.pipe()
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for each in (nobody_reads, output, reading, errors):
            os.close(each)
        sys.argv = ["penstock", *words]
        return None
    os.close(errors)
    with open(reading, "rb") as stream:
        text = stream.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


if __name__ == "__main__":
    os.environ["PENSTOCK_BOOTSTRAP"] = sys.argv[1]
    for line in sys.stdin.read().splitlines():
        outcome = run(json.loads(line))
        if outcome is None:
            main()
            break
        print(json.dumps(outcome), flush=True)
