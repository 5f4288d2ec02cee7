"""What a log asks of the checkpoints that its data folder keeps for it (knowledge.py, saved_offsets.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _nothing() -> None:
    return


def _at_once(done: Callable[[OSError | None], None]) -> None:
    done(None)


def _ignore(offset: int) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoints:
    """Calls from a log to its data folder. Without one there is nothing to write."""

    start_moved: Callable[[], None] = _nothing
    """The start of the log has moved forward."""
    when_start_saved: Callable[[Callable[[OSError | None], None]], None] = _at_once
    """Call back once the start is on disk: files before it are removed only then."""
    truncating: Callable[[int], None] = _ignore
    """The log is about to be cut at an offset: write its recovery point first."""
