"""Every story of tests/scenarios goes as it is told."""

from pathlib import Path

import pytest

from penstock.sim.scenario import Departed, run, run_file

STORIES = sorted((Path(__file__).parent.parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_goes_as_it_is_told(path: Path) -> None:
    run_file(path)


def test_a_story_that_goes_otherwise_is_told_with_its_line() -> None:
    with pytest.raises(Departed, match="it came to 'ok'"):
        run("cluster brokers=1 topic=orders replicas=1\nproduce orders-0 -> refused NotEnoughReplicas")
