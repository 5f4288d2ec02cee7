"""Options and output of `penstock pipeline`, without Spark."""

import io
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli.errors import CommandError
from penstock.cli.pipeline import _replay
from penstock.cli.pipeline_display import Display, line, table
from penstock_spark.pipelines.progress import FlowProgress
from penstock_spark.pipelines.sources import Replay


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        (["42"], Replay(offset=42, offsets={})),
        (["orders:0=5", "orders:1=7"], Replay(offset=None, offsets={"orders": {"0": 5, "1": 7}})),
        (["a:b:2=1"], Replay(offset=None, offsets={"a:b": {"2": 1}})),
        (["0", "orders:0=5"], Replay(offset=0, offsets={"orders": {"0": 5}})),
    ],
)  # fmt: skip
def test_a_replay_starts_at_offsets(offsets: list[str], found: Replay) -> None:
    assert _replay(None, offsets) == found


@pytest.mark.parametrize("text", ("", "first", "-1", "²", "orders=5", ":0=5", "orders:x=5", "orders:0=", "orders:²=5"))
def test_an_offset_of_another_form_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(CommandError, match="expected OFFSET or TOPIC:PARTITION=OFFSET, for example orders:0=42"):
        _replay(None, [text])


@pytest.mark.parametrize(("timestamp", "offsets"), [(None, []), ("2h", ["5"])])
def test_a_replay_starts_at_a_time_or_at_offsets(timestamp: str | None, offsets: list[str]) -> None:
    with pytest.raises(CommandError, match="Pass either --from-timestamp or --from-offset"):
        _replay(timestamp, offsets)


def test_a_replay_starts_at_a_time() -> None:
    assert _replay("1970-01-01T00:00:02Z", []).timestamp_ms == 2000


def flow(**changes: Any) -> FlowProgress:
    progress = FlowProgress("clean", "orders")
    for name, value in changes.items():
        setattr(progress, name, value)
    return progress


def test_a_line_has_what_is_known_of_a_flow() -> None:
    assert line(flow(state="starting")) == "clean -> orders: starting"
    running = flow(state="running", batch=3, rows=20, rows_per_s=4.0, batch_ms=1500, lag=7, counted={"dead_letters": 2})
    assert line(running) == ("clean -> orders: running, batch 3, 20 rows, 4 rows/s, 1.5 s, lag 7, dead_letters 2")
    assert line(flow(state="failed", error="no topic")).endswith("failed, no topic")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_table() -> None:
    out = Terminal()
    with Display("sales", out) as display:
        display.show([flow(state="running", batch=3, rows=1234, lag=7), flow(state="failed", error="no topic")])
    shown = out.getvalue()
    assert "sales" in shown and "1,234" in shown and "no topic" in shown
    assert table("sales", [flow(state="starting")]).row_count == 1


def test_without_a_terminal_only_changes_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.pipeline_display.time", SimpleNamespace(monotonic=lambda: 1000.0))
    out = io.StringIO()
    with Display("sales", out) as display:
        display.show([flow(state="running", batch=1, rows=5)])
        display.show([flow(state="running", batch=2, rows=6)])
        display.show([flow(state="running", batch=3, rows=7)])
    printed = out.getvalue().splitlines()
    assert len(printed) == 2, "the first, and the last at the end"
    assert "batch 1," in printed[0] and "batch 3," in printed[1]
