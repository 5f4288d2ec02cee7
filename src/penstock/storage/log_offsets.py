"""The four offsets of a log: start, flushed, durable and end.

`LogOffsets` is their only owner. Any code may read them; they change through its methods, which assert that
`start <= end` and `flushed <= durable <= end`. The start is independent of the other two: DeleteRecords may delete
records that are not synced yet. docs/internals/log.md lists what moves each offset.
"""

from __future__ import annotations


class LogOffsets:
    """The log has batches from `start` up to, not including, `end`; those below `durable` may be acknowledged."""

    __slots__ = ("durable", "end", "flushed", "start")

    def __init__(self, *, start: int, flushed: int, end: int) -> None:
        self.start = start
        self.flushed = flushed
        """Everything below was synced by this process, or was on disk at recovery."""
        self.durable = end
        """Like `flushed`, but equal to `end` in a log that does not sync its appends (`flush.mode=os`)."""
        self.end = end
        self._check()

    def _check(self) -> None:
        assert 0 <= self.start <= self.end, (
            f"the log starts at {self.start}, which is not between 0 and its end, {self.end}"
        )
        assert self.flushed <= self.durable <= self.end, (
            f"flushed up to {self.flushed}, durable up to {self.durable}, written up to {self.end}"
        )

    # The next three are hot: each asserts what it could break.

    def extend(self, end: int) -> None:
        """Move the end past written batches that are not durable yet."""
        assert end > self.end, f"the end cannot move from {self.end} to {end}"
        self.end = end

    def extend_durably(self, end: int) -> None:
        """Move the end past written batches of a log that does not sync its appends."""
        assert end > self.end, f"the end cannot move from {self.end} to {end}"
        self.end = self.durable = end

    def flush_to(self, offset: int) -> bool:
        """Record that everything below an offset is synced; return whether more is durable than before."""
        assert offset <= self.end, f"offset {offset} cannot be synced: the log ends at {self.end}"
        if offset > self.flushed:
            self.flushed = offset
        if offset <= self.durable:
            return False
        self.durable = offset
        return True

    def count_all_durable(self) -> bool:
        """Make everything durable, because the log no longer syncs its appends; return whether anything changed."""
        advanced = self.durable < self.end
        self.durable = self.end
        return advanced

    def advance_start(self, offset: int) -> None:
        """Delete everything before an offset."""
        assert offset > self.start, f"the start cannot move from {self.start} back to {offset}"
        self.start = offset
        self._check()

    def mark_unflushed_from(self, offset: int) -> None:
        """Count nothing from an offset on as synced, because the log is about to be truncated there."""
        self.flushed = min(self.flushed, offset)

    def truncate(self, end: int, *, flushed: int) -> None:
        """Truncate the log to an offset. `flushed` is what was synced before the truncation began."""
        assert end <= self.end, f"the log ends at {self.end} and cannot be truncated to {end}"
        self.end = end
        self.flushed = min(flushed, end)
        self.durable = min(self.durable, end)
        self.start = min(self.start, end)
        self._check()

    def restart(self, offset: int) -> None:
        """Set all offsets for an empty log whose file name is synced."""
        self.start = self.flushed = self.durable = self.end = offset

    def accept_loss(self, *, start: int, end: int) -> None:
        """Set the start and end that remain after the loss of damaged records was accepted."""
        self.start, self.end = start, max(end, self.end)
        self._check()
