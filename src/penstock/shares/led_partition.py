"""One share partition that this node leads, in one leader epoch: its records in flight, its locks and its writes.

Connects `Flight` with the log, the clock and the share coordinator. Fetches that find nothing wait in `waiters`.
Refuses: the errors of flight.py, and those of the share coordinator as clients know them: CoordinatorNotAvailable,
NotLeaderOrFollower when the leader is fenced.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.model.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    Refusal,
    UnknownTopicOrPartition,
)
from penstock.ports.clock import Clock, Timer
from penstock.ports.network import FileSlice
from penstock.replication.partition import Partition
from penstock.scheduling.scheduler import Pace
from penstock.shares.acquiring import AcquireLimits, Acquisition
from penstock.shares.commands import ReadState, StateReply, WriteState
from penstock.shares.counters import ShareCounters
from penstock.shares.errors import FencedStateEpoch
from penstock.shares.flight import Flight, StateWrite
from penstock.shares.letters import LETTERS_PER_BATCH, LetterWriter, letters_of
from penstock.shares.log_batches import log_batches
from penstock.shares.settings import ShareSettings
from penstock.shares.state_client import RETRIED, ShareStateClient
from penstock.shares.states import UNINITIALIZED, AcknowledgementBatch, AcquiredRange, SharePartitionKey

log = logging.getLogger(__name__)

READ_ROUNDS_MAX: Final = 20
"""How many reads a fetch may need to find a record: aborted transactions and compacted offsets are passed."""
LETTER_RETRY_S: Final = 1.0
LETTER_RETRY_S_MAX: Final = 30.0
_FENCED: Final = frozenset({FencedLeaderEpoch.code, FencedStateEpoch.code})
_DURATION: Final = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


class AcquiredRecords(NamedTuple):
    records: FileSlice
    ranges: Sequence[AcquiredRange]
    record_count: int


class LedSharePartition:
    def __init__(
        self,
        key: SharePartitionKey,
        partition: Partition,
        *,
        clock: Clock,
        pace: Pace,
        state: ShareStateClient,
        settings_of: Callable[[str], ShareSettings],
        letters: LetterWriter | None = None,
        counters: ShareCounters | None = None,
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.flight: Flight | None = None
        """None while the state is being read."""
        self.waiters: dict[Callable[[], None], None] = {}
        """Called when records may have become available, or the state was read or is gone."""
        self.on_closed: Callable[[LedSharePartition], None] = lambda led: None
        self._clock = clock
        self._pace = pace
        self._state = state
        self._settings_of = settings_of
        self._letters = letters
        self._counters = counters or ShareCounters()
        self._letter_task: asyncio.Future[None] | None = None
        self._state_epoch = 0
        self._error: Refusal | None = None
        self._is_closed = False
        self._timer: Timer | None = None
        self._timer_at = inf
        self._writes: set[asyncio.Future[None]] = set()
        self._load_task = asyncio.ensure_future(self._load())

    def is_current(self, partition: Partition) -> bool:
        return (
            partition is self.partition
            and partition.is_leader
            and partition.leader_epoch == self.leader_epoch
            and not self._is_closed
        )

    def settings_changed(self) -> None:
        if self.flight is not None:
            self.flight.settings = self._settings_of(self.key.group)

    def close(self) -> None:
        """Stop: another node leads, the topic is gone, or nobody uses the group here any more."""
        self._is_closed = True
        self._load_task.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._letter_task is not None:
            self._letter_task.cancel()
        self._wake()

    def stop(self) -> None:
        """Stop without finishing what is being written, because the node stops."""
        self.close()
        for write in self._writes:
            write.cancel()

    # -- loading ---------------------------------------------------------------------------

    async def _load(self) -> None:
        try:
            reply = await self._state.ask(ReadState(self.key, self.leader_epoch))
            if reply.error:
                raise client_error(reply)
            settings = self._settings_of(self.key.group)
            start = reply.start_offset
            if start == UNINITIALIZED:
                start = await self._initial_offset(settings)
            flight = Flight.load(start, reply.ranges, settings=settings)
            if reply.start_offset == UNINITIALIZED:
                flight.written_start = UNINITIALIZED
            self._state_epoch = reply.state_epoch
            flight.trim(self.partition.log.start_offset)
            self.flight = flight
            self._write_later(flight.unwritten())
            self._start_letters()
        except Refusal as refusal:
            self._fail(refusal)
        except Exception:
            log.exception("cannot load the share partition %s", self.key)
            self._fail(Refusal("the share partition cannot be loaded"))
        self._wake()

    def _fail(self, error: Refusal) -> None:
        """Answer the fetches that wait with an error; the next one starts over."""
        self._error = error
        self.on_closed(self)

    async def _initial_offset(self, settings: ShareSettings) -> int:
        partition, reset = self.partition, settings.auto_offset_reset
        if reset == "earliest":
            return partition.log.start_offset
        end = partition.end_for_consumers(committed_only=False)
        found = _DURATION.fullmatch(reset)
        if found is None:
            return end
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        age_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        timestamp = self._clock.wall_ms() - int(age_s * 1000)
        at = await self._pace.finish(partial(partition.log.lookup_time, timestamp))
        return end if at is None or at[1] < 0 else min(int(at[1]), end)

    def check(self) -> bool:
        """Return whether the state is loaded; raise if that failed."""
        if self._error is not None:
            raise self._error
        if self._is_closed:
            raise NotLeaderOrFollower
        return self.flight is not None

    # -- fetching --------------------------------------------------------------------------

    def acquire(self, member: str, limits: AcquireLimits, max_bytes: int) -> AcquiredRecords | None:
        """Acquire records for a member and return where they are; None if there are none."""
        flight = self.flight
        assert flight is not None, "the state is loaded"
        if not self.partition.mark_is_known:
            raise OffsetNotAvailable
        now = self._now()
        flight.trim(self.partition.log.start_offset)
        acquisition = Acquisition(flight, member, limits, now)
        records = None
        for _ in range(READ_ROUNDS_MAX):
            offset = flight.next_fetch_offset(now)
            if offset is None:
                break
            before = flight.start, flight.end, flight.finished
            records = self._read(flight, acquisition, offset, max_bytes)
            if records is not None or (flight.start, flight.end, flight.finished) == before:
                break
        if not acquisition.count:
            self._write_later(flight.unwritten())
            return None
        assert records is not None
        self._arm(now + flight.settings.lock_duration_ms)
        return AcquiredRecords(records, acquisition.acquired, acquisition.count)

    def _read(self, flight: Flight, acquisition: Acquisition, offset: int, max_bytes: int) -> FileSlice | None:
        """Read from an offset and acquire; return the batches that contain what was acquired."""
        partition, committed_only = self.partition, flight.settings.is_read_committed
        try:
            found = partition.read(offset, max_bytes=max_bytes, committed_only=committed_only, at_least_one=True)
        except OffsetOutOfRange:
            return None
        if found is None:
            end = partition.last_stable_offset if committed_only else partition.high_watermark
            if offset < min(end, flight.end):
                flight.archive_available(offset, min(end, flight.end) - 1)
            return None
        aborted = partition.log.aborted_in(offset, found) if committed_only else ()
        first = last = -1
        for batch, position, size in log_batches(found, aborted):
            before = acquisition.count
            acquisition.take(offset, (batch,))
            offset = max(offset, batch.last + 1)
            if acquisition.count > before:
                first = position if first < 0 else first
                last = position + size
            elif first >= 0:
                break
            if acquisition.is_done:
                break
        return None if first < 0 else FileSlice(found.file, first, last - first, found.owner)

    # -- acknowledging ---------------------------------------------------------------------

    def acknowledge(self, member: str, batches: Sequence[AcknowledgementBatch]) -> Coroutine[Any, Any, None] | None:
        """Acknowledge records; return the write of the outcome, which must be awaited, or None if there is none.

        Raises a Refusal, and so does the write.
        """
        flight = self.flight
        if not self.check() or flight is None:
            raise UnknownTopicOrPartition
        write = flight.acknowledge(member, batches, self._now())
        self._counters.count_acknowledged(batches)
        return None if write is None else self._acknowledged(flight, write)

    async def _acknowledged(self, flight: Flight, write: StateWrite) -> None:
        reply = await self._state.ask(self._command(write))
        if reply.error:
            self._failed(flight, write, reply)
            raise client_error(reply)
        self._committed(flight, write)

    def release(self, member: str) -> "asyncio.Future[None] | None":
        """Release everything that a member holds; return the write of it, if there is one."""
        if self.flight is None:
            return None
        write = self.flight.release(member)
        self._wake()
        return self._write_later(write)

    def _command(self, write: StateWrite) -> WriteState:
        return WriteState(
            self.key,
            self._state_epoch,
            self.leader_epoch,
            write.start_offset,
            tuple(write.ranges),
            write.complete_count,
        )

    def _write_later(self, write: StateWrite | None) -> "asyncio.Future[None] | None":
        """Write a change that has taken effect already."""
        if write is None or self.flight is None:
            return None
        task: asyncio.Future[None] = asyncio.ensure_future(self._write(self.flight, write))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return task

    async def _write(self, flight: Flight, write: StateWrite) -> None:
        reply = await self._state.ask(self._command(write))
        if reply.error:
            log.info("cannot write the state of share partition %s: error code %d", self.key, reply.error)
            self._failed(flight, write, reply)
        else:
            self._committed(flight, write)

    def _committed(self, flight: Flight, write: StateWrite) -> None:
        has_more = flight.commit(write)
        self._start_letters()
        if flight.settings.retry_delay_ms:
            self._arm(flight.next_event())
        self._write_later(flight.unwritten())
        if has_more:
            self._wake()

    def _failed(self, flight: Flight, write: StateWrite, reply: StateReply) -> None:
        flight.rollback(write)
        self._arm(flight.next_event())
        if reply.error in _FENCED:
            # Another node leads the partition, or the group's offsets were altered.
            self.on_closed(self)

    # -- dead letters ----------------------------------------------------------------------

    def _start_letters(self) -> None:
        """Write the dead-letter records of records that wait for them, unless that is being done."""
        if self.flight is None or self._letters is None or self._letter_task is not None or self._is_closed:
            return
        if self.flight.has_archiving:
            self._letter_task = asyncio.ensure_future(self._write_letters(self.flight, self._letters))
            self._letter_task.add_done_callback(self._letters_written)

    async def letters_written(self) -> None:
        """Wait until no record waits for its dead-letter record."""
        while self._letter_task is not None:
            await asyncio.wait((self._letter_task,))

    def _letters_written(self, task: "asyncio.Future[None]") -> None:
        self._letter_task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("writing dead-letter records of %s failed", self.key, exc_info=error)

    async def _write_letters(self, flight: Flight, letters: LetterWriter) -> None:
        delay_s = LETTER_RETRY_S
        while (each := next(flight.archiving(), None)) is not None and not self._is_closed:
            settings = flight.settings
            offsets = range(each.first, min(each.last, each.first + LETTERS_PER_BATCH - 1) + 1)
            try:
                if not settings.dead_letter_topic:
                    # The group's dead-letter topic was removed while records waited for it.
                    raise Refusal("the group has no dead-letter topic")
                records = letters_of(self.key, self.partition, each, offsets, settings, now_ms=self._clock.wall_ms())
                await letters.write(settings.dead_letter_topic, self.key.partition, records)
            except Refusal as refusal:
                log.warning("cannot write dead-letter records of %s, they are kept: %s", self.key, refusal)
                self._counters.letter_failures += 1
                await self._state.pause(delay_s)
                delay_s = min(delay_s * 2, LETTER_RETRY_S_MAX)
                continue
            delay_s = LETTER_RETRY_S
            self._counters.letters += len(offsets)
            write = flight.archive(offsets.start, offsets.stop - 1)
            if write is not None:
                await self._write(flight, write)

    # -- time ------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.monotonic() * 1000

    def _arm(self, at: float) -> None:
        if at == inf or self._is_closed or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        delay_s = max(0.0, (at - self._now()) / 1000)
        self._timer = self._clock.call_later(delay_s, self._fired)

    def _fired(self) -> None:
        self._timer = None
        flight = self.flight
        if self._is_closed or flight is None:
            return
        # A timer may fire a little early.
        now = max(self._now(), self._timer_at)
        self._counters.lock_timeouts += sum(
            each.size
            for each in flight.ranges
            if each.member is not None and each.pending is None and each.deadline <= now
        )
        self._write_later(flight.expire(now))
        self._arm(max(flight.next_event(), now + 1))
        self._wake()

    def _wake(self) -> None:
        for wake in list(self.waiters):
            wake()


def client_error(reply: StateReply) -> Refusal:
    """Return the error for a client whose request needed the share coordinator."""
    if reply.error in RETRIED:
        return CoordinatorNotAvailable(reply.message)
    if reply.error in _FENCED:
        return NotLeaderOrFollower(reply.message)
    if reply.error == UnknownTopicOrPartition.code:
        return UnknownTopicOrPartition(reply.message)
    return Refusal(reply.message)
