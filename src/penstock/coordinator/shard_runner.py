"""The driver of one shard: loads it from its log, runs its commands in order, and parks their replies.

Appends the records of each command and sends a reply when everything that it may depend on is
committed. Commands that may share a batch are written with the others of the same iteration of the
event loop (shared.py). Writes transaction markers too, in log order. Decides nothing.
Refuses: CoordinatorLoadInProgress while loading, NotCoordinator after its log failed,
CoordinatorNotAvailable when a record cannot be written or is not committed in time.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.coordinator.decision import (
    NO_TICKET,
    Expired,
    InTransaction,
    Performer,
    ShardDecision,
    SharedDecision,
    Ticket,
    TransactionEnd,
)
from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from penstock.coordinator.shard import PositionedShard, Shard, ShardLog, StagingShard
from penstock.coordinator.shared import RECORD_OVERHEAD, Done, Entries, SharedEntry, SharedTurn, answer, refuse
from penstock.coordinator.timers import Timers
from penstock.model.errors import (
    NO_ERROR,
    Corruption,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordListTooLarge,
    Refusal,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
)
from penstock.ports.clock import Clock
from penstock.storage.marker import read_marker
from penstock.storage.verification_guard import VerificationGuard
from penstock.wire.batch import BatchHeader
from penstock.wire.records import Record, decode_batch, encode_batch, encode_plain_batch

log = logging.getLogger(__name__)

R = TypeVar("R")

BATCHES_PER_STEP = 100
"""The number of batches that a load replays before it yields to the event loop."""
RETRY_MS = 1_000
"""The delay before a timer whose records could not be written fires again."""
SPLIT_SIZE = 512 * 1024
"""A decision that need not be atomic is written in batches of about this size."""
_BASE_SEQUENCE = 0
"""Written by Kafka into transactional batches of a coordinator; never checked."""


class _Phase(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


# Builds a named tuple from all its fields in half the time.
_entry: Callable[[tuple[list[Any], list[tuple[bytes, bytes | None]], Done, Any]], SharedEntry[Any]] = partial(
    tuple.__new__, SharedEntry
)
# Looking a member up in its enum takes longer than the comparison.
_ACTIVE = _Phase.ACTIVE


class _Parked(NamedTuple):
    """Replies and actions, and the end offset that must be committed before they are released."""

    end: int
    replies: list[tuple[Ticket, Any]]
    actions: list[Any]
    shared: Entries[Any]


class ShardRunner(Generic[R]):
    def __init__(
        self,
        index: int,
        make_shard: Callable[[], Shard[R]],
        shard_log: ShardLog,
        clock: Clock,
        performer: Performer | None = None,
        turn: SharedTurn | None = None,
    ) -> None:
        self._index = index
        self._make_shard = make_shard
        self._log = shard_log
        self._clock = clock
        self._performer = performer
        self._timers = Timers(clock, self._timer_fired)
        self._last_ticket = NO_TICKET
        self._waiting: dict[Ticket, asyncio.Future[Any]] = {}
        self._parked: deque[_Parked] = deque()
        """Entries that wait for the high watermark, by ascending end offset."""
        self._end = 0
        self._turn = turn or SharedTurn()
        self._shared: Entries[R] = []
        """Decided but not yet in the log. Written before the next other decision."""
        self._shared_size = 0
        self._start_loading()

    # -- commands --------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return self._phase is _ACTIVE

    def submit(self, command: Any) -> "asyncio.Future[Any]":
        return self._answered(lambda ticket: self._run(command, ticket))

    def end_transaction(self, end: TransactionEnd) -> "asyncio.Future[None]":
        return self._answered(lambda ticket: self._write_marker(end, ticket))

    def begin_verification(self, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        self._check_active()
        return self._log.begin_verification(producer_id, producer_epoch)

    def _check_active(self) -> None:
        if self._phase is _Phase.LOADING:
            raise CoordinatorLoadInProgress
        if self._phase is _Phase.FAILED:
            raise NotCoordinator

    def share(self, command: Any, done: Done) -> bool:
        """Decide now and write later with others; return False if the command must be submitted instead."""
        if self._phase is not _ACTIVE:
            self._check_active()
        try:
            decided = self.shard.decide(command, ticket=NO_TICKET, now=self._clock.wall_ms())
        except Refusal:
            raise
        except Exception as error:
            log.exception("shard %d failed to decide on %r", self._index, command)
            raise Refusal(f"{type(command).__name__} failed") from error
        if type(decided) is not SharedDecision:
            return False
        records, reply, timer = decided
        encoded, size, encode = [], 0, self.shard.encode
        for record in records:
            key, value = pair = encode(record)
            encoded.append(pair)
            size += len(key) + len(value or b"") + RECORD_OVERHEAD
        if self._shared and self._shared_size + size > SPLIT_SIZE:
            self.write_shared()
            self._check_active()
        has_joined = bool(self._shared)
        self._shared.append(_entry((records, encoded, done, reply)))
        self._shared_size += size
        if timer is not None:
            self._timers.set(*timer)
        if self._turn.join(None if has_joined else self.write_shared):
            self.write_shared()
        return True

    def _answered(self, run: Callable[[Ticket], Exception | None]) -> "asyncio.Future[Any]":
        self._check_active()
        if self._shared:
            self.write_shared()
            self._check_active()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        ticket = self._last_ticket = Ticket(self._last_ticket + 1)
        self._waiting[ticket] = future
        error = run(ticket)
        if error is not None:
            self._refuse(ticket, error)
        return future

    def _timer_fired(self, timer: Hashable) -> None:
        self.write_shared()
        if not self.is_active:
            return
        if self._run(Expired(timer), NO_TICKET) is not None and self.is_active:
            # Nothing else would run the expired timer again.
            self._timers.set(timer, RETRY_MS)

    def _run(self, command: Any, ticket: Ticket) -> Exception | None:
        """Decide and carry out. On failure nothing has changed, and the error is returned."""
        now = self._clock.wall_ms()
        try:
            decided = self.shard.decide(command, ticket=ticket, now=now)
            decision = decided.alone(ticket) if isinstance(decided, SharedDecision) else decided
            self._append(decision, now)
        except Refusal as refusal:
            return _for_client(refusal)
        except Exception as error:
            log.exception("shard %d failed to decide on %r", self._index, command)
            return error
        return self._follow_log(lambda: self._carry_out(decision))

    def _write_marker(self, end: TransactionEnd, ticket: Ticket) -> Exception | None:
        """Append a marker and apply it to the shard. On failure the error is returned."""
        try:
            self._written(self._log.append_marker(end))
        except Refusal as refusal:
            return _for_client(refusal)
        return self._follow_log(lambda: self._carry_out_marker(end, ticket))

    def _follow_log(self, carry_out: Callable[[], None]) -> Exception | None:
        try:
            carry_out()
        except Exception as error:
            # The state may differ from the log, which is authoritative.
            log.exception("shard %d failed to apply its records and is reloaded", self._index)
            self._reload()
            return error
        return None

    # -- writing ---------------------------------------------------------------------------

    def write_shared(self) -> None:
        """Write the shared entries in one batch."""
        if not self._shared:
            return
        entries, self._shared, self._shared_size = self._shared, [], 0
        self._write_together(entries)

    def _write_together(self, entries: Entries[R]) -> None:
        encoded = [pair for entry in entries for pair in entry.encoded]
        if self._positioned is not None:
            self._positioned.position = self._end
        try:
            if encoded:
                self._written(self._log.append(encode_plain_batch(encoded, timestamp=self._clock.wall_ms())))
        except (MessageTooLarge, RecordListTooLarge) as refusal:
            # An entry that is too large must not make the others fail.
            for entry in entries if len(entries) > 1 else ():
                if self.is_active:
                    self._write_together([entry])
                else:
                    refuse([entry], NotCoordinator())
            if len(entries) == 1:
                refuse(entries, _for_client(refusal))
        except Refusal as refusal:
            refuse(entries, _for_client(refusal))
        else:
            if self._follow_log(lambda: self._carry_out_shared(entries)) is not None:
                refuse(entries, NotCoordinator())

    def _carry_out_shared(self, entries: Entries[R]) -> None:
        apply = self.shard.apply
        for entry in entries:
            for record in entry.records:
                apply(record)
        self._park([], [], entries)

    def _append(self, decision: ShardDecision[R], now: int) -> None:
        written = False
        if self._positioned is not None:
            self._positioned.position = self._end
        for records in self._batches(decision, now):
            try:
                end = self._log.append(_batch(records, decision.transaction), decision.transaction)
            except Refusal:
                if written:
                    self._reload()
                raise
            written = True
            self._written(end)

    def _written(self, end: int) -> None:
        self._end = end
        if self._log.high_watermark < end:
            self._wait_for(end)

    def _batches(self, decision: ShardDecision[R], now: int) -> Iterator[list[Record]]:
        batch: list[Record] = []
        size = 0
        for record in decision.records:
            key, value = self.shard.encode(record)
            batch.append(Record(timestamp=now, key=key, value=value))
            size += len(key) + len(value or b"") + RECORD_OVERHEAD
            if size >= SPLIT_SIZE and not decision.is_atomic:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _carry_out(self, decision: ShardDecision[R]) -> None:
        self.shard.adopt(decision.drafts)
        if decision.transaction is None:
            for record in decision.records:
                self.shard.apply(record)
        else:
            assert self._staging is not None, "the shard does not support staged records"
            for record in decision.records:
                self._staging.stage(record, decision.transaction.producer_id)
        for timer, delay_ms in decision.timers.items():
            if delay_ms is None:
                self._timers.cancel(timer)
            else:
                self._timers.set(timer, delay_ms)
        if decision.replies or decision.actions:
            self._park(decision.replies, decision.actions)

    def _carry_out_marker(self, end: TransactionEnd, ticket: Ticket) -> None:
        if self._staging is not None:
            self._staging.end_transaction(end.producer_id, is_commit=end.is_commit)
        self._park([(ticket, None)], [])

    def _park(self, replies: list[tuple[Ticket, Any]], actions: list[Any], shared: Entries[R] | None = None) -> None:
        if self._log.high_watermark >= self._end:
            self._release(replies, actions)
            answer(shared or [])
        else:
            self._parked.append(_Parked(self._end, replies, actions, shared or []))

    # -- answering -------------------------------------------------------------------------

    def _settled(self, end: int, code: int) -> None:
        """Handle the end of a wait: everything below `end` is committed, or was not in time."""
        if code not in _RETRIABLE:
            self._fail(code)
            return
        held: list[_Parked] = []
        while self._parked and self._parked[0].end <= end:
            parked = self._parked.popleft()
            if code == NO_ERROR:
                self._release(parked.replies, parked.actions)
                answer(parked.shared)
                continue
            for ticket, _ in parked.replies:
                self._refuse(ticket, CoordinatorNotAvailable())
            refuse(parked.shared, CoordinatorNotAvailable())
            if parked.actions:
                held.append(_Parked(parked.end, [], parked.actions, []))
        # Clients retry their requests, but nothing would retry these actions.
        self._parked.extendleft(reversed(held))
        if code != NO_ERROR and end == self._end:
            # The records are in the log and may still be committed: replies that depend on them park until then.
            self._wait_for(end)

    def _wait_for(self, end: int) -> None:
        if self._log.high_watermark >= end:
            self._settled(end, NO_ERROR)
        else:
            self._log.when_committed(end, lambda code: self._settled(end, code))

    def _release(self, replies: list[tuple[Ticket, Any]], actions: list[Any]) -> None:
        self._send(replies)
        for action in actions:
            assert self._performer is not None, "a shard with actions needs a performer"
            self._performer.perform(self._index, action)

    def _send(self, replies: list[tuple[Ticket, Any]]) -> None:
        for ticket, reply in replies:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(reply)

    def _refuse(self, ticket: Ticket, error: Exception) -> None:
        future = self._waiting.pop(ticket, None)
        if future is not None and not future.done():
            future.set_exception(error)

    def _refuse_all(self) -> None:
        if self._performer is not None:
            self._performer.abandon(self._index)
        self._timers.clear()
        parked, self._parked = self._parked, deque()
        shared, self._shared, self._shared_size = self._shared, [], 0
        for ticket in list(self._waiting):
            self._refuse(ticket, NotCoordinator())
        for one in parked:
            refuse(one.shared, NotCoordinator())
        refuse(shared, NotCoordinator())

    # -- loading and unloading -------------------------------------------------------------

    def _start_loading(self) -> None:
        self._phase = _Phase.LOADING
        self.shard = self._make_shard()
        self._staging: StagingShard[R] | None = self.shard if isinstance(self.shard, StagingShard) else None
        self._positioned = self.shard if isinstance(self.shard, PositionedShard) else None
        self._load_task = asyncio.ensure_future(self._load())

    def _reload(self) -> None:
        self._refuse_all()
        self._start_loading()

    async def loaded(self) -> None:
        await asyncio.wait((self._load_task,))

    async def _load(self) -> None:
        try:
            for count, batch in enumerate(self._log.batches(), start=1):
                self._replay(batch)
                if count % BATCHES_PER_STEP == 0:
                    await asyncio.sleep(0)
        except (Corruption, Refusal, OSError) as error:
            log.error("cannot load shard %d: %s", self._index, error)
            self._phase = _Phase.FAILED
            return
        # The state includes records that are not committed yet, so replies wait for them.
        self._end = self._log.end_offset
        self._phase = _Phase.ACTIVE
        if self._log.high_watermark < self._end:
            self._wait_for(self._end)
        self._carry_out(self.shard.loaded(self._clock.wall_ms()))

    def _replay(self, batch: memoryview) -> None:
        header = BatchHeader.at(batch)
        staging = self._staging
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and staging is not None:
                staging.end_transaction(header.producer_id, is_commit=marker.commit)
            return
        if self._positioned is not None:
            self._positioned.position = header.base_offset
        for record in decode_batch(batch):
            if record.key is None:
                raise Corruption(f"the record at offset {record.offset} of an internal topic has no key")
            decoded = self.shard.decode(record.key, record.value)
            if decoded is None:
                continue
            if header.is_transactional and staging is not None:
                staging.stage(decoded, header.producer_id)
            else:
                self.shard.apply(decoded)

    def _fail(self, code: int) -> None:
        """Stop serving the shard, because its log has failed."""
        if self._phase is not _Phase.FAILED:
            # Another node is the leader now, which is normal.
            level = logging.INFO if code == NotLeaderOrFollower.code else logging.WARNING
            log.log(level, "stopped serving shard %d: its log failed with error code %d", self._index, code)
        self._load_task.cancel()
        self._phase = _Phase.FAILED
        self._refuse_all()

    def stop(self) -> None:
        self._load_task.cancel()
        self._phase = _Phase.FAILED
        self._refuse_all()


def _batch(records: list[Record], transaction: InTransaction | None) -> bytes:
    if transaction is None:
        return encode_batch(records)
    return encode_batch(
        records,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        base_sequence=_BASE_SEQUENCE,
        is_transactional=True,
    )


_RETRIABLE = (NO_ERROR, RequestTimedOut.code, NotEnoughReplicasAfterAppend.code)
_NOT_AVAILABLE = (UnknownTopicOrPartition, NotEnoughReplicas, RequestTimedOut)
_NOT_HERE = (NotLeaderOrFollower, StorageError)


def _for_client(refusal: Refusal) -> Exception:
    """Return the error for a client whose append was refused; clients do not know the internal topic."""
    if isinstance(refusal, _NOT_AVAILABLE):
        return CoordinatorNotAvailable()
    if isinstance(refusal, _NOT_HERE):
        return NotCoordinator()
    if isinstance(refusal, MessageTooLarge | RecordListTooLarge):
        # Not MessageTooLarge: a retry would not help, and the client's own records are not too large.
        return Refusal("the change does not fit into one batch of the internal topic")
    return refusal
