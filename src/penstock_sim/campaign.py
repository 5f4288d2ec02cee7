"""Campaigns of many seeds: running totals, a result file, and reports.

Every result is appended to the file as a line of JSON, so that an interrupted campaign keeps its totals and continues
when it is restarted. A file of another campaign is rejected.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from penstock_sim.world import Result

LONG_CAMPAIGN = 500
MUST_HAPPEN = (
    "kill", "power loss", "clean stop", "sync fails", "disk full", "rot", "late request", "clock jump",
    "folder lost", "segment lost", "segment cut", "log unreadable",
)  # fmt: skip
MUST_BE_REACHED = (
    "leader changed",
    "no leader",
    "one left in sync",
    "in-sync set grew",
    "leader from the eligible",
    "data folder offline",
    "read-only",
    "records compacted away",
    "replicas compacted apart",
)
"""States that a long campaign must reach; otherwise it does not test what it claims to."""


class OtherCampaign(Exception):
    """The file has results of another campaign."""


@dataclass(slots=True)
class Figures:
    seeds: int = 0
    simulated_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=Counter)
    violations: dict[int, list[str]] = field(default_factory=dict)
    """The violations of each failed seed."""

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.simulated_s += result.simulated_s
        self.faults.update(result.faults)
        self.sometimes.update(result.sometimes)
        if result.violations:
            self.violations[result.seed] = result.violations

    def missing(self, *, clusters: bool) -> list[str]:
        """Return the states that a campaign of this length should have reached but has not."""
        if self.seeds < LONG_CAMPAIGN:
            return []
        found = [name for name in MUST_HAPPEN if not self.faults[name]]
        return found + [name for name in MUST_BE_REACHED if clusters and not self.sometimes[name]]

    def progress(self, wanted: int, rate: float) -> str:
        return (
            f"{self.seeds}/{wanted} seeds, {self.simulated_s / 3600:.1f} simulated hours, "
            f"{sum(self.faults.values())} faults, {len(self.violations)} violations, {rate:.1f} seeds/s"
        )

    def in_words(self) -> str:
        lines = [
            "faults: " + ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items())),
            "reached: " + (", ".join(f"{n} {count}" for n, count in sorted(self.sometimes.items())) or "nothing rare"),
        ]
        lines += [f"seed {seed}: {found[0]}" for seed, found in sorted(self.violations.items())]
        return "\n".join(lines)


class Record:
    """The file of a campaign: a header line, then one line per seed."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.figures = Figures()
        self.done: set[int] = set()
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and json.loads(lines[0]) != about:
            raise OtherCampaign(f"{path} belongs to another campaign, {lines[0]}: choose another file")
        for line in lines[1:]:
            try:
                result = _read(json.loads(line))
            except ValueError:
                continue  # The incomplete last line of an interrupted campaign; its seed is run again.
            self.done.add(result.seed)
            self.figures.add(result)
        self._file: TextIO = path.open("a")
        if lines:
            self._file.write("\n")
        else:
            self._write(about)

    def add(self, result: Result) -> None:
        self._write(
            {
                "seed": result.seed,
                "trace": result.digest,
                "simulated_s": round(result.simulated_s, 3),
                "steps": result.steps,
                "faults": result.faults,
                "reached": result.sometimes,
                "violations": result.violations[:10],
            }
        )

    def close(self) -> None:
        self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def _read(line: dict[str, Any]) -> Result:
    return Result(
        line["seed"],
        line["trace"],
        line["violations"],
        Counter(line["faults"]),
        Counter(line["reached"]),
        line["simulated_s"],
        line["steps"],
        "",
        {},
    )


def report(result: Result, nodes: int | None = None) -> str:
    """Format a failure: the violations, the last events, and how to reproduce it."""
    lines = [
        f"seed {result.seed} has {len(result.violations)} violations, trace {result.digest}, commit {commit()}",
        f"  {result.summary}",
    ]
    lines += [f"  ! {violation}" for violation in result.violations[:10]]
    for owner, tail in result.tails.items():
        if owner.startswith(("node", "world")):
            lines.append(f"  last events of {owner}:")
            lines += [f"    {line}" for line in tail[-12:]]
    shown = "" if nodes is None else f" --nodes {nodes}"
    lines.append(f"  reproduce: python -m penstock_sim --first {result.seed} --verbose{shown}")
    return "\n".join(lines)


def commit() -> str:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
            cwd=Path(__file__).parent,
        )
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"
