"""The progress of compaction in one log.

The cleaner begins and ends passes, a swap registers itself while it renames files, and truncation lowers the clean
offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.storage.compaction.swap import Swap


class CompactionState:
    """The clean offset of one log, and the pass and swap in progress."""

    __slots__ = ("clean_offset", "is_outdated", "is_running", "swap")

    def __init__(self) -> None:
        self.clean_offset = 0
        """Everything before this offset is compacted."""
        self.is_running = False
        """Whether a pass is in progress, during which closed segments must not be removed."""
        self.is_outdated = False
        """Whether the log was truncated since the last pass began. Its last segment may be active again."""
        self.swap: Swap | None = None
        """The swap in progress. Truncation finishes it first."""

    def load(self, clean_offset: int) -> None:
        """Continue from the offset in the data folder's checkpoint."""
        self.clean_offset = clean_offset

    def begin(self) -> None:
        """Begin a pass, during which no segment may be deleted."""
        self.is_running = True
        self.is_outdated = False

    def end(self) -> None:
        self.is_running = False

    def advance(self, offset: int) -> None:
        """Record that everything before an offset is compacted."""
        self.clean_offset = offset

    def truncate(self, offset: int) -> None:
        """Lower the clean offset of a truncated log; a pass in progress must not replace segments anymore."""
        self.is_outdated = True
        self.clean_offset = min(self.clean_offset, offset)

    def begin_swap(self, swap: Swap) -> None:
        self.swap = swap

    def end_swap(self) -> None:
        self.swap = None

    def finish_swap(self) -> None:
        """Finish a swap before returning. Blocks."""
        while self.swap is not None:
            self.swap.finish_now()
