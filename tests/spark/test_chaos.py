"""Test of a short campaign of kills; `make spark-chaos` runs a long one."""

from __future__ import annotations

import os

import pytest

from tests.spark.chaos import campaign


@pytest.mark.slow
def test_no_row_is_lost_or_duplicated_over_random_kills() -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")
    kills = int(os.environ.get("PENSTOCK_SPARK_KILLS", "4"))
    killed, rows = campaign(kills, seed=int(os.environ.get("PENSTOCK_SPARK_SEED", "7")))
    assert killed.total() == kills and rows and set(killed) == {"worker", "node", "driver"}
