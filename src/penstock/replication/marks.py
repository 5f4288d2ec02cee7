"""The bounds up to which consumers read a log: the high watermark and the last stable offset.

`Marks` is the only owner of both; partition.py decides how far they move. They never move back, except when the log
is truncated. Calls storage/log.py for open transactions.
"""

from __future__ import annotations

from penstock.storage.log import Log


class Marks:
    """The bounds of one log. `known_mark` is a lower bound of the high watermark; None means the durable end."""

    __slots__ = ("_held_size", "_hidden_size", "_log", "_offsets", "_stable", "high_watermark")

    def __init__(self, log: Log, known_mark: int | None) -> None:
        self._log = log
        self._offsets = offsets = log.offsets
        mark = offsets.durable if known_mark is None else max(offsets.start, min(known_mark, offsets.end))
        self.high_watermark = mark
        log.high_watermark_moved(mark)
        self._stable = self._stable_up_to(mark)
        # Bytes above the high watermark, and bytes that only read_uncommitted consumers can read.
        self._hidden_size = 0
        self._held_size = 0

    @property
    def last_stable_offset(self) -> int:
        """Return the offset below which every transaction has ended; it never moves back."""
        # Deleted records do not hold readers back, even if their transaction was never ended.
        start = self._offsets.start
        return self._stable if self._stable >= start else start

    def _stable_up_to(self, mark: int) -> int:
        first_unstable = self._log.first_unstable_offset
        return mark if first_unstable is None or first_unstable > mark else first_unstable

    def wrote(self, size: int) -> None:
        """Count appended bytes, which are above the high watermark for now."""
        self._hidden_size += size

    def move(self, mark: int) -> int:
        """Set the high watermark; return roughly how many bytes become visible to some consumer."""
        end = self._offsets.end
        assert self.high_watermark < mark <= end, (
            f"cannot move the high watermark from {self.high_watermark} to {mark}, the log ends at {end}"
        )
        self.high_watermark = mark
        size = self._hidden_size
        log = self._log
        if mark == end:
            self._hidden_size = 0
            if log.reader.last_batch is not None:
                log.reader.forget_last()
        if not self._held_size and log.producer_state.first_unstable_offset is None:
            self._stable = mark
            return size
        return self._advance_stable(mark, size)

    def _advance_stable(self, mark: int, size: int) -> int:
        """Move the last stable offset after the high watermark has moved."""
        self._log.high_watermark_moved(mark)
        stable = max(self._stable, self._stable_up_to(mark))
        if stable == self._stable:
            self._held_size += size
            return size
        # A transaction has ended: everything that it held back becomes visible.
        held, self._held_size = self._held_size, (0 if stable == mark else self._held_size + size)
        self._stable = stable
        return size + held

    def after_truncation(self) -> None:
        """Lower the bounds to the end of a truncated log."""
        offsets = self._offsets
        self.high_watermark = min(max(self.high_watermark, offsets.start), offsets.end)
        self._hidden_size = 0
        self._held_size = 0
        self._stable = self._stable_up_to(self.high_watermark)
