"""The progress of a flow, computed from Spark's progress reports. Pure.

Also extracts the cause of a failed query, because Spark wraps a Python error in pages of stack traces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from penstock_client.offsets import IDS

_PYTHON_ERROR: Final = re.compile(
    r"^(?:[\w.]*\.)?(\w*(?:Error|Exception|DataLoss|NoBroker|Corrupt)): (.+)$", re.MULTILINE
)
# On a busy machine a Python worker does not start within the timeout of Spark, and queries that start at the same time
# change a collection of the session while another one serializes it ("Illegal size 5 of collection"). Spark reports the
# latter in three ways: when it checks a closure, when it serializes a stage, and when it serializes a task.
_TRANSIENT: Final = (
    "Python worker failed to connect back",
    "CANNOT_OPEN_SOCKET",
    "Task not serializable",
    "Task serialization failed",
    "Exception during serialization",
)
# How often a flow is planned or started if the error is transient.
ATTEMPTS: Final = 4
_OURS: Final = re.compile(r"penstock_client\.errors\.\w+: (.+)")


@dataclass(slots=True)
class FlowProgress:
    """One line of the live display and of state.json."""

    name: str
    target: str
    state: str = "waiting"
    batch: int = -1
    rows: int = 0
    rows_per_s: float = 0.0
    lag: int | None = None
    batch_ms: int = 0
    counted: dict[str, int] = field(default_factory=dict)
    error: str | None = None

    def take(self, reports: Sequence[Mapping[str, Any]]) -> bool:
        """Add reports of new batches; return True if there were any. Rates and lag come from the last one."""
        news = False
        for report in reports:
            if report["batchId"] > self.batch and report["numInputRows"]:
                news = True
                self.batch = report["batchId"]
                self.rows += report["numInputRows"]
                self.batch_ms = int(report.get("durationMs", {}).get("triggerExecution", 0))
                self._count(report.get("observedMetrics") or {})
        if reports:
            last = reports[-1]
            self.rows_per_s = float(last.get("processedRowsPerSecond") or 0.0) if last["numInputRows"] else 0.0
            self.lag = lag_of(last.get("sources", []), self.lag)
        return news

    def _count(self, metrics: Mapping[str, Any]) -> None:
        for name, row in metrics.items():
            values: Mapping[str, Any] = row.asDict() if hasattr(row, "asDict") else row
            for column, value in values.items():
                if isinstance(value, int):
                    label = column if column == name else f"{name}.{column}"
                    self.counted[label] = self.counted.get(label, 0) + value

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def lag_of(sources: Sequence[Mapping[str, Any]], before: int | None) -> int | None:
    """Return the rows between the current and the latest offsets, over all sources that report them."""
    total, is_known = 0, False
    for source in sources:
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        if end and latest:
            is_known = True
            total += sum(max(0, offset - end.get(one, 0)) for one, offset in latest.items())
    return total if is_known else before


def _offsets(value: Any) -> dict[tuple[str, str], int]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, dict):
        return {}
    return {
        (topic, partition): offset
        for topic, by in value.items()
        if topic != IDS and isinstance(by, dict)
        for partition, offset in by.items()
        if isinstance(offset, int)
    }


def is_transient(text: str) -> bool:
    """Return whether Spark's error may be absent in another attempt."""
    return any(one in text for one in _TRANSIENT)


def reason(text: str) -> str:
    """Return the sentence that explains the failure, from a failed query's error text."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    python = [match for match in _PYTHON_ERROR.findall(text) if match[0] not in ("PythonException", "SparkException")]
    if python:
        kind, message = python[-1]
        return f"{kind}: {message}".strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return first[:500]
