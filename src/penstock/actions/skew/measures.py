"""Unevenness in two numbers. Pure."""

from collections.abc import Sequence


def max_over_mean(loads: Sequence[float]) -> float:
    """How much more than its share the busiest one carries; 1 is even."""
    total = sum(loads)
    return 1.0 if total <= 0 else max(loads) * len(loads) / total


def gini(loads: Sequence[float]) -> float:
    """0 if all carry the same, near 1 if one of many carries everything."""
    total = sum(loads)
    if total <= 0:
        return 0.0
    count = len(loads)
    weighted = sum(rank * load for rank, load in enumerate(sorted(loads), start=1))
    return 2 * weighted / (count * total) - (count + 1) / count
