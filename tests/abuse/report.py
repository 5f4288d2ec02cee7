"""The result table of a campaign, and the comparison with a peer."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.abuse.campaign import Result

HEADINGS = (
    f"{'attack':<22} {'node':<12} {'quiet':>6} {'p50':>6} {'p99':>7} {'max':>7} {'900 KB':>7} {'gap':>7} "
    f"{'loop':>6} {'CPU':>6} {'/health':>7} {'memory MB':>17} {'descriptors':>17}  holds"
)
UNITS = (
    f"{'':<22} {'':<12} {'p99 ms':>6} {'ms':>6} {'ms':>7} {'ms':>7} {'max ms':>7} {'ms':>7} "
    f"{'ms':>6} {'ms':>6} {'ms':>7} {'before/peak/after':>17} {'before/peak/after':>17}"
)


def heading() -> str:
    return f"{HEADINGS}\n{UNITS}"


def row(result: Result) -> str:
    loop, cpu = _held(result)
    memory = "/".join(f"{each:.0f}" for each in result.memory_mb)
    descriptors = "/".join(map(str, result.descriptors))
    lines = [
        f"{result.attack:<22} {result.node:<12} {result.quiet.p99_ms:6.1f} {result.small.p50_ms:6.1f} "
        f"{result.small.p99_ms:7.1f} {result.small.max_ms:7.0f} {result.large.max_ms:7.0f} {result.gap_ms:7.0f} "
        f"{loop:>6} {cpu:>6} {result.health_ms:7.0f} {memory:>17} {descriptors:>17}  {'yes' if result.holds else 'NO'}"
    ]
    return "\n".join([*lines, *(f"    {each}" for each in result.broken)])


def _held(result: Result) -> tuple[str, str]:
    """Return the longest time that a request blocked the loop, elapsed and CPU time."""
    return ("-", "-") if result.loop is None else (f"{result.loop.request_ms:.0f}", f"{result.loop.request_cpu_ms:.0f}")


def ratios(results: Sequence[Result]) -> list[str]:
    """Compare Penstock with the peer, for each attack that both ran."""
    by_attack: dict[str, dict[str, Result]] = {}
    for result in results:
        by_attack.setdefault(result.attack, {})[result.node] = result
    lines = []
    for attack, nodes in by_attack.items():
        peers = [result for name, result in nodes.items() if name != "Penstock"]
        if "Penstock" not in nodes or not peers:
            continue
        ours, theirs = nodes["Penstock"], peers[0]
        words = ", ".join(
            f"{label} {mine:.1f} against {other:.1f} ms ({mine / max(other, 0.001):.2f}x)"
            for label, mine, other in (
                ("p50", ours.small.p50_ms, theirs.small.p50_ms),
                ("p99", ours.small.p99_ms, theirs.small.p99_ms),
                ("max", ours.small.max_ms, theirs.small.max_ms),
                ("900 KB max", ours.large.max_ms, theirs.large.max_ms),
            )
        )
        lines.append(f"{attack}: {words}")
    return lines


def markdown(results: Sequence[Result]) -> list[str]:
    """Return the table for docs/reliability.md."""
    lines = [
        "| attack | quiet p99 | p50 / p99 / max | 900 KB max | longest gap | loop blocked, elapsed / CPU "
        "| memory before / peak / after "
        "| descriptors | holds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        memory = " / ".join(f"{each:.0f}" for each in result.memory_mb)
        descriptors = " / ".join(map(str, result.descriptors))
        lines.append(
            f"| `{result.attack}` | {result.quiet.p99_ms:.1f} | {result.small.p50_ms:.1f} / {result.small.p99_ms:.0f} "
            f"/ {result.small.max_ms:.0f} | {result.large.max_ms:.0f} | {result.gap_ms:.0f} "
            f"| {' / '.join(_held(result))} | {memory} | {descriptors} | {'yes' if result.holds else 'no'} |"
        )
    return lines


class Progress:
    """A progress line that is overwritten if the output is a terminal."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    def show(self, text: str) -> None:
        if self._is_terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        self.show("")
