"""What consumers are shown of a partition's log: the high watermark, the last stable offset, and who waits for them.

The base of `Partition`, which says how far the mark may go. Calls go to storage/log.py and, for those who wait,
to waiting.py. Refuses: OffsetOutOfRange, StorageError.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.model.errors import NO_ERROR, OffsetOutOfRange, RequestTimedOut, StorageError
from penstock.model.ids import Offset
from penstock.ports.network import FileSlice
from penstock.replication.waiting import WaitingFetch, WaitingProduce
from penstock.storage.log import Log

if TYPE_CHECKING:
    from penstock.replication.feed import Fed


class MarkedLog:
    """A log with its marks. `known_mark` is a lower bound of the mark, None if all that is durable is below it."""

    __slots__ = (
        "_held_size",
        "_hidden_size",
        "_stable_mark",
        "_waiting_fetches",
        "_waiting_produces",
        "feeds",
        "high_watermark",
        "log",
    )

    def __init__(self, log: Log, known_mark: int | None) -> None:
        self.log = log
        mark = log.durable_offset if known_mark is None else max(log.start_offset, min(known_mark, log.end_offset))
        self.high_watermark = Offset(mark)
        log.high_watermark_moved(mark)
        self._stable_mark = self._stable_up_to(mark)
        # Bytes that nobody sees yet, and bytes that only readers of uncommitted records see.
        self._hidden_size = 0
        self._held_size = 0
        self._waiting_produces: deque[WaitingProduce] = deque()
        # A dict for its order and its cheap removal; the values mean nothing.
        self._waiting_fetches: dict[WaitingFetch, None] = {}
        self.feeds: list[Fed] = []
        """The sessions of followers that this partition is part of."""

    # -- the marks -------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended for good; it never moves back."""
        # Deleted records hold nobody back, whether or not their transaction was ended.
        start = self.log.start_offset
        return self._stable_mark if self._stable_mark >= start else start

    def _stable_up_to(self, mark: int) -> int:
        first_unstable = self.log.first_unstable_offset
        return mark if first_unstable is None or first_unstable > mark else first_unstable

    def _move_mark(self, mark: int) -> None:
        self.high_watermark = Offset(mark)
        size = self._hidden_size
        if mark == self.log.end_offset:
            self._hidden_size = 0
            self.log.last_batch = None
        if self.log.first_unstable_offset is None and not self._held_size:
            self._stable_mark = mark
        else:
            size = self._advance_stable(mark, size)
        waiting = self._waiting_produces
        while waiting and waiting[0].offset <= mark:
            waiting.popleft().done(NO_ERROR)
        if self._waiting_fetches:
            for fetch in list(self._waiting_fetches):
                fetch.more_bytes(size)
        for fed in self.feeds:
            fed.mark_moved()

    def _advance_stable(self, mark: int, size: int) -> int:
        """Move the stable mark after the high watermark; return how many bytes somebody may see for the first time."""
        self.log.high_watermark_moved(mark)
        stable = max(self._stable_mark, self._stable_up_to(mark))
        if stable == self._stable_mark:
            self._held_size += size
            return size
        # An ended transaction shows its readers all that it held back.
        held, self._held_size = self._held_size, (0 if stable == mark else self._held_size + size)
        self._stable_mark = stable
        return size + held

    def _after_cut(self) -> None:
        log = self.log
        self.high_watermark = Offset(min(max(self.high_watermark, log.start_offset), log.end_offset))
        self._hidden_size = 0
        self._held_size = 0
        self._stable_mark = self._stable_up_to(self.high_watermark)

    # -- who hears of news -----------------------------------------------------------------

    def add_feed(self, fed: Fed) -> None:
        self.feeds.append(fed)
        self.log.keeps_last = True

    def remove_feed(self, fed: Fed) -> None:
        self.feeds.remove(fed)
        if not self.feeds:
            self.log.keeps_last = False
            self.log.last_batch = None

    # -- who waits -------------------------------------------------------------------------

    def wait_durable(self, waiting: WaitingProduce) -> None:
        """Park until the high watermark reaches the offset. Offsets come in about rising order."""
        self._waiting_produces.append(waiting)

    def expire_produces(self, now: float) -> None:
        if self._waiting_produces and self._waiting_produces[0].deadline <= now:
            self._fail_produces(RequestTimedOut.code, before=now)

    def _fail_produces(self, code: int, *, before: float | None = None) -> None:
        parked, self._waiting_produces = self._waiting_produces, deque()
        for waiting in parked:
            if before is None or waiting.deadline <= before:
                waiting.done(code)
            else:
                self._waiting_produces.append(waiting)

    def fail(self, code: int) -> None:
        """Nobody will be served here any more: answer all who wait."""
        self._fail_produces(code)
        for fetch in list(self._waiting_fetches):
            fetch.changed()
        for fed in self.feeds:
            fed.changed()

    def log_failed(self) -> None:
        """The log directory went offline: what is not durable by now never will be known to be."""
        self.fail(StorageError.code)

    # -- reading ---------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, committed_only: bool, at_least_one: bool) -> FileSlice | None:
        """Whole batches from the one that contains the offset, up to the mark; None if there are none."""
        end = self.last_stable_offset if committed_only else self.high_watermark
        log = self.log
        if offset >= end:
            if log.damaged_from is not None and offset >= log.damaged_from:
                # There is more, or was: it must not look as if the reader had to wait for it.
                raise StorageError(log.damage)
            if offset > log.end_offset:
                raise OffsetOutOfRange
            if offset >= log.start_offset:
                return None
        return log.read(offset, max_bytes=max_bytes, end=end, at_least_one=at_least_one)

    def add_waiting(self, fetch: WaitingFetch) -> None:
        self._waiting_fetches[fetch] = None

    def remove_waiting(self, fetch: WaitingFetch) -> None:
        self._waiting_fetches.pop(fetch, None)
