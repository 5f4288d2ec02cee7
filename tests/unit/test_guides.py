"""The guides name tests as their witnesses: each of them must exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_a_guide_names_is_there() -> None:
    defined = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    for guide in (ROOT / "docs" / "guides").glob("*.md"):
        named = set(re.findall(r"`(test_\w+)`", guide.read_text()))
        assert named <= defined, f"{guide.name} names tests that are not there: {sorted(named - defined)}"
