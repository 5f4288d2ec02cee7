"""Processes that run seeds in parallel, and survive failing seeds.

A lane is a sequence of processes with the tasks that they run in order. A seed that raises, ends its process or does
not finish is a violation; the lane continues with the next seed.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Final

from penstock.ports.real import RealClock
from penstock_sim import ablations
from penstock_sim.plan import draw
from penstock_sim.world import Result, run_seed

SEED_S_MAX: Final = 100.0
"""CPU time, so that other work on the machine does not fail a seed."""
_BLOCKED_FACTOR: Final = 30
"""A seed that takes this many times as long by the wall clock waits for something that never happens."""
SEEDS_PER_PROCESS: Final = 25
"""A world is one big reference cycle. Ending the process frees it sooner than the garbage collector would."""
_LOOK_S: Final = 1.0
_END_S_MAX: Final = 60.0
"""A process that has closed its pipe has ended, but on a busy machine it may take a while to be seen."""
_context = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Task:
    seed: int
    nodes: int | None = None
    bug: str = ""


def run_tasks(lanes: Sequence[Iterator[Task]], *, seed_s_max: float = SEED_S_MAX) -> Iterator[tuple[Task, Result]]:
    """Run all tasks. A lane takes its next task after the result of the last one was consumed."""
    _warm_up()
    running = [_Lane(tasks, seed_s_max) for tasks in lanes]
    try:
        for lane in running:
            lane.go_on()
        while busy := [lane for lane in running if lane.task is not None]:
            wait([lane.connection for lane in busy], timeout=_LOOK_S)
            for lane in busy:
                task, result = lane.task, lane.result()
                if task is not None and result is not None:
                    yield task, result
                    lane.go_on()
    finally:
        for lane in running:
            lane.end()


def _warm_up() -> None:
    """Import modules that the node imports lazily, so that forked processes have them."""
    run_seed(1)
    gc.collect()
    gc.freeze()


class _Lane:
    def __init__(self, tasks: Iterator[Task], seed_s_max: float) -> None:
        self._tasks = tasks
        self._seed_s_max = seed_s_max
        self._clock = RealClock()
        self._waited = self._looked = 0.0
        self._left = 0
        self._process: multiprocessing.process.BaseProcess | None = None
        self.connection: Connection
        self.task: Task | None = None

    def go_on(self) -> None:
        self.task = next(self._tasks, None)
        if self.task is None:
            self.end()
            return
        if self._process is None or self._left == 0:
            self.end()
            self._start()
        self._left -= 1
        self._waited, self._looked = 0.0, self._clock.monotonic()
        self.connection.send(self.task)

    def _start(self) -> None:
        self.connection, theirs = _context.Pipe()
        self._process = _context.Process(target=_serve, args=(theirs, os.getpid(), self._seed_s_max), daemon=True)
        self._process.start()
        theirs.close()
        self._left = SEEDS_PER_PROCESS

    def result(self) -> Result | None:
        """Return the result of the task, or None if it is not finished."""
        assert self.task is not None and self._process is not None, "a lane that has a task"
        try:
            if self.connection.poll():
                found: Result = self.connection.recv()
                return found
        except (EOFError, OSError):
            self._process.join(_END_S_MAX)
            code = self._process.exitcode
            self.end()
            if code == -signal.SIGPROF:
                return _failed(self.task, f"inv_57: the seed did not end within {self._seed_s_max:g} s of CPU time")
            return _failed(self.task, f"inv_52: the process of the seed ended with {code}")
        # Do not count time in which everything stood still, such as a stopped campaign.
        now = self._clock.monotonic()
        self._waited += min(now - self._looked, 2 * _LOOK_S)
        self._looked = now
        if self._waited > self._seed_s_max * _BLOCKED_FACTOR:
            self.end()
            return _failed(self.task, f"inv_57: the seed did not end within {self._waited:.0f} s")
        return None

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self.connection.close()
            self._process = None


def _serve(connection: Connection, parent: int, seed_s_max: float) -> None:
    """Run one seed after another, until the parent process ends this process or exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()
    while os.getppid() == parent:
        if connection.poll(_LOOK_S):
            task: Task = connection.recv()
            # The signal ends the process, and the lane reports the reason.
            signal.setitimer(signal.ITIMER_PROF, seed_s_max)
            result = _run(task)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send(result)


def _run(task: Task) -> Result:
    try:
        with ablations.planted(task.bug):
            return run_seed(task.seed, nodes=task.nodes)
    except Exception as fault:
        at = traceback.extract_tb(fault.__traceback__)[-1]
        return _failed(task, f"inv_52: the simulator raised in {at.filename}:{at.lineno}: {fault!r}")


def _failed(task: Task, violation: str) -> Result:
    summary = draw(task.seed, nodes=task.nodes).summary()
    return Result(task.seed, "", [violation], Counter(), Counter(), 0.0, 0, summary, {})
