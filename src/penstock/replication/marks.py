"""What consumers are shown of a partition's log: the high watermark and the last stable offset.

`Marks` owns both and is the only one to move them; partition.py decides how far. They never move back, except with
the end of the log. Goes to storage/log.py for open transactions.
"""

from __future__ import annotations

from penstock.storage.log import Log


class Marks:
    """The marks of one log. `known_mark` is a lower bound of the mark, None if all that is durable is below it."""

    __slots__ = ("_held_size", "_hidden_size", "_log", "_offsets", "_stable", "high_watermark")

    def __init__(self, log: Log, known_mark: int | None) -> None:
        self._log = log
        self._offsets = offsets = log.offsets
        mark = offsets.durable if known_mark is None else max(offsets.start, min(known_mark, offsets.end))
        self.high_watermark = mark
        log.high_watermark_moved(mark)
        self._stable = self._stable_up_to(mark)
        # Bytes that nobody sees yet, and bytes that only readers of uncommitted records see.
        self._hidden_size = 0
        self._held_size = 0

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended for good; it never moves back."""
        # Deleted records hold nobody back, whether or not their transaction was ended.
        start = self._offsets.start
        return self._stable if self._stable >= start else start

    def _stable_up_to(self, mark: int) -> int:
        first_unstable = self._log.first_unstable_offset
        return mark if first_unstable is None or first_unstable > mark else first_unstable

    def wrote(self, size: int) -> None:
        """Count bytes that were appended and are not shown yet."""
        self._hidden_size += size

    def move(self, mark: int) -> int:
        """Show everything below an offset; return about how many bytes somebody may see for the first time."""
        end = self._offsets.end
        assert self.high_watermark < mark <= end, f"the mark moves from {self.high_watermark} to {mark} of {end}"
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
        """Move the stable mark after the high watermark."""
        self._log.high_watermark_moved(mark)
        stable = max(self._stable, self._stable_up_to(mark))
        if stable == self._stable:
            self._held_size += size
            return size
        # An ended transaction shows its readers all that it held back.
        held, self._held_size = self._held_size, (0 if stable == mark else self._held_size + size)
        self._stable = stable
        return size + held

    def after_truncation(self) -> None:
        """Stay within a log of which something was cut."""
        offsets = self._offsets
        self.high_watermark = min(max(self.high_watermark, offsets.start), offsets.end)
        self._hidden_size = 0
        self._held_size = 0
        self._stable = self._stable_up_to(self.high_watermark)
