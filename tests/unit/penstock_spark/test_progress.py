"""Tests of progress reports and error extraction."""

from __future__ import annotations

import json
from typing import Any

from penstock_spark.pipelines.progress import FlowProgress, reason


def report(batch: int, rows: int, end: int, latest: int, bad: int = 0) -> dict[str, Any]:
    def offsets(value: int) -> str:
        return json.dumps({"#ids": {"orders": "x"}, "orders": {"0": value}})

    return {
        "batchId": batch,
        "numInputRows": rows,
        "processedRowsPerSecond": 100.0,
        "durationMs": {"triggerExecution": 250},
        "sources": [{"endOffset": offsets(end), "latestOffset": offsets(latest)}],
        "observedMetrics": {"letters": {"letters": bad}, "read": {"good": rows - bad}},
    }


def test_rows_are_counted_once_even_if_reports_are_seen_again() -> None:
    flow = FlowProgress("f", "t")
    first, second = report(0, 10, 10, 10, bad=1), report(1, 5, 15, 18)
    assert flow.take([first])
    assert flow.take([first, second])
    assert not flow.take([first, second])
    assert (flow.rows, flow.batch, flow.lag, flow.batch_ms) == (15, 1, 3, 250)
    assert flow.counted == {"letters": 1, "read.good": 14}


def test_a_quiet_trigger_keeps_the_last_lag_and_has_no_rate() -> None:
    flow = FlowProgress("f", "t")
    flow.take([report(0, 10, 10, 14)])
    flow.take([{**report(1, 0, 0, 0), "sources": []}])
    assert (flow.rows, flow.lag, flow.rows_per_s) == (10, 4, 0.0)


def test_penstocks_error_message_is_found_in_a_long_trace() -> None:
    text = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
=== Streaming Query ===
Traceback (most recent call last):
  File "x.py", line 3, in y
penstock_client.errors.DataLoss: offset 3 of orders-0 is out of range. Set failOnDataLoss=false.
    at org.apache.spark.X"""
    assert reason(text) == "offset 3 of orders-0 is out of range. Set failOnDataLoss=false."


def test_the_last_python_error_is_used_otherwise() -> None:
    assert reason("PythonException: x\nValueError: bad amount\n  at java") == "ValueError: bad amount"
    assert reason("\n[DIVIDE_BY_ZERO] Division by zero.\nmore") == "[DIVIDE_BY_ZERO] Division by zero."
