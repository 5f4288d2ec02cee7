"""Sizes of files that a running broker may rename or remove at any moment."""

from __future__ import annotations

from pathlib import Path


def sizes(folder: Path, pattern: str = "*.log") -> list[int] | None:
    """Return the sizes of the files in the order of their names, or None if one is gone: then look again."""
    try:
        return [path.stat().st_size for path in sorted(folder.glob(pattern))]
    except FileNotFoundError:
        return None
