"""Queries with a fault that occurs once and leaves a file behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

STARTS_MAX = 10


def run_into_fault(run: Callable[[], None], marker: Path) -> bool:
    """Run a query until its fault has occurred, and return whether the query survived it.

    Spark gives up on a Python process of the driver that takes more than ten seconds to start, and no option changes
    that. A query that failed for this reason before its fault is started again.
    """
    failure: Exception | None = None
    for _ in range(STARTS_MAX):
        try:
            run()
        except Exception as error:
            failure = error
            if marker.exists():
                return False
        else:
            assert marker.exists(), "the fault did not occur"
            return True
    raise AssertionError("the query fails before its fault") from failure
