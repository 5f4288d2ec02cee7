"""How far compaction of one log has come, and what of it is under way.

The cleaner begins and ends passes, a swap registers itself while files change places, and cuts lower the clean offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.storage.compaction.swap import Swap


class CompactionState:
    """The clean offset of one log, and the pass and the swap under way."""

    __slots__ = ("clean_offset", "is_running", "swap")

    def __init__(self) -> None:
        self.clean_offset = 0
        """Compaction is done with everything before this offset."""
        self.is_running = False
        """Whether a pass is under way, which must find the closed segments where they are."""
        self.swap: Swap | None = None
        """Files that are changing places. A cut waits for the end of the swap."""

    def load(self, clean_offset: int) -> None:
        """Go on from the offset that the data folder's checkpoint names."""
        self.clean_offset = clean_offset

    def begin(self) -> None:
        """Begin a pass: no segment may be deleted until it ends."""
        self.is_running = True

    def end(self) -> None:
        self.is_running = False

    def advance(self, offset: int) -> None:
        """Count everything before an offset as compacted."""
        self.clean_offset = offset

    def truncate(self, offset: int) -> None:
        """Forget what was compacted from an offset on."""
        self.clean_offset = min(self.clean_offset, offset)

    def begin_swap(self, swap: Swap) -> None:
        self.swap = swap

    def end_swap(self) -> None:
        self.swap = None

    def finish_swap(self) -> None:
        """Make the rest of a swap before returning. Blocks."""
        while self.swap is not None:
            self.swap.finish_now()
