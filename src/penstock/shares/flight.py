"""The records of one partition that are in flight for one share group.

Holds the offsets between the start offset (every record before it is finished) and the end offset (no record from it
on was ever acquired) as sorted ranges without gaps. Times are milliseconds of a clock that never goes back.
Everything that must be written is returned as a `StateWrite`; a change that depends on the write is pending until
`commit` or `rollback`. acquiring.py decides what a fetch acquires. Pure; docs/internals/share-groups.md has the
states. Refuses: InvalidRecordState, InvalidRequest.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from operator import attrgetter
from typing import Final

from penstock.model.errors import InvalidRequest
from penstock.shares.errors import InvalidRecordState
from penstock.shares.flight_ranges import FlightRange, StateWrite, runs, sorted_ranges, sorted_spans
from penstock.shares.settings import ShareSettings
from penstock.shares.states import (
    FINAL_STATES,
    UNINITIALIZED,
    AcknowledgementBatch,
    AcknowledgeType,
    RecordState,
    StateRange,
)

SPAN_FACTOR: Final = 50
"""With `counts_unfinished`, the offsets between start and end may be this many times the limit of locks."""

_first = attrgetter("first")
_AVAILABLE, _ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
_ACCEPTED: Final = (AcknowledgeType.ACCEPT,)
_ACKNOWLEDGED, _ARCHIVING, _ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED


class Flight:
    def __init__(self, start_offset: int, *, settings: ShareSettings | None = None) -> None:
        self.settings = settings or ShareSettings()
        """Replaced when the configuration changes; used from the next call on."""
        self.start = start_offset
        self.end = start_offset
        self.ranges: list[FlightRange] = []
        self.finished = 0
        """The number of offsets in a final state at or after the start offset."""
        self.written_start = UNINITIALIZED
        """The start offset that was last written, or is being written."""
        self._unwritten: list[StateRange] = []
        self._pending_count = 0
        self._archiving_count = 0
        """The number of offsets in the state Archiving."""
        self.available_from = start_offset
        """No offset below it is available."""

    @staticmethod
    def load(start_offset: int, ranges: Iterable[StateRange], *, settings: ShareSettings | None = None) -> "Flight":
        """Restore written state. Offsets between the ranges were acquired, and their outcome is not known."""
        flight = Flight(start_offset, settings=settings)
        flight.written_start = start_offset
        for first, last, state, count in ranges:
            first = max(first, flight.end)
            if last < first:
                continue
            if first > flight.end:
                flight.ranges.append(FlightRange(flight.end, first - 1, _AVAILABLE, 0))
            restored = FlightRange(first, last, RecordState(state), count)
            if restored.state is _ACQUIRED:
                restored.state = restored.target = _AVAILABLE
            flight.ranges.append(restored)
            flight.end = last + 1
            if restored.state in FINAL_STATES:
                flight.finished += restored.size
            elif restored.state is _ARCHIVING:
                flight._archiving_count += restored.size
        flight._advance_start()
        return flight

    # -- reading -----------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Return how many records count towards the limit of locks."""
        span = self.end - self.start
        return span - self.finished if self.settings.counts_unfinished else span

    @property
    def has_room(self) -> bool:
        """Return whether records beyond the end offset may be acquired."""
        limit = self.settings.record_locks_max
        if self.settings.counts_unfinished and self.end - self.start >= SPAN_FACTOR * limit:
            return False
        return self.in_flight < limit

    def next_fetch_offset(self, now: float) -> int | None:
        """Return the offset of the first record that can be acquired, or None at the limit of locks."""
        is_exact = True
        start = self.index_of(self.available_from) if self.available_from < self.end else len(self.ranges)
        for index in range(start, len(self.ranges)):
            each = self.ranges[index]
            if each.state is _AVAILABLE and each.pending is None:
                if each.available_at <= now:
                    if is_exact:
                        self.available_from = each.first
                    return each.first
                if is_exact:
                    self.available_from, is_exact = each.first, False
        if is_exact:
            self.available_from = self.end
        return self.end if self.has_room else None

    def next_event(self) -> float:
        """Return when the next lock expires or the next delay ends; infinity if neither."""
        event = inf
        for each in self.ranges:
            if each.pending is None:
                if each.state is _ACQUIRED:
                    event = min(event, each.deadline)
                elif each.state is _AVAILABLE and each.available_at > -inf:
                    event = min(event, each.available_at)
        return event

    @property
    def has_archiving(self) -> bool:
        return self._archiving_count > 0

    def archiving(self) -> Iterator[FlightRange]:
        """Yield the ranges whose dead-letter records are to be written."""
        return (each for each in self.ranges if each.state is _ARCHIVING and each.pending is None)

    def index_of(self, offset: int) -> int:
        """Return the position of the range that contains the offset, or where it would be."""
        return max(0, bisect_right(self.ranges, offset, key=_first) - 1)

    # -- acknowledging -----------------------------------------------------------------------

    def acknowledge(self, member: str, batches: Sequence[AcknowledgementBatch], now: float) -> StateWrite | None:
        """Acknowledge records; return the write that completes it, or None if nothing has to be written.

        Raises without changing anything if one of the offsets cannot be acknowledged.
        """
        write = StateWrite(self.start, 0, [])
        return self.complete(write) if self.add_acknowledgement(write, member, batches, now) else None

    def add_acknowledgement(
        self, write: StateWrite, member: str, batches: Sequence[AcknowledgementBatch], now: float
    ) -> bool:
        """Acknowledge records with a write that may have others too; return whether it has to be written.

        Raises like `acknowledge`. The caller calls `complete` before it writes.
        """
        whole = self._whole_range(member, batches)
        if whole is not None:
            self._begin(whole, _ACKNOWLEDGED, write)
            return True
        self._check(member, batches)
        count = len(write.spans)
        for first, last, kind in runs(batches):
            if last < self.start:
                continue
            for each in self._cut(max(first, self.start), last):
                if kind == AcknowledgeType.RENEW:
                    each.deadline = now + self.settings.lock_duration_ms
                else:
                    self._begin(each, self._outcome(each, kind), write)
                    if kind == AcknowledgeType.RELEASE and each.target is _AVAILABLE:
                        delay = self.settings.retry_delay(each.count)
                        each.available_at = now + delay if delay else -inf
        return len(write.spans) > count

    def _whole_range(self, member: str, batches: Sequence[AcknowledgementBatch]) -> FlightRange | None:
        """Return the range that a member accepts if it accepts exactly one, which is what most requests do."""
        if len(batches) != 1 or batches[0].types != _ACCEPTED or not self.ranges:
            return None
        first, last, _ = batches[0]
        each = self.ranges[self.index_of(first)]
        is_held = each.state is _ACQUIRED and each.pending is None and each.member == member
        return each if is_held and each.first == first and each.last == last else None

    def _check(self, member: str, batches: Sequence[AcknowledgementBatch]) -> None:
        previous = -1
        for batch in batches:
            if batch.last >= self.start and batch.first <= previous:
                raise InvalidRecordState
            previous = batch.last
            if batch.last >= self.end:
                if not self.ranges:
                    raise InvalidRecordState
                raise InvalidRequest("Batch record not found. The last offset in request is past acquired records.")
            if AcknowledgeType.RENEW in batch.types and not self.settings.is_renew_enabled:
                raise InvalidRecordState("Renewing of acquisition locks is disabled for the group.")
            for each in self._overlapping(max(batch.first, self.start), batch.last):
                if each.state is not _ACQUIRED or each.pending is not None or each.member != member:
                    raise InvalidRecordState

    def _outcome(self, each: FlightRange, kind: int) -> RecordState:
        if kind == AcknowledgeType.ACCEPT:
            return _ACKNOWLEDGED
        if kind == AcknowledgeType.GAP:
            return _ARCHIVED
        if kind == AcknowledgeType.REJECT:
            return _ARCHIVING if self.settings.has_dead_letters else _ARCHIVED
        return self._after_release(each)

    def _after_release(self, each: FlightRange) -> RecordState:
        if each.count < self.settings.delivery_count_limit:
            return _AVAILABLE
        return _ARCHIVING if self.settings.has_dead_letters else _ARCHIVED

    def archive(self, first: int, last: int) -> StateWrite | None:
        """Finish records whose dead-letter records are written; return the write that completes it."""
        write = StateWrite(self.start, 0, [])
        for each in list(self._overlapping(max(first, self.start), last)):
            if each.state is _ARCHIVING and each.pending is None:
                for part in self._cut(max(each.first, first), min(each.last, last)):
                    self._begin(part, _ARCHIVED, write)
        return self.complete(write) if write.spans else None

    def _begin(self, each: FlightRange, target: RecordState, write: StateWrite) -> None:
        self._pending_count += not write.spans
        each.pending, each.target = write, target
        write.spans.append((each.first, each.last))
        write.ranges.append(StateRange(each.first, each.last, target, each.count))

    def complete(self, write: StateWrite) -> StateWrite:
        """Add what was not written before, and the start offset as it will be after the write."""
        write.ranges, write.spans = sorted_ranges(write.ranges), sorted_spans(write.spans)
        start, passed = self.start, 0
        if write.start_offset < start:
            # The records below are gone since the acknowledgement, and no longer count as finished.
            write.ranges = [each._replace(first=max(each.first, start)) for each in write.ranges if each.last >= start]
        finished = sum(span.last - span.first + 1 for span in write.ranges if span.state in FINAL_STATES)
        for each in self.ranges:
            state = each.target if each.pending is write else each.state
            if state not in FINAL_STATES:
                break
            start, passed = each.last + 1, passed + each.size
        self._take_unwritten(write, start)
        write.start_offset = self.written_start = max(start, self.written_start)
        write.complete_count = self.finished + finished - passed
        return write

    def _take_unwritten(self, write: StateWrite, start: int) -> None:
        kept = sorted_ranges([each for each in self._unwritten if each.last >= start])
        self._unwritten = []
        write.ranges[:0] = kept
        write.kept_count = len(kept)

    def commit(self, write: StateWrite) -> bool:
        """Apply a write that succeeded; return whether records may have become available."""
        self._pending_count -= bool(write.spans)
        is_available = False
        for first, last in write.spans:
            for each in self._overlapping(first, last):
                if each.pending is write:
                    each.pending = None
                    self._enter(each, each.target)
                    is_available = is_available or each.target is _AVAILABLE
        self._join(write.spans)
        self._advance_start()
        return is_available or self.has_room

    def rollback(self, write: StateWrite) -> None:
        """Undo the pending part of a write that failed, and keep the rest of it for the next write."""
        self._pending_count -= bool(write.spans)
        for first, last in write.spans:
            for each in self._overlapping(first, last):
                if each.pending is write:
                    each.pending, each.target = None, each.state
                    each.available_at = -inf
        self._unwritten += write.ranges[: write.kept_count]
        # Another write may be on its way with a later start offset, which is harmless: it is written again.
        self.written_start = min(self.written_start, self.start - 1)

    # -- locks and sessions ------------------------------------------------------------------

    def expire(self, now: float) -> StateWrite | None:
        """Release the records whose locks have expired, and end delays; return what to write, if anything."""
        expired = []
        for each in self.ranges:
            if each.pending is None:
                if each.state is _ACQUIRED and each.deadline <= now:
                    expired.append(each)
                elif each.state is _AVAILABLE and each.available_at <= now:
                    each.available_at = -inf
        return self._release(expired)

    def release(self, member: str) -> StateWrite | None:
        """Release everything that a member holds; return what to write, if anything."""
        held = [each for each in self.ranges if each.state is _ACQUIRED and each.member == member]
        for each in held:
            # If the acknowledgement that is being written fails, the record is released after all.
            each.deadline = -inf
        return self._release([each for each in held if each.pending is None])

    def _release(self, released: list[FlightRange]) -> StateWrite | None:
        """Release ranges immediately: unlike an acknowledgement this is kept even if the write fails."""
        for each in released:
            self._enter(each, self._after_release(each))
            self._unwritten.append(StateRange(each.first, each.last, each.state, each.count))
        if not released:
            return None
        self._join([(each.first, each.last) for each in released])
        self._advance_start()
        return self.unwritten(even_if_pending=True)

    def unwritten(self, *, even_if_pending: bool = False) -> StateWrite | None:
        """Return a write for the state that has not been written, if there is any.

        Without `even_if_pending` it is left to the next change while one is pending.
        """
        if self._pending_count and not even_if_pending:
            return None
        if self.start <= self.written_start and not self._unwritten:
            return None
        write = StateWrite(max(self.start, self.written_start), self.finished, [])
        self._take_unwritten(write, self.start)
        self.written_start = write.start_offset
        return write

    # -- the log -----------------------------------------------------------------------------

    def trim(self, log_start: int) -> None:
        """Drop everything below the log start offset: the records are gone."""
        if log_start <= self.start:
            return
        kept_from = self._split(log_start)
        for each in self.ranges[:kept_from]:
            self.finished -= each.size * (each.state in FINAL_STATES)
            self._archiving_count -= each.size * (each.state is _ARCHIVING)
        del self.ranges[:kept_from]
        self.start = log_start
        self.end = max(self.end, log_start)
        self.available_from = max(self.available_from, log_start)
        self._advance_start()

    def archive_available(self, first: int, last: int) -> None:
        """Finish available records that the log no longer has, or that the group may not read."""
        for each in list(self._overlapping(max(first, self.start), min(last, self.end - 1))):
            if each.state is _AVAILABLE and each.pending is None:
                for part in self._cut(max(each.first, first), min(each.last, last)):
                    self._enter(part, _ARCHIVED)
        self._advance_start()

    def skip(self, last: int) -> None:
        """Pass the offsets from the end offset up to `last`: the group has nothing to read there."""
        if last >= self.end:
            self.ranges.append(FlightRange(self.end, last, _ARCHIVED, 0))
            self.finished += last + 1 - self.end
            self.end = last + 1
            self._advance_start()

    def lock_new(self, last: int, member: str, now: float, *, span: int) -> None:
        """Acquire the offsets from the end offset up to `last`."""
        added = FlightRange(self.end, last, _ACQUIRED, 1, span=span)
        self.ranges.append(added)
        if self.available_from == self.end:
            self.available_from = last + 1
        self.end = last + 1
        added.member = member
        added.deadline = now + self.settings.lock_duration_ms

    def lock(self, first: int, last: int, member: str, now: float) -> None:
        """Acquire a part of one available range."""
        (each,) = self._cut(first, last)
        assert each.state is _AVAILABLE and each.pending is None, "only available records can be acquired"
        each.count += 1
        each.state = each.target = _ACQUIRED
        each.member = member
        each.deadline = now + self.settings.lock_duration_ms
        each.available_at = -inf

    # -- ranges ------------------------------------------------------------------------------

    def _enter(self, each: FlightRange, state: RecordState) -> None:
        was_final = each.state in FINAL_STATES
        self._archiving_count += each.size * ((state is _ARCHIVING) - (each.state is _ARCHIVING))
        each.state = each.target = state
        each.member, each.deadline = None, inf
        if state in FINAL_STATES and not was_final:
            self.finished += each.size
        if state is _AVAILABLE:
            self.available_from = min(self.available_from, each.first)

    def _overlapping(self, first: int, last: int) -> Iterator[FlightRange]:
        for index in range(self.index_of(first), len(self.ranges)):
            each = self.ranges[index]
            if each.first > last:
                return
            if each.last >= first:
                yield each

    def _split(self, offset: int) -> int:
        """Let a range begin at the offset, if one contains it; return the position of the first range from there on."""
        ranges, index = self.ranges, self.index_of(offset)
        if index == len(ranges) or ranges[index].first >= offset:
            return index
        whole = ranges[index]
        if whole.last >= offset:
            ranges[index : index + 1] = [whole.part(whole.first, offset - 1), whole.part(offset, whole.last)]
        return index + 1

    def _cut(self, first: int, last: int) -> list[FlightRange]:
        """Return the ranges between two offsets, after splitting those that reach beyond."""
        begin = self._split(first)
        return self.ranges[begin : self._split(last + 1)]

    def _join(self, spans: Iterable[tuple[int, int]]) -> None:
        """Join like neighbours around the offsets that have changed."""
        ranges = self.ranges
        for first, last in spans:
            index = max(1, self.index_of(first))
            while index < len(ranges) and ranges[index].first <= last + 1:
                before, each = ranges[index - 1], ranges[index]
                if before.is_like(each):
                    before.last = each.last
                    del ranges[index]
                else:
                    index += 1

    def _advance_start(self) -> None:
        """Move the start offset past finished records."""
        count = 0
        for each in self.ranges:
            if each.state not in FINAL_STATES or each.pending is not None:
                break
            self.finished -= each.size
            self.start = each.last + 1
            count += 1
        if count:
            del self.ranges[:count]
            self.available_from = max(self.available_from, self.start)

    def validate(self) -> None:
        """Check the invariants; for tests and the simulator."""
        position = self.start
        for each in self.ranges:
            assert each.first == position <= each.last, "ranges follow each other without gaps"
            assert (each.state is _ACQUIRED) == (each.member is not None), "acquired records have a holder"
            position = each.last + 1
        assert position == self.end
        assert self.finished == sum(each.size for each in self.ranges if each.state in FINAL_STATES)
        assert self._archiving_count == sum(each.size for each in self.ranges if each.state is _ARCHIVING)
        assert not self.ranges or self.ranges[0].state not in FINAL_STATES, "the start offset is not finished"
        first = next((r.first for r in self.ranges if r.state is _AVAILABLE and r.pending is None), self.end)
        assert self.available_from <= first, "available records are found"
