"""Measures of uneven load. No I/O."""

from collections.abc import Sequence


def max_over_mean(loads: Sequence[float]) -> float:
    """Return the highest load as a multiple of the mean; 1 is even."""
    total = sum(loads)
    return 1.0 if total <= 0 else max(loads) * len(loads) / total


def gini(loads: Sequence[float]) -> float:
    """Return the Gini coefficient: 0 if all loads are equal, near 1 if one of many has everything."""
    total = sum(loads)
    if total <= 0:
        return 0.0
    count = len(loads)
    weighted = sum(rank * load for rank, load in enumerate(sorted(loads), start=1))
    return 2 * weighted / (count * total) - (count + 1) / count
