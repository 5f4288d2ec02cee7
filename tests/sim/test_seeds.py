"""A fixed range of seeds: no invariant is violated, and a seed always gives the same run."""

import os
import subprocess
import sys

import pytest

from penstock_sim.ablations import BUGS, planted
from penstock_sim.campaign import report
from penstock_sim.world import run_seed

FEW = range(1, 21)
MORE = range(21, 81)
PLANTED = {
    "ack-before-fsync": range(1, 40),
    "no-dedupe": range(1, 40),
    "leader-outside-the-set": range(1, 40),
    # Found by seed 79 of the first hundred: too many to run here.
    "loads-before-the-first-image": range(70, 100),
}
DIGESTS = "from penstock_sim.world import run_seed; print([run_seed(seed).digest for seed in (2, 7)])"


@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MORE)])
def test_no_seed_of_the_range_violates_an_invariant(seed: int) -> None:
    result = run_seed(seed)
    assert not result.violations, report(result)


def test_a_seed_does_not_depend_on_hash_randomization() -> None:
    traces = {
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "4242")
    }
    assert len(traces) == 1


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    with planted(name):
        assert any(run_seed(seed).violations for seed in PLANTED[name])


@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_can_be_planted(name: str) -> None:
    assert BUGS[name](), "it patches nothing"
    with planted(name):
        pass
