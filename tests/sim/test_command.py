"""The command line of the simulator: its exit code, its output, and the file from which a campaign continues."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from penstock_sim import __main__ as command
from penstock_sim import ablations, shrink, workers
from penstock_sim.__main__ import main
from penstock_sim.plan import Plan, draw
from penstock_sim.world import Result

BAD = 3
"""The seed that always violates an invariant."""


class Planted:
    is_broken = False


def run_seed(seed: int, **named: Any) -> Result:
    """Return a result without a run: one seed is always bad, and with the planted bug each from the second on."""
    violations = ["inv_1: lost"] if seed == BAD or (Planted.is_broken and seed >= 2) else []
    return Result(seed, "digest", violations, Counter({"kill": 2}), Counter(), 36.0, 1, f"plan of {seed}", {})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace the runs of seeds; restore the handler of SIGTERM, which the command sets."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(workers, "run_seed", run_seed)
    monkeypatch.setitem(ablations.BUGS, "some-bug", lambda: [patch.object(Planted, "is_broken", True)])
    monkeypatch.setitem(ablations.BUGS, "no-bug", list)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_campaign_without_violations_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--jobs", "2"]) == 0
    printed = capsys.readouterr().out
    assert "2/2 seeds, 0.0 simulated hours, 4 faults, 0 violations" in printed
    assert "faults: kill 4" in printed


def test_a_violation_fails_the_campaign_and_says_how_to_reproduce_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "4", "--jobs", "1", "--nodes", "1"]) == 1
    printed = capsys.readouterr().out
    assert f"seed {BAD} has 1 violations" in printed and "  ! inv_1: lost" in printed
    assert f"reproduce: python -m penstock_sim --first {BAD} --verbose --nodes 1" in printed
    assert "4/4 seeds" in printed, "the other seeds run"


@pytest.mark.parametrize(("options", "seeds"), [((), 6), (("--keep-going",), 20)])
def test_a_campaign_stops_after_five_violations_unless_it_keeps_going(
    options: tuple[str, ...], seeds: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Planted, "is_broken", True)
    assert main(["--seeds", "20", "--jobs", "1", *options]) == 1
    assert capsys.readouterr().out.count("has 1 violations") == seeds - 1


def test_a_campaign_continues_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "campaign.jsonl"
    assert main(["--seeds", "2", "--jobs", "1", "--output", str(path)]) == 0
    assert main(["--seeds", "4", "--jobs", "1", "--output", str(path)]) == 1
    seeds = [json.loads(line)["seed"] for line in path.read_text().splitlines()[1:] if line]
    assert seeds == [1, 2, 3, 4], "no seed runs twice"
    assert "4/4 seeds" in capsys.readouterr().out


def test_the_file_of_another_campaign_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "campaign.jsonl"
    main(["--seeds", "1", "--jobs", "1", "--output", str(path)])
    with pytest.raises(SystemExit):
        main(["--seeds", "1", "--first", "2", "--jobs", "1", "--output", str(path)])
    assert "belongs to another campaign" in capsys.readouterr().err


def test_a_long_campaign_that_misses_a_state_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_sim.campaign.LONG_CAMPAIGN", 2)
    assert main(["--seeds", "2", "--jobs", "1", "--nodes", "1"]) == 1
    missing = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("never happened: "))
    assert "power loss" in missing and "kill," not in missing
    assert "leader changed" not in missing, "a single node has no elections"


def test_an_interrupted_campaign_prints_its_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: Any, **named: Any) -> Any:
        yield None, run_seed(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_tasks", interrupted)
    assert main(["--seeds", "9"]) == 1
    assert "interrupted after 1 of 9 seeds\nfaults: kill 2" in capsys.readouterr().out


def test_a_hunt_counts_the_seeds_until_a_bug_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bug", "some-bug", "--seeds", "5", "--jobs", "1"]) == 0
    assert "some-bug: found by seed 2 after 2 seeds: inv_1: lost\n1 of 1 found" in capsys.readouterr().out


def test_a_seed_that_fails_without_the_bug_has_not_found_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bug", "no-bug,some-bug", "--first", str(BAD), "--seeds", "2", "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert "no-bug: not found in 2 seeds" in printed
    assert f"some-bug: found by seed {BAD + 1} after 2 seeds" in printed
    assert "1 of 2 found" in printed


def test_an_unknown_bug_is_rejected_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--bug", "no-such-bug"])
    printed = capsys.readouterr().err
    assert "unknown bug no-such-bug: choose from " in printed and "ack-before-fsync" in printed


def test_one_seed_is_replayed_with_its_events(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--first", "1", "--nodes", "1", "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == draw(1, nodes=1).summary()
    assert any("s node1 " in line for line in lines)
    assert "seed 1 has 0 violations" in "\n".join(lines)


def test_a_replay_that_fails_shows_a_smaller_plan(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    smaller = draw(7, nodes=1)
    monkeypatch.setattr(command, "shrink", lambda seed, nodes: smaller)
    assert main(["--first", "2", "--nodes", "1", "--bug", "no-dedupe", "--verbose"]) == 1
    assert f"shrunk: {smaller.summary()}" in capsys.readouterr().out


def test_shrinking_removes_what_the_violation_does_not_need(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: Plan) -> set[str]:
        return {"inv_1"} if "kill" in plan.faults and plan.consumers else set()

    monkeypatch.setattr(shrink, "_broken", broken)
    seed = next(seed for seed in range(1, 50) if len(draw(seed).faults) > 2 and broken(draw(seed)))
    found = shrink.shrink(seed)
    assert set(found.faults) == {"kill"}
    assert found.consumers and not (found.members or found.transactors or found.idempotent_producers)


def test_a_seed_without_a_violation_is_not_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrink, "_broken", lambda plan: set())
    assert shrink.shrink(4) == draw(4)
