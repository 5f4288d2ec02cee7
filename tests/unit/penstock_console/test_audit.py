"""The log of changes: one line of JSON for each, without secrets, and short whatever the arguments."""

import json
import logging
from typing import Any

import pytest

from penstock_console.audit import ROWS_MAX, TEXT_MAX, record
from penstock_console.jobs import Job
from penstock_console.plans import Outcome, Plan


def done(job: Job) -> Outcome:
    return Outcome("done")


def logged(caplog: pytest.LogCaptureFixture, arguments: dict[str, Any], rows: list[dict[str, Any]]) -> Any:
    caplog.set_level(logging.INFO, "penstock_console.audit")
    record(
        user="alice",
        address="10.0.0.1",
        cluster="local",
        action="user.add",
        arguments=arguments,
        hidden=("password",),
        plan=Plan(title="t", command=["penstock"], columns=["a"], rows=rows, execute=done),
        outcome="done",
    )
    (line,) = caplog.messages
    assert "\n" not in line
    return json.loads(line)


def test_a_change_is_logged_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    line = logged(caplog, {"user": "bob\n", "password": "hunter2"}, [{"a": 1}])
    assert (line["audit"], line["user"], line["address"], line["outcome"]) == ("user.add", "alice", "10.0.0.1", "done")
    assert line["arguments"] == {"user": "bob\n", "password": "(hidden)"}
    assert (line["rows"], line["row_count"]) == ([{"a": 1}], 1)


def test_a_large_change_has_a_short_line(caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"a": "x" * 5000}] * 100
    line = logged(caplog, {"value": "y" * 5000, "topics": ["z" * 5000]}, rows)
    assert line["arguments"]["value"] == "y" * TEXT_MAX + "..."
    assert line["arguments"]["topics"] == str(["z" * 5000])[:TEXT_MAX] + "..."
    assert (len(line["rows"]), line["row_count"]) == (ROWS_MAX, 100)
    assert line["rows"][0] == {"a": "x" * TEXT_MAX + "..."}
