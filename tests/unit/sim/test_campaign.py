"""Tests of campaigns: totals in a file, continuation, and states never reached."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from penstock_sim.campaign import LONG_CAMPAIGN, MUST_BE_REACHED, MUST_HAPPEN, Figures, OtherCampaign, Record
from penstock_sim.world import Result

ABOUT = {"commit": "abc", "first": 1, "nodes": None}


def result(seed: int, *violations: str) -> Result:
    return Result(seed, f"{seed:x}", list(violations), Counter(kill=2), Counter({"no leader": 1}), 30.0, 9, "plan", {})


def test_a_campaign_that_was_interrupted_continues_with_its_totals(tmp_path: Path) -> None:
    path = tmp_path / "campaign.jsonl"
    with closing(Record(path, ABOUT)) as first:
        first.add(result(1))
        first.add(result(2, "inv_01: gone"))
    path.write_text(path.read_text() + '{"seed": 3, "tra')

    with closing(Record(path, ABOUT)) as second:
        assert second.done == {1, 2}
        assert second.figures.seeds == 2
        assert second.figures.simulated_s == 60.0
        assert second.figures.faults == {"kill": 4}
        assert second.figures.violations == {2: ["inv_01: gone"]}
        second.add(result(3))
    with closing(Record(path, ABOUT)) as third:
        assert third.done == {1, 2, 3}


def test_results_of_another_commit_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "campaign.jsonl"
    Record(path, ABOUT).close()
    with pytest.raises(OtherCampaign, match="choose another file"):
        Record(path, {**ABOUT, "commit": "def"})


def test_a_long_campaign_must_reach_the_states_it_should_test() -> None:
    figures = Figures(seeds=LONG_CAMPAIGN, faults=Counter(MUST_HAPPEN[1:]), sometimes=Counter(MUST_BE_REACHED[1:]))
    assert figures.missing(clusters=True) == [MUST_HAPPEN[0], MUST_BE_REACHED[0]]
    assert figures.missing(clusters=False) == [MUST_HAPPEN[0]]
    figures.seeds = LONG_CAMPAIGN - 1
    assert figures.missing(clusters=True) == []
