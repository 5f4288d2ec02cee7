"""Test of docs/spark-tutorial.md: runs its code block by block and checks its results.

PENSTOCK_TUTORIAL_IMAGES=docs/images draws the images of the page again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import BrokerProcess
from tests.docs.markdown import Block, blocks, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "docs/spark-tutorial.md"


def run_commands(block: Block, bootstrap: str, folder: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PENSTOCK_BOOTSTRAP": bootstrap,
    }
    for command in block.commands:
        text = command.text.replace("/tmp/penstock-tutorial", str(folder))
        done = subprocess.run(
            ["bash", "-c", text],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{block}: $ {command.text}: {done.stdout}"
        assert all(line in done.stdout for line in command.output), f"{block}: $ {command.text}: {done.stdout}"


def test_every_block_of_the_tutorial_works(spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the tutorial draws: pip install matplotlib")
    drawn = os.environ.get("PENSTOCK_TUTORIAL_IMAGES")
    with BrokerProcess() as broker:
        space: dict[str, Any] = {"__name__": "tutorial"}
        for block in blocks(PAGE):
            if block.language == "console":
                run_commands(block, broker.bootstrap, tmp_path)
                continue
            # The session exists already; broker and directory belong to the test.
            code = block.text.replace("localhost:9092", broker.bootstrap)
            code = code.replace("/tmp/penstock-tutorial", str(tmp_path))
            exec(compile(code, str(block), "exec"), space)
            if drawn:
                space["images"] = drawn
        assert (len(space["good"]), len(space["bad"])) == (3588, 12)
        assert space["stored"].count() == space["stored"].distinct().count() == 3588
        assert len(space["written"]) >= 6 * 18 and set(space["written"]["n"]) <= {29, 30}
        assert len(space["lake"].files()) == 1
        space.clear()  # close clients while the broker still runs
    pictures = [Path(drawn or tmp_path) / name for name in ("tutorial-readings.png", "tutorial-minutes.png")]
    assert all(5_000 < path.stat().st_size < 100_000 for path in pictures)
    assert all(f"images/{path.name}" in text_of(PAGE) for path in pictures)
