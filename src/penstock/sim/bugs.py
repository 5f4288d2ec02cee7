"""The table of planted bugs that ablations.py and cluster_ablations.py fill."""

from collections.abc import Callable
from typing import Any

Patch = Any
BUGS: dict[str, Callable[[], list[Patch]]] = {}


def bug(make: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
    """Enter a bug under the name of its function."""
    BUGS[make.__name__.replace("_", "-")] = make
    return make
