"""Which failures of a query end a pipeline, and which restart the flow from its checkpoint."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock_spark.pipelines.progress import ATTEMPTS
from penstock_spark.pipelines.runner import FlowFailed, Runner


class Query:
    isActive = False
    recentProgress = ()

    def __init__(self, text: str) -> None:
        self._text = text

    def exception(self) -> str:
        return self._text


class Restarting(Runner):
    """A runner whose only flow always fails in the same way."""

    def __init__(self, text: str, *, in_start: bool = False) -> None:
        sink = SimpleNamespace(name="orders", kind="sink", options={})
        flow: Any = SimpleNamespace(name="keep", reads=set(), output=sink)
        plan: Any = SimpleNamespace(flows=[flow])
        nothing: Any = SimpleNamespace(write_state=lambda state: None)
        super().__init__(nothing, nothing, plan, nothing, continuous=True, report=lambda flows: None)
        self.text = text
        self.in_start = in_start
        self.started = 0

    def _save(self, state: str) -> None:
        pass

    def _write(self, flow: Any) -> Any:
        self.started += 1
        if self.in_start:
            raise RuntimeError(self.text)
        return Query(self.text)


@pytest.mark.parametrize("in_start", [False, True])
@pytest.mark.parametrize(
    ("text", "started"),
    [
        ("[STREAM_FAILED] Query keep terminated: org.apache.spark.SparkException: Task not serializable", ATTEMPTS),
        (
            "Job aborted due to stage failure: Task serialization failed: java.lang.IllegalStateException: "
            "Illegal size 5 of collection, expected 4",
            ATTEMPTS,
        ),
        ("Failed to serialize task 3, not attempting to retry it. Exception during serialization: ...", ATTEMPTS),
        ("Python worker failed to connect back", ATTEMPTS),
        ("ValueError: no such column", 1),
    ],
)
def test_a_transient_failure_restarts_the_flow_a_few_times(
    monkeypatch: pytest.MonkeyPatch, text: str, started: int, in_start: bool
) -> None:
    monkeypatch.setattr("penstock_spark.pipelines.runner.LOOK_EVERY_S", 0)
    runner = Restarting(text, in_start=in_start)
    with pytest.raises(FlowFailed):
        runner.run()
    assert runner.started == started
