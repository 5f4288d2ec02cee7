"""Which errors make the planner analyze a query again."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock_spark.pipelines.progress import ATTEMPTS

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'penstock[spark]'")


class Flow:
    """A flow whose query fails in the same way for a number of times."""

    name = place = "keep"

    def __init__(self, text: str, failures: int) -> None:
        self.text, self.failures = text, failures
        self.queried = 0

    def query(self) -> Any:
        self.queried += 1
        if self.queried <= self.failures:
            raise RuntimeError(self.text)
        return SimpleNamespace(isStreaming=True, schema=None)


def planned(flow: Any) -> Any:
    from penstock_spark.pipelines.plan import Plan

    return object.__new__(Plan)._frame(flow)


def test_a_query_is_analyzed_again_after_a_transient_error() -> None:
    flow = Flow("Python worker failed to connect back", ATTEMPTS - 1)
    assert planned(flow).isStreaming
    assert flow.queried == ATTEMPTS


@pytest.mark.parametrize(
    ("text", "queried"), [("Python worker failed to connect back", ATTEMPTS), ("no such column", 1)]
)
def test_planning_fails_with_an_error_that_lasts(text: str, queried: int) -> None:
    flow = Flow(text, ATTEMPTS)
    with pytest.raises(RuntimeError, match=text):
        planned(flow)
    assert flow.queried == queried
