"""An HTML timeline: availability per partition, faults per node, leader changes."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.chaos.faults import Fault

WIDTH, ROW, LEFT = 1100, 22, 150
# A partition without an acknowledgement for this long counts as unavailable.
GAP_S = 1.0
COLOURS = {
    "kill -9": "#c0392b",
    "SIGTERM and restart": "#e67e22",
    "SIGSTOP": "#8e44ad",
    "SIGSTOP until fenced": "#5b2c6f",
    "network cut": "#2c3e50",
    "connections reset": "#2980b9",
    "slow link": "#16a085",
}


class LeaderChange(NamedTuple):
    at: float
    partition: int
    leader: int


class Outcome(NamedTuple):
    began: float
    ended: float
    acknowledged: Sequence[tuple[float, int, float]]
    faults: Sequence[Fault]
    leaders: Sequence[LeaderChange]
    violations: Sequence[str]
    partitions: int
    nodes: int


def gaps(outcome: Outcome, partition: int) -> list[tuple[float, float]]:
    """Return the intervals longer than `GAP_S` without an acknowledgement."""
    times = sorted(at for at, index, _ in outcome.acknowledged if index == partition)
    marks = [outcome.began, *times]
    return [(before, after) for before, after in pairwise(marks) if after - before > GAP_S]


def summary(outcome: Outcome) -> list[str]:
    unavailable = [sum(end - begin for begin, end in gaps(outcome, index)) for index in range(outcome.partitions)]
    length = outcome.ended - outcome.began
    counts: dict[str, int] = {}
    for fault in outcome.faults:
        counts[fault.kind] = counts.get(fault.kind, 0) + 1
    return [
        f"{length:.0f} s, {len(outcome.acknowledged)} records acknowledged, {len(outcome.leaders)} leader changes",
        f"{len(outcome.faults)} faults: " + ", ".join(f"{count} x {kind}" for kind, count in sorted(counts.items())),
        f"available {100 * (1 - sum(unavailable) / (length * outcome.partitions)):.1f} % of the time",
        f"{len(outcome.violations)} violations",
    ]


def write(path: Path, outcome: Outcome) -> None:
    scale = (WIDTH - LEFT) / max(1e-9, outcome.ended - outcome.began)

    def x(at: float) -> float:
        return LEFT + (at - outcome.began) * scale

    rows: list[str] = []
    y = 10
    for index in range(outcome.partitions):
        rows.append(_label(f"partition {index}", y))
        rows.append(_box(LEFT, y, WIDTH - LEFT, "#7dcea0", "available"))
        for begin, end in gaps(outcome, index):
            rows.append(
                _box(x(begin), y, (end - begin) * scale, "#f5b7b1", f"no acknowledgement for {end - begin:.1f} s")
            )
        rows += [_tick(x(change.at), y, change) for change in outcome.leaders if change.partition == index]
        y += ROW
    y += 10
    for node in range(1, outcome.nodes + 1):
        rows.append(_label(f"node {node}", y))
        rows.append(_box(LEFT, y, WIDTH - LEFT, "#eaecee", "up"))
        for fault in outcome.faults:
            if fault.node_id == node:
                width = max(2.0, (fault.ended - fault.began) * scale)
                rows.append(_box(x(fault.began), y, width, COLOURS.get(fault.kind, "#000"), fault.kind))
        y += ROW
    y += 10
    for position, (kind, colour) in enumerate(COLOURS.items()):
        rows.append(_box(10 + position * 155, y, 12, colour, kind))
        rows.append(f'<text x="{26 + position * 155}" y="{y + 12}" font-size="11">{escape(kind)}</text>')
    words = "".join(f"<p>{escape(line)}</p>" for line in [*summary(outcome), *outcome.violations])
    path.write_text(
        "<!doctype html><title>Chaos</title><body style='font-family:sans-serif'><h1>Three nodes under faults</h1>"
        f"{words}<svg width='{WIDTH}' height='{y + 40}'>{''.join(rows)}</svg>",
        encoding="utf-8",
    )


def _label(text: str, y: float) -> str:
    return f'<text x="10" y="{y + 12}" font-size="12">{escape(text)}</text>'


def _box(x: float, y: float, width: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 6}" fill="{colour}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _tick(x: float, y: float, change: LeaderChange) -> str:
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + ROW - 6}" stroke="#1b4f72">'
        f"<title>leader is now node {change.leader}</title></line>"
    )
