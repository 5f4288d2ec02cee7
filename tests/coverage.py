"""Branch coverage of src/ and client/src, in child processes too, held to floors.

    python -m tests.coverage [--report] [arguments of pytest]

Runs the unit, oracle, sim, integration, cli and security tests and those of the console's API that are not marked slow,
then the tests of Spark, which all are: no others run the commands in most situations, each API without each of its
rights, or the packages for the console and for Spark. Arguments of pytest replace all that.

Prints a row for each package, worst first, and exits with 1 if a floor is not reached. `--report` takes the figures of
the last run instead of running the tests. `coverage report -m` and `coverage html` show the lines of that run. A child
that is killed loses its figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

CHECKOUT = Path(__file__).parent.parent
PARTS = (
    "tests/unit",
    "tests/oracle",
    "tests/sim",
    "tests/integration",
    "tests/cli",
    "tests/security",
    "tests/compat/console",
)
SLOW_PARTS = ("tests/spark",)
OVERALL = "all of src"
FLOORS = {
    OVERALL: 90.0,
    "penstock/storage": 95.0,
    "penstock/replication": 95.0,
    "penstock/raft": 95.0,
    "penstock/groups": 95.0,
    "penstock/transactions": 95.0,
}
"""Percent of branches."""


@dataclass
class Row:
    name: str
    branches: int = 0
    covered_branches: int = 0
    lines: int = 0
    covered_lines: int = 0

    @property
    def percent(self) -> float:
        return 100 * self.covered_branches / self.branches if self.branches else 100.0

    @property
    def percent_of_lines(self) -> float:
        return 100 * self.covered_lines / self.lines if self.lines else 100.0

    @property
    def is_below_floor(self) -> bool:
        return self.percent < FLOORS.get(self.name, 0.0)

    def add(self, summary: Mapping[str, int]) -> None:
        self.branches += summary["num_branches"]
        self.covered_branches += summary["covered_branches"]
        self.lines += summary["num_statements"]
        self.covered_lines += summary["covered_lines"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description=__doc__, allow_abbrev=False)
    parser.add_argument("--report", action="store_true", help="take the figures of the last run")
    given, rest = parser.parse_known_args()
    code = 0
    if not given.report:
        _coverage("erase")
        runs = [rest] if rest else [PARTS, ("--slow", *SLOW_PARTS)]
        codes = [_coverage("run", "-m", "tests", *words) for words in runs]
        code = next(filter(None, codes), 0)
        _coverage("combine", "--quiet")
    found = CHECKOUT / ".cache" / "coverage.json"
    # The figures of an earlier run must not stand in for those that cannot be had.
    found.unlink(missing_ok=True)
    code = _coverage("json", "--quiet", "-o", str(found)) or code
    if not found.exists():
        return code or 1
    rows = table(json.loads(found.read_text()))
    print(formatted(rows))
    below = below_floor(rows)
    if below:
        print(f"below the floor: {', '.join(below)}")
    return code or int(bool(below))


def table(figures: Any) -> list[Row]:
    """Sum up the figures of files by package, worst first and everything last."""
    rows: defaultdict[str, Row] = defaultdict(lambda: Row(""))
    overall = Row(OVERALL)
    for path, file in figures["files"].items():
        name = package_of(path)
        rows[name].name = name
        rows[name].add(file["summary"])
        overall.add(file["summary"])
    return [*sorted(rows.values(), key=lambda row: row.percent), overall]


def below_floor(rows: list[Row]) -> list[str]:
    """Return the names of what is below its floor; a package with a floor and without figures is below it."""
    measured = {row.name for row in rows}
    return [row.name for row in rows if row.is_below_floor] + [name for name in FLOORS if name not in measured]


def package_of(path: str) -> str:
    """Return src's package that a file is in, with the first one inside it where there is one."""
    parts = PurePath(path).parts
    inside = parts[parts.index("src") + 1 : -1]
    return "/".join(inside[:2])


def formatted(rows: list[Row]) -> str:
    lines = [f"{'package':<32}{'branches':>10}{'covered':>10}{'%':>8}{'floor':>8}{'lines %':>10}"]
    for row in rows:
        floor = f"{FLOORS[row.name]:.0f}" if row.name in FLOORS else ""
        lines.append(
            f"{row.name:<32}{row.branches:>10}{row.covered_branches:>10}{row.percent:>8.1f}{floor:>8}"
            f"{row.percent_of_lines:>10.1f}"
        )
    return "\n".join(lines)


def _coverage(*words: str) -> int:
    return subprocess.call([sys.executable, "-m", "coverage", *words], cwd=CHECKOUT)


if __name__ == "__main__":
    sys.exit(main())
