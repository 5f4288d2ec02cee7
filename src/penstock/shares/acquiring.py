"""Acquisition: which records a fetch locks for its member.

Takes the record batches that were read from the log. Records are acquired in whole batches, at least `records_max`
if there are as many, or exactly as many if the limit is strict. A record that was delivered often
is delivered with fewer and fewer others, and alone in its last attempt, so that a poison
record does not exhaust the attempts of its neighbours. Pure.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from penstock.shares.flight import Flight
from penstock.shares.states import AcquiredRange, LogBatch, RecordState

_AVAILABLE = RecordState.AVAILABLE


class AcquireLimits(NamedTuple):
    records_max: int
    batch_size: int = 0
    """The preferred number of records in each returned range; 0 for no preference."""
    is_strict: bool = False
    """Acquire no more than `records_max` records, even if that splits a batch (KIP-1206)."""


class Acquisition:
    """One fetch of one member."""

    def __init__(self, flight: Flight, member: str, limits: AcquireLimits, now: float) -> None:
        self._flight = flight
        self._member = member
        self._limits = limits
        self._now = now
        limit = flight.settings.delivery_count_limit
        self._isolates_from = max(2, ceil(limit / 2))
        self._last_attempt = limit - 1 if limit > 2 else None
        self.acquired: list[AcquiredRange] = []
        self.count = 0
        self.is_done = limits.records_max <= 0
        self.end_offset = 0
        """The end of the last batch of which something was acquired."""

    def take(self, fetch_offset: int, batches: Sequence[LogBatch]) -> None:
        """Acquire from batches that were read from the fetch offset on."""
        flight = self._flight
        if batches and batches[0].first > fetch_offset:
            # The log has no records here any more: they were compacted away.
            flight.archive_available(fetch_offset, batches[0].first - 1)
        for batch in batches:
            if self.is_done:
                return
            before = self.count
            self._take_batch(batch, max(batch.first, fetch_offset))
            if self.count > before:
                self.end_offset = batch.last + 1
            if self.count >= self._limits.records_max:
                self.is_done = True

    def _take_batch(self, batch: LogBatch, position: int) -> None:
        flight = self._flight
        if not batch.is_readable:
            flight.archive_available(position, batch.last)
        position = max(position, flight.start)
        is_new_range = True
        while position <= batch.last and not self.is_done:
            if position >= flight.end:
                self._take_new(position, batch)
                return
            each = flight.ranges[flight.index_of(position)]
            last = min(each.last, batch.last)
            if each.state is _AVAILABLE and each.pending is None and each.available_at <= self._now:
                last = self._take_again(position, last, each.count, each.span, starts_batch=is_new_range)
            is_new_range = False
            position = last + 1

    def _take_new(self, position: int, batch: LogBatch) -> None:
        """Acquire records that were never delivered."""
        flight = self._flight
        if not flight.has_room:
            self.is_done = True
            return
        # There are no records between two batches of a compacted log.
        flight.skip(position - 1 if batch.is_readable else batch.last)
        if batch.is_readable:
            last = self._limited(position, batch.last)
            flight.lock_new(last, self._member, self._now, span=batch.last - position + 1)
            self._add(AcquiredRange(position, last, 1), starts_batch=True)

    def _take_again(self, first: int, last: int, count: int, span: int, *, starts_batch: bool) -> int:
        """Acquire records that were released; return the last offset that was considered."""
        if count == self._last_attempt:
            if self.count:
                self.is_done = True
                return last
            last = first
        elif count >= self._isolates_from:
            last = min(last, first + max(1, span >> (count - self._isolates_from + 1)) - 1)
        last = self._limited(first, last)
        self._flight.lock(first, last, self._member, self._now)
        self._add(AcquiredRange(first, last, count + 1), starts_batch=starts_batch)
        if count >= self._isolates_from:
            self.is_done = True
        return last

    def _limited(self, first: int, last: int) -> int:
        if self._limits.is_strict:
            return min(last, first + self._limits.records_max - self.count - 1)
        return last

    def _add(self, added: AcquiredRange, *, starts_batch: bool) -> None:
        self.count += added.last - added.first + 1
        if self._limits.is_strict and self.count >= self._limits.records_max:
            self.is_done = True
        if self.acquired:
            last = self.acquired[-1]
            is_full = starts_batch and 0 < self._limits.batch_size <= last.last - last.first + 1
            if last.last + 1 == added.first and last.delivery_count == added.delivery_count and not is_full:
                self.acquired[-1] = last._replace(last=added.last)
                return
        self.acquired.append(added)


def acquire_new(
    flight: Flight, member: str, limits: AcquireLimits, now: float, batch: LogBatch
) -> AcquiredRange | None:
    """Acquire records from the end offset on if one batch has as many as the fetch may have: most fetches do that."""
    first, count = flight.end, limits.records_max
    if not batch.first <= first <= batch.last - count + 1 or count <= 0:
        return None
    last = first + count - 1 if limits.is_strict else batch.last
    flight.lock_new(last, member, now, span=batch.last - first + 1)
    return AcquiredRange(first, last, 1)
