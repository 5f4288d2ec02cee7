"""Test of docs/spark-tutorial.md: runs its code block by block and checks its results.

PENSTOCK_TUTORIAL_IMAGES=docs/images draws the images of the page again.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "spark-tutorial.md"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_every_block_of_the_tutorial_works(spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the tutorial draws: pip install matplotlib")
    images = Path(os.environ.get("PENSTOCK_TUTORIAL_IMAGES", tmp_path))
    with BrokerProcess() as broker:
        space: dict[str, Any] = {"__name__": "tutorial"}
        for number, code in enumerate(blocks(), start=1):
            # The session exists already; broker and directory belong to the test.
            code = code.replace("localhost:9092", broker.bootstrap).replace("/tmp/penstock-tutorial", str(tmp_path))
            exec(compile(code, f"{PAGE.name} block {number}", "exec"), space)
            space["images"] = str(images)
        assert (len(space["good"]), len(space["bad"])) == (3588, 12)
        assert space["stored"].count() == space["stored"].distinct().count() == 3588
        assert len(space["written"]) >= 6 * 18 and set(space["written"]["n"]) <= {29, 30}
        assert len(space["lake"].files()) == 1
        space.clear()  # close clients while the broker still runs
    pictures = [images / name for name in ("tutorial-readings.png", "tutorial-minutes.png")]
    assert all(5_000 < path.stat().st_size < 100_000 for path in pictures)
    assert all(f"images/{path.name}" in PAGE.read_text() for path in pictures)
