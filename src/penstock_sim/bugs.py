"""The table of planted bugs that ablations.py and cluster_ablations.py fill."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

Patch = Any
BUGS: dict[str, Callable[[], list[Patch]]] = {}


def bug(make: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
    """Register a bug under the name of its function."""
    BUGS[make.__name__.replace("_", "-")] = make
    return make


def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Patch:
    """Return a patch that replaces a function by `make(function)`."""
    return patch.object(owner, name, make(getattr(owner, name)))
