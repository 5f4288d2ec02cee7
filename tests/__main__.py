"""python -m tests: the whole suite on two cores, as parts that run side by side, the longest first.

Each part is a pytest run of its own; what fails is printed again at the end.
Arguments go to a single plain pytest run instead. Exit code 1 if a part fails.
"""

import os
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
    ("tests/sim",),
    ("tests/differential",),
)
RUNNERS = 2
NO_TESTS = 5


class Outcome(NamedTuple):
    part: tuple[str, ...]
    code: int
    seconds: float
    output: str

    @property
    def is_good(self) -> bool:
        return self.code in (0, NO_TESTS)


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
    for outcome in outcomes:
        print(f"{'ok    ' if outcome.is_good else 'FAILED'} {outcome.seconds:6.0f} s  {' '.join(outcome.part)}")
    print(f"{time.monotonic() - began:.0f} s in all")
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


def _run_parts(waiting: "Queue[tuple[str, ...]]", outcomes: list[Outcome]) -> None:
    while True:
        try:
            part = waiting.get_nowait()
        except Empty:
            return
        if part:
            outcomes.append(_run(part))


def _run(part: tuple[str, ...]) -> Outcome:
    name = part[0].removeprefix("tests/")
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
