"""Test that runs two minutes of `make chaos`."""

import os
from pathlib import Path

import pytest

from tests.chaos.report import summary, write
from tests.chaos.run import run

SECONDS = float(os.environ.get("PENSTOCK_CHAOS_SECONDS", "120"))


@pytest.mark.slow
# Connections cut by the faults are never closed properly.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.timeout(SECONDS + 300)
def test_no_acknowledged_record_is_lost_duplicated_or_reordered_during_faults(tmp_path: Path) -> None:
    outcome, history = run(tmp_path, length_s=SECONDS, seed=7)
    write(tmp_path / "chaos.html", outcome)
    assert outcome.violations == [], summary(outcome)
    assert len(outcome.faults) >= SECONDS / 20
    assert len(outcome.acknowledged) > SECONDS * 5
    assert (tmp_path / "chaos.html").read_text().count("<rect") > len(outcome.faults)
    assert len(history.views) == outcome.partitions
