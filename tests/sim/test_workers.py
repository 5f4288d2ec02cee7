"""Tests that seeds that raise, kill their process or never end are violations, and the others still run."""

import os
import signal
from collections import Counter
from typing import Any

import pytest

from penstock_sim import workers
from penstock_sim.workers import Task, run_tasks
from penstock_sim.world import Result


def misbehaving(seed: int, **named: Any) -> Result:
    if seed == 2:
        raise ValueError("two")
    if seed == 3:
        os._exit(7)
    if seed == 4:
        signal.pause()
    while seed == 5:
        pass
    return Result(seed, "", [], Counter(), Counter(), 1.0, 1, "", {})


def test_a_seed_that_hangs_or_dies_is_reported_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "run_seed", misbehaving)
    monkeypatch.setattr(workers, "_BLOCKED_FACTOR", 5)
    seeds = [seed for seed in range(1, 40) if seed != 5]
    tasks = map(Task, seeds)
    found = {task.seed: result.violations for task, result in run_tasks([tasks, tasks], seed_s_max=1.0)}
    assert sorted(found) == seeds
    broken = {seed: violations[0] for seed, violations in found.items() if violations}
    assert sorted(broken) == [2, 3, 4]
    assert "ValueError('two')" in broken[2]
    assert "ended with 7" in broken[3]
    assert "did not end within" in broken[4]


def test_a_seed_that_never_ends_is_reported_by_its_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the limit of elapsed time as it is: a busy machine would reach a shorter one first."""
    monkeypatch.setattr(workers, "run_seed", misbehaving)
    found = {task.seed: result.violations for task, result in run_tasks([map(Task, (5, 6))], seed_s_max=1.0)}
    assert sorted(found) == [5, 6] and found[6] == []
    assert found[5][0].endswith("did not end within 1 s of CPU time")


def test_a_lane_takes_its_next_task_after_its_last_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "run_seed", misbehaving)
    over: list[int] = []

    def until_over() -> Any:
        for seed in range(10, 20):
            if over:
                return
            yield Task(seed)

    seen = []
    for task, _ in run_tasks([until_over()]):
        seen.append(task.seed)
        if task.seed == 12:
            over.append(task.seed)
    assert seen == [10, 11, 12]
