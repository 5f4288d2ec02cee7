"""The four offsets of a log: where it starts, what is flushed, what is durable, where it ends.

`LogOffsets` is their only owner. Everybody may read them; they change through its methods, which assert that
`start <= end` and `flushed <= durable <= end`. The start is not tied to the other two: DeleteRecords may hide records
that no sync has reached yet. The table of who moves which offset is in docs/internals/log.md.
"""

from __future__ import annotations


class LogOffsets:
    """Batches lie from `start` up to, not including, `end`; those below `durable` are acknowledged as durable."""

    __slots__ = ("durable", "end", "flushed", "start")

    def __init__(self, *, start: int, flushed: int, end: int) -> None:
        self.start = start
        self.flushed = flushed
        """Everything below was synced by this process or found synced by recovery."""
        self.durable = end
        """Like `flushed`, but equal to `end` in a log that does not sync its appends (`flush.mode=os`)."""
        self.end = end
        self._check()

    def _check(self) -> None:
        assert 0 <= self.start <= self.end, f"the log starts at {self.start} and ends at {self.end}"
        assert self.flushed <= self.durable <= self.end, (
            f"flushed up to {self.flushed}, durable up to {self.durable}, written up to {self.end}"
        )

    # The next three are hot: each asserts what it could break.

    def extend(self, end: int) -> None:
        """Count batches that were written; a sync has to make them durable."""
        assert end > self.end, f"the log ends at {self.end}, not behind {end}"
        self.end = end

    def extend_durably(self, end: int) -> None:
        """Count batches that were written to a log that does not sync its appends."""
        assert end > self.end, f"the log ends at {self.end}, not behind {end}"
        self.end = self.durable = end

    def flush_to(self, offset: int) -> bool:
        """Count everything below an offset as synced; return whether more is durable than before."""
        assert offset <= self.end, f"the log ends at {self.end}, and {offset} is synced"
        if offset > self.flushed:
            self.flushed = offset
        if offset <= self.durable:
            return False
        self.durable = offset
        return True

    def count_all_durable(self) -> bool:
        """Stop waiting for syncs, because the log no longer syncs its appends; return whether any was awaited."""
        advanced = self.durable < self.end
        self.durable = self.end
        return advanced

    def advance_start(self, offset: int) -> None:
        """Hide everything before an offset."""
        assert offset > self.start, f"the start moves from {self.start} back to {offset}"
        self.start = offset
        self._check()

    def mark_unflushed_from(self, offset: int) -> None:
        """Count nothing from an offset on as synced, because the log is about to be cut there."""
        self.flushed = min(self.flushed, offset)

    def truncate(self, end: int, *, flushed: int) -> None:
        """End the log at an offset. `flushed` is what was synced before the cut began."""
        assert end <= self.end, f"the log ends at {self.end}, and cannot be cut at {end}"
        self.end = end
        self.flushed = min(flushed, end)
        self.durable = min(self.durable, end)
        self.start = min(self.start, end)
        self._check()

    def restart(self, offset: int) -> None:
        """Begin and end at an offset: the log is empty, and its file name is synced."""
        self.start = self.flushed = self.durable = self.end = offset

    def accept_loss(self, *, start: int, end: int) -> None:
        """Begin and end where the good batches of a damaged log do."""
        self.start, self.end = start, max(end, self.end)
        self._check()
