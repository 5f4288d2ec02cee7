"""Which failures of a query end a pipeline, and which restart the flow from its checkpoint."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock_spark.pipelines.runner import ATTEMPTS, FlowFailed, Runner


class Query:
    isActive = False
    recentProgress = ()

    def __init__(self, text: str) -> None:
        self._text = text

    def exception(self) -> str:
        return self._text


class Restarting(Runner):
    """A runner whose only flow always fails in the same way."""

    def __init__(self, text: str) -> None:
        flow: Any = SimpleNamespace(name="keep", output=SimpleNamespace(name="orders", options={}))
        plan: Any = SimpleNamespace(flows=[flow])
        nothing: Any = SimpleNamespace(write_state=lambda state: None)
        super().__init__(nothing, nothing, plan, nothing, continuous=True, report=lambda flows: None)
        self.text = text
        self.started = 0
        self._queries["keep"] = self._write(flow)

    def _save(self, state: str) -> None:
        pass

    def _write(self, flow: Any) -> Any:
        self.started += 1
        return Query(self.text)


@pytest.mark.parametrize(
    ("text", "started"),
    [
        ("[STREAM_FAILED] Query keep terminated: org.apache.spark.SparkException: Task not serializable", ATTEMPTS),
        ("Python worker failed to connect back", ATTEMPTS),
        ("ValueError: no such column", 1),
    ],
)
def test_a_transient_failure_restarts_the_flow_a_few_times(text: str, started: int) -> None:
    runner = Restarting(text)
    with pytest.raises(FlowFailed):
        for _ in range(ATTEMPTS + 1):
            runner._poll()
    assert runner.started == started
