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
from typing import Any, Final, TypeVar

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.model.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    Refusal,
    UnknownTopicOrPartition,
)
from penstock.model.ids import TopicIdPartition
from penstock.ports.clock import Clock, Timer
from penstock.replication.partition import Partition
from penstock.scheduling.scheduler import Pace
from penstock.shares.acquiring import AcquireLimits
from penstock.shares.commands import ReadState, StateReply, WriteState
from penstock.shares.counters import ShareCounters
from penstock.shares.errors import FencedStateEpoch
from penstock.shares.flight import Flight
from penstock.shares.flight_ranges import StateWrite
from penstock.shares.letters import LETTERS_PER_BATCH, LetterWriter, letters_of
from penstock.shares.reading import AcquiredRecords, RecordReader
from penstock.shares.settings import ShareSettings
from penstock.shares.state_client import RETRIED, ShareStateClient
from penstock.shares.states import UNINITIALIZED, AcknowledgementBatch, SharePartitionKey

log = logging.getLogger(__name__)
T = TypeVar("T")

MARK_RETRY_S: Final = 0.05
LETTER_RETRY_S: Final = 1.0
LETTER_RETRY_S_MAX: Final = 30.0
_FENCED: Final = frozenset({FencedLeaderEpoch.code, FencedStateEpoch.code})
_ENDED: Final = _FENCED | {InvalidRequest.code}
"""Errors of writes that end the leader's state for the group; INVALID_REQUEST: the coordinator has no state."""
_DURATION: Final = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


Done = Callable[[Refusal | None], None]
"""Called after an acknowledgement is written, or with the error that prevented it."""


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
        self.topic_id_partition = TopicIdPartition(key.topic_id.bytes, key.partition)
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.flight: Flight | None = None
        """None while the state is being read."""
        self.waiters: dict[Callable[[], None], None] = {}
        """Called while there may be records, the first one first; all of them after other changes."""
        self._wakes_soon = self._wakes_everyone = False
        self.on_closed: Callable[[LedSharePartition], None] = lambda led: None
        self._clock = clock
        self._pace = pace
        self._state = state
        self._settings_of = settings_of
        self._letters = letters
        self._counters = counters or ShareCounters()
        self._letter_task: asyncio.Future[None] | None = None
        self._state_epoch = 0
        self.error: Refusal | None = None
        """Why the state could not be loaded: the answer to the fetches that waited for it."""
        self._is_closed = self._is_stopped = False
        self._timer: Timer | None = None
        self._timer_at = inf
        self._writes: set[asyncio.Future[Any]] = set()
        self._next_write: StateWrite | None = None
        """Has the acknowledgements of this iteration of the event loop."""
        self._next_done: list[Done] = []
        self._reader = RecordReader(partition)
        self._load_task = asyncio.ensure_future(self._load())
        partition.waiters.add_watcher(self)

    def is_current(self, partition: Partition | None) -> bool:
        return (
            partition is self.partition
            and self.partition.leadership is not None
            and self.partition.leader_epoch == self.leader_epoch
            and not self._is_closed
        )

    def settings_changed(self) -> None:
        if self.flight is not None:
            self.flight.settings = self._settings_of(self.key.group)

    def close(self) -> None:
        """Stop: another node leads, the topic is gone, or nobody uses the group here any more."""
        self._is_closed = True
        self.partition.waiters.remove_watcher(self)
        self._load_task.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._letter_task is not None:
            self._letter_task.cancel()
        self._wake()

    def stop(self) -> None:
        """Stop without finishing what is being written, because the node stops."""
        self._is_stopped = True
        self.waiters.clear()
        self.close()
        self._next_write, self._next_done = None, []
        for write in self._writes:
            write.cancel()

    # -- loading ---------------------------------------------------------------------------

    async def _load(self) -> None:
        try:
            reply = await self._read_state()
            if reply.error:
                raise client_error(reply)
            start = reply.start_offset
            if start == UNINITIALIZED:
                start = await self._initial_offset()
            flight = Flight.load(start, reply.ranges, settings=self._settings_of(self.key.group))
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

    async def _read_state(self) -> StateReply:
        """Return the written state, or the error that prevents that; wait for a coordinator."""
        while True:
            reply = await self._state.ask(ReadState(self.key, self.leader_epoch))
            if reply.error not in RETRIED:
                return reply
            # Fetches wait meanwhile: Java's share consumer throws if one is answered with COORDINATOR_NOT_AVAILABLE.
            log.info("cannot read the state of share partition %s yet: error code %d", self.key, reply.error)

    def _fail(self, error: Refusal) -> None:
        """Answer the fetches that wait with an error; the next one starts over."""
        self.error = error
        self.on_closed(self)

    async def _initial_offset(self) -> int:
        partition, reset = self.partition, self._settings_of(self.key.group).auto_offset_reset
        if reset == "earliest":
            return partition.log.start_offset
        end = await self._known_end()
        found = _DURATION.fullmatch(reset)
        if found is None:
            return end
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        age_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        timestamp = self._clock.wall_ms() - int(age_s * 1000)
        at = await self._pace.finish(partial(partition.log.lookup_time, timestamp))
        return end if at is None or at[1] < 0 else min(int(at[1]), end)

    async def _known_end(self) -> int:
        """Return the end offset for consumers, once a new leader knows the high watermark."""
        while True:
            try:
                return self.partition.end_for_consumers(committed_only=False)
            except OffsetNotAvailable:
                await self._state.pause(MARK_RETRY_S)

    def check(self) -> bool:
        """Return whether the state is loaded; raise if that failed."""
        if self.error is not None:
            raise self.error
        if self._is_closed:
            raise NotLeaderOrFollower
        return self.flight is not None

    # -- fetching --------------------------------------------------------------------------

    def acquire(self, member: str, limits: AcquireLimits, max_bytes: int) -> AcquiredRecords | None:
        """Acquire records for a member and return where they are; None if there are none."""
        flight = self.flight
        assert flight is not None, "the state is loaded"
        now = self._now()
        acquired = self._reader.acquire(flight, member, limits, max_bytes, now)
        if acquired is None:
            self._write_later(flight.unwritten())
        else:
            self._arm(now + flight.settings.lock_duration_ms)
        return acquired

    # -- acknowledging ---------------------------------------------------------------------

    def acknowledge(self, member: str, batches: Sequence[AcknowledgementBatch], done: Done) -> bool:
        """Acknowledge records; return whether the outcome is written, and `done` called after it.

        All acknowledgements of one iteration of the event loop are written together. Raises a Refusal.
        """
        flight = self.flight
        if not self.check() or flight is None:
            raise UnknownTopicOrPartition
        write = self._next_write or StateWrite(flight.start, 0, [])
        is_written = flight.add_acknowledgement(write, member, batches, self._now())
        self._counters.count_acknowledged(batches)
        if is_written:
            if self._next_write is None:
                self._next_write = write
                asyncio.get_running_loop().call_soon(self._write_next)
            self._next_done.append(done)
        return is_written

    def _write_next(self) -> None:
        """Write the acknowledgements of this iteration of the event loop."""
        write, done = self._next_write, self._next_done
        self._next_write, self._next_done = None, []
        flight = self.flight
        if write is None or flight is None:
            return
        write = flight.complete(write)
        if not self._state.write(self._command(write), partial(self._acknowledged, flight, write, done)):
            self._track(self._write_acknowledged(flight, write, done))

    async def _write_acknowledged(self, flight: Flight, write: StateWrite, done: list[Done]) -> None:
        """Write acknowledgements, and repeat that for a while if there is no coordinator."""
        try:
            reply = await self._state.ask(self._command(write))
        except Exception:
            log.exception("writing the acknowledgements of share partition %s failed", self.key)
            reply = StateReply(error=Refusal.code, message="the acknowledgement could not be written")
        self._finish(flight, write, done, reply)

    def _acknowledged(self, flight: Flight, write: StateWrite, done: list[Done], reply: StateReply) -> None:
        """Handle the coordinator's reply to the first attempt."""
        if self._is_stopped:
            return
        if reply.error in RETRIED:
            self._track(self._write_acknowledged(flight, write, done))
        else:
            self._finish(flight, write, done, reply)

    def _finish(self, flight: Flight, write: StateWrite, done: list[Done], reply: StateReply) -> None:
        error: Refusal | None = None
        try:
            if reply.error:
                error = client_error(reply)
                self._failed(flight, write, reply)
            else:
                self._committed(flight, write)
        except Exception:
            log.exception("finishing the acknowledgements of share partition %s failed", self.key)
            error = Refusal("the acknowledgement could not be written")
        for each in done:
            each(error)

    def release(self, member: str) -> "asyncio.Future[bool] | None":
        """Release everything that a member holds; return the write of it, if there is one."""
        if self.flight is None:
            return None
        write = self.flight.release(member)
        self._wake(everyone=True)
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

    def _write_later(self, write: StateWrite | None) -> "asyncio.Future[bool] | None":
        """Write a change that has taken effect already."""
        if write is None or self.flight is None:
            return None
        return self._track(self._write(self.flight, write))

    def _track(self, writing: "Coroutine[Any, Any, T]") -> "asyncio.Future[T]":
        """Run a write in a task that ends when the node stops."""
        task: asyncio.Future[T] = asyncio.ensure_future(writing)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return task

    async def _write(self, flight: Flight, write: StateWrite) -> bool:
        """Write a change and return whether that succeeded."""
        reply = await self._state.ask(self._command(write))
        if reply.error:
            log.info("cannot write the state of share partition %s: error code %d", self.key, reply.error)
            self._failed(flight, write, reply)
        else:
            self._committed(flight, write)
        return not reply.error

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
        if reply.error in _ENDED:
            # Another node leads the partition, or the group's offsets were altered or deleted.
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
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("writing dead-letter records of %s failed", self.key, exc_info=error)
            return
        # Other records may have been rejected since the task looked for the last time.
        self._start_letters()

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
            except Exception as error:
                is_expected = isinstance(error, Refusal)
                log.warning(
                    "cannot write dead-letter records of %s, they are kept: %s",
                    self.key,
                    error,
                    exc_info=None if is_expected else error,
                )
                self._counters.letter_failures += 1
                await self._state.pause(delay_s)
                delay_s = min(delay_s * 2, LETTER_RETRY_S_MAX)
                continue
            delay_s = LETTER_RETRY_S
            self._counters.letters += len(offsets)
            await self._archive(flight, offsets)

    async def _archive(self, flight: Flight, offsets: range) -> None:
        """Finish records whose dead-letter records are committed; if that cannot be written, repeat only this write."""
        delay_s = LETTER_RETRY_S
        while not self._is_closed and (write := flight.archive(offsets.start, offsets.stop - 1)) is not None:
            if await self._write(flight, write):
                return
            await self._state.pause(delay_s)
            delay_s = min(delay_s * 2, LETTER_RETRY_S_MAX)

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

    # -- waiting fetches -------------------------------------------------------------------

    def more_bytes(self, size: int) -> None:
        self._wake()

    def changed(self) -> None:
        self._wake(everyone=True)

    def _wake(self, *, everyone: bool = False) -> None:
        """Call the waiters in the next iteration of the event loop, as many as there are records or everyone."""
        self._wakes_everyone = self._wakes_everyone or everyone
        if self.waiters and not self._wakes_soon:
            self._wakes_soon = True
            asyncio.get_running_loop().call_soon(self._call_waiters)

    def _call_waiters(self) -> None:
        everyone = self._wakes_everyone
        self._wakes_soon = self._wakes_everyone = False
        for waiter in list(self.waiters):
            if not everyone and not self._may_have_news():
                return
            waiter()

    def _may_have_news(self) -> bool:
        """Return whether a fetch that waits may get a record or an error."""
        flight = self.flight
        if flight is None or self._is_closed or self.error is not None:
            return True
        offset, partition = flight.next_fetch_offset(self._now()), self.partition
        end = partition.last_stable_offset if flight.settings.is_read_committed else partition.high_watermark
        return offset is not None and offset < end


def client_error(reply: StateReply) -> Refusal:
    """Return the error for a client whose request needed the share coordinator."""
    if reply.error in RETRIED:
        return CoordinatorNotAvailable(reply.message)
    if reply.error in _FENCED:
        return NotLeaderOrFollower(reply.message)
    if reply.error == UnknownTopicOrPartition.code:
        return UnknownTopicOrPartition(reply.message)
    return Refusal(reply.message)
