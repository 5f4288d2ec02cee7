"""The output of penstock demo."""

from typing import Any

import pytest

from penstock.cli.demo_display import ROWS_MAX, DemoDisplay


def window(second: int, country: str, orders: int = 1) -> dict[str, Any]:
    minute = f"2026-01-31T12:{second // 60:02}"
    return {
        "from": f"{minute}:{second % 60:02}.000Z",
        "to": f"{minute}:{second % 60 + 9:02}.000Z",
        "country": country,
        "orders": orders,
        "amount": 1234.5,
    }


def test_results_come_in_the_order_of_time_under_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    display = DemoDisplay()
    display.results([window(20, "NO"), window(10, "KE"), window(10, "AT")])
    display.results([window(30, "AT")])
    display.say("something else")
    display.results([window(40, "AT")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "results of the pipeline: orders and sales by country, in windows of 10 s of event time"
    header = "  window (UTC)          country   orders         sales"
    assert [index for index, line in enumerate(lines) if line == header] == [1, 7]
    rows = [line.split()[0] + line.split()[3] for line in lines if line.startswith("  12:")]
    assert rows == ["12:00:10AT", "12:00:10KE", "12:00:20NO", "12:00:30AT", "12:00:40AT"]
    assert lines[2] == "  12:00:10 - 12:00:19   AT             1      1,234.50"


def test_of_a_backlog_only_the_last_windows_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    DemoDisplay().results([window(10 * number, "AT") for number in range(100)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == f"  ... {100 - ROWS_MAX} earlier results, from 12:00:00 on"
    assert len(lines) == 3 + ROWS_MAX and lines[-1].strip().startswith("12:16:30")


def test_without_a_terminal_a_status_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    display = DemoDisplay()
    display.status("Spark is starting")
    display.line("ready localhost:9092")
    assert capsys.readouterr().out == "[demo   0 s] Spark is starting\nready localhost:9092\n"
