"""python -m tests: the whole suite on two cores, as parts that run side by side, the longest first.

Each part is a pytest run of its own; what fails is printed again at the end. Some parts hold real processes to real
time: a few failures there are tried once more when the machine is quiet, and named even if they pass then.
Arguments go to a single plain pytest run instead. Exit code 1 if a part fails.
"""

import os
import re
import subprocess
import sys
import threading
import time
from queue import Empty, Queue
from typing import NamedTuple

# By expected length: what begins last should be short.
PARTS = (
    ("tests/spark",),
    ("tests/unit", "tests/oracle"),
    ("tests/integration",),
    ("tests/compat",),
    ("tests/crash", "tests/fuzz"),
    ("tests/chaos",),
    ("tests/abuse",),
    ("tests/sim",),
    ("tests/differential",),
)
# The same input gives the same result there, however slow the machine is.
STEADY = {"tests/unit", "tests/sim"}
TRIED_AGAIN_MAX = 3
RUNNERS = 2
NO_TESTS = 5
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+::.+?)(?: - .*)?$", re.MULTILINE)


class Outcome(NamedTuple):
    part: tuple[str, ...]
    code: int
    seconds: float
    output: str

    @property
    def is_good(self) -> bool:
        return self.code in (0, NO_TESTS)

    @property
    def failed(self) -> list[str]:
        """The failed tests, as pytest's summary names them."""
        return list(dict.fromkeys(_FAILED.findall(self.output)))


def main() -> int:
    if len(sys.argv) > 1:
        return subprocess.call([sys.executable, "-m", "pytest", *sys.argv[1:]])
    began = time.monotonic()
    waiting: Queue[tuple[str, ...]] = Queue()
    for part in PARTS:
        waiting.put(tuple(folder for folder in part if os.path.isdir(folder)))
    outcomes: list[Outcome] = []
    runners = [threading.Thread(target=_run_parts, args=(waiting, outcomes)) for _ in range(RUNNERS)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    for outcome in outcomes:
        if not outcome.is_good:
            print(f"\n===== {' '.join(outcome.part)} failed =====\n{outcome.output}")
    passed_later = _try_again(outcomes)
    for outcome in outcomes:
        verdict = "ok    " if outcome.is_good else "UNSURE" if outcome in passed_later else "FAILED"
        print(f"{verdict} {outcome.seconds:6.0f} s  {' '.join(outcome.part)}")
    for outcome in passed_later:
        print(f"failed at first and passed alone: {', '.join(outcome.failed)}")
    print(f"{time.monotonic() - began:.0f} s in all")
    return 0 if all(outcome.is_good or outcome in passed_later for outcome in outcomes) else 1


def _try_again(outcomes: list[Outcome]) -> list[Outcome]:
    """The parts whose few failed tests pass with nothing beside them."""
    unsure = [outcome for outcome in outcomes if not outcome.is_good and STEADY.isdisjoint(outcome.part)]
    if sum(len(outcome.failed) for outcome in unsure) > TRIED_AGAIN_MAX:
        return []
    return [outcome for outcome in unsure if outcome.failed and _run(tuple(outcome.failed)).code == 0]


def _run_parts(waiting: "Queue[tuple[str, ...]]", outcomes: list[Outcome]) -> None:
    while True:
        try:
            part = waiting.get_nowait()
        except Empty:
            return
        if part:
            outcomes.append(_run(part))


def _run(part: tuple[str, ...]) -> Outcome:
    name = part[0].removeprefix("tests/").split("/")[0]
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "--durations=5", "-p", "no:cacheprovider", *part]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            print(f"{name:<12} {line}", end="", flush=True)
    return Outcome(part, process.returncode, time.monotonic() - began, "".join(lines))


if __name__ == "__main__":
    sys.exit(main())
