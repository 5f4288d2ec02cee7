"""A pytest plugin that reports failures immediately, and ends a run with a table of the suites."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest

from tests.support.order import part_of

_COLUMNS = ("passed", "failed", "skipped")
# The whole report comes at the end of the run, which may have been cut off.
_LINES_AT_ONCE = 25


class Table:
    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, report: pytest.TestReport) -> None:
        part = part_of(report.nodeid)
        self._seconds[part] += report.duration
        if report.when == "call" or not report.passed:
            self._counts[part][report.outcome] += 1

    def lines(self) -> list[str]:
        head = f"{'part':<14}" + "".join(f"{name:>9}" for name in _COLUMNS) + f"{'seconds':>9}"
        return [head, *(self._line(part) for part in sorted(self._counts))]

    def _line(self, part: str) -> str:
        counts = "".join(f"{self._counts[part][name]:>9}" for name in _COLUMNS)
        return f"{part:<14}{counts}{self._seconds[part]:>9.0f}"


class Reporter:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._table = Table()
        self._outcomes: str | None = config.option.outcomes

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._table.add(report)
        if self._outcomes is not None and (report.when == "call" or not report.passed):
            with open(self._outcomes, "a") as file:
                print(json.dumps([report.nodeid, report.outcome]), file=file)
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nFAILED {report.nodeid} ({report.when})", red=True)
            terminal.write_line("\n".join(report.longreprtext.splitlines()[-_LINES_AT_ONCE:]))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"parts, in the order of --seed {self._config.option.seed}")
        for line in self._table.lines():
            terminalreporter.write_line(line)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", help="append the outcome of each test to this file, as lines of JSON")


def pytest_configure(config: pytest.Config) -> None:
    # With several workers, the main process receives every result and the workers have no terminal.
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(config))
