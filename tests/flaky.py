"""Runs a part of the suite again and again under stress, and reports every test that did not pass each time.

    python -m tests.flaky unit --rounds 20 [--seed 1] [arguments of pytest]

Each round has another random order and another of the conditions below, in turn. The output of each round stays in
.cache/flaky/. Exits with 1 if a test did not pass in every round.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent
OUTPUT = CHECKOUT / ".cache" / "flaky"
STRESS = Path(__file__).parent / "support" / "stress"
SMALL, LARGE = 4096, 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    name: str
    is_on_one_core: bool = False
    has_hog: bool = False
    """A process that computes on the core that the tests have."""
    socket_bytes: int = 0
    sync_ms: int = 0


CONDITIONS = (
    Condition(name="random order"),
    Condition(name="one core", is_on_one_core=True),
    Condition(name="one core, with a CPU hog", is_on_one_core=True, has_hog=True),
    Condition(name="small socket buffers", socket_bytes=SMALL),
    Condition(name="large socket buffers", socket_bytes=LARGE),
    Condition(name="slow disk", sync_ms=20),
    Condition(name="all of them", is_on_one_core=True, has_hog=True, socket_bytes=SMALL, sync_ms=20),
)


@dataclass(frozen=True, slots=True)
class Round:
    number: int
    seed: int
    condition: Condition
    outcomes: dict[str, str]
    """By test: passed, failed or skipped."""
    code: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.flaky", description=__doc__)
    parser.add_argument("part", help="a folder below tests/, or any path of a test")
    parser.add_argument("--rounds", type=int, default=len(CONDITIONS))
    parser.add_argument("--seed", type=int, default=1, help="the order of the first round")
    given, rest = parser.parse_known_args()
    where = given.part if given.part.startswith("tests") else f"tests/{given.part}"
    OUTPUT.mkdir(parents=True, exist_ok=True)
    done: list[Round] = []
    for number in range(given.rounds):
        began = time.monotonic()
        one = _run(number, given.seed + number, CONDITIONS[number % len(CONDITIONS)], [where, *rest])
        done.append(one)
        failed = sum(outcome == "failed" for outcome in one.outcomes.values())
        print(
            f"round {number + 1}: {len(one.outcomes)} tests, {failed} failed, {time.monotonic() - began:.0f} s, "
            f"--seed {one.seed}, {one.condition.name}",
            flush=True,
        )
    return report(done)


def report(done: list[Round]) -> int:
    """Print the tests that were not the same in every round, with the rounds; return the exit code."""
    unsteady = unsteady_tests(done)
    for test, rounds in sorted(unsteady.items()):
        print(f"\n{test}")
        for one in rounds:
            outcome = one.outcomes.get(test, "missing")
            print(f"  round {one.number + 1}: {outcome}, --seed {one.seed}, {one.condition.name}, {_log(one.number)}")
    broken = [one.number + 1 for one in done if one.code not in (0, 1)]
    if broken:
        print(f"\npytest itself failed in rounds {', '.join(map(str, broken))}")
    print(f"\n{len(unsteady)} tests did not pass in each of {len(done)} rounds")
    return 1 if unsteady or broken else 0


def unsteady_tests(done: Iterable[Round]) -> dict[str, list[Round]]:
    """Return the tests that failed, did not run, or were skipped in some rounds only, each with those rounds."""
    done = list(done)
    found: dict[str, list[Round]] = {}
    for test in {test for one in done for test in one.outcomes}:
        if all(one.outcomes.get(test) == "skipped" for one in done):
            continue
        rounds = [one for one in done if one.outcomes.get(test) != "passed"]
        if rounds:
            found[test] = rounds
    return found


def _run(number: int, seed: int, condition: Condition, arguments: list[str]) -> Round:
    outcomes = OUTPUT / f"round-{number + 1}.jsonl"
    outcomes.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests", "--seed", str(seed), "-m", "", "--outcomes", str(outcomes), *arguments]
    cores = {min(os.sched_getaffinity(0))} if condition.is_on_one_core else os.sched_getaffinity(0)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # inherited by what is started here
    try:
        with _hog(condition.has_hog), _log(number).open("wb") as log:
            code = subprocess.call(
                command, cwd=CHECKOUT, env=_environment(condition), stdout=log, stderr=subprocess.STDOUT
            )
    finally:
        os.sched_setaffinity(0, before)
    return Round(number, seed, condition, read_outcomes(outcomes), code)


def _log(number: int) -> Path:
    return OUTPUT / f"round-{number + 1}.txt"


def _environment(condition: Condition) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(STRESS), os.environ.get("PYTHONPATH")]))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PENSTOCK_STRESS_SOCKET_BYTES": str(condition.socket_bytes),
        "PENSTOCK_STRESS_SYNC_MS": str(condition.sync_ms),
    }


@contextlib.contextmanager
def _hog(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def read_outcomes(path: Path) -> dict[str, str]:
    """Read what `--outcomes` wrote. A test whose teardown failed has failed."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        test, outcome = json.loads(line)
        if found.get(test) != "failed":
            found[test] = outcome
    return found


if __name__ == "__main__":
    sys.exit(main())
