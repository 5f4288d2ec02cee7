"""The input and the result of the recovery of a log (recovery.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.ports.disk import File
from penstock.storage.epoch_cache import EpochCache
from penstock.storage.producer_state import ProducerState
from penstock.storage.segment import Segment
from penstock.storage.segment_list import SegmentList


@dataclass(slots=True)
class Recovered:
    """The recovered state of a log."""

    segments: list[Segment]
    epochs: EpochCache
    producers: ProducerState
    segment_list: SegmentList
    start_offset: int = 0
    end_offset: int = 0
    flushed_offset: int = 0
    damage: str | None = None
    damaged_from: int | None = None
    is_provisional: bool = False
    """Whether some files could not be read, so that the log counts as damaged until they can be."""
    notes: list[str] = field(default_factory=list)
    folder_changed: bool = False
    names_removed: bool = False
    """Whether recovery has removed files."""
    unflushed: list[tuple[File, int]] = field(default_factory=list)
    list_changed: bool = False
    unsynced_indexes: list[Segment] = field(default_factory=list)
    """Closed segments whose indexes must be synced before the recovery point passes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExpectations:
    """What the checkpoints of the data folder say about a log."""

    recovery_point: int = 0
    log_start: int = 0
    least_end: int = 0
    """An offset that the log had reached, according to its high watermark."""
    held: bool = False
    """Whether the log is known to have had a segment with records."""
    is_new: bool = False
    """Whether the log has no folder yet."""


NO_EXPECTATIONS: Final = LogExpectations()
NEW_LOG: Final = LogExpectations(is_new=True)
