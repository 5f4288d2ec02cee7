"""The interface of a log to the checkpoints of its data folder (store_checkpoints.py, saved_offsets.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.model.ids import TopicPartition


def _nothing() -> None:
    return


def _at_once(done: Callable[[OSError | None], None]) -> None:
    done(None)


def _ignore(topic_partition: TopicPartition, offset: int) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoints:
    """Callbacks from the logs of a data folder, which share them; by default they do nothing."""

    start_moved: Callable[[], None] = _nothing
    """Called when the log start offset has moved forward."""
    when_start_saved: Callable[[Callable[[OSError | None], None]], None] = _at_once
    """Calls back once the log start offset is durable: only then are files before it removed."""
    truncating: Callable[[TopicPartition, int], None] = _ignore
    """Called before a log is truncated at an offset, to write its recovery point first."""


NO_CHECKPOINTS = LogCheckpoints()
