"""One partition on this node: its log, its role, its high watermark, and the requests that wait on it.

Calls storage/log.py, marks.py, waiting.py and, on the leader, isr.py. The high watermark covers only what every
in-sync replica holds durably, so that consumers never read records which a power failure could remove.
Refuses: requests for another role, stale and unknown leader epochs, appends with acks=all below min ISR.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.image import RECOVERING
from penstock.model.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    StorageError,
    UnknownLeaderEpoch,
)
from penstock.model.ids import NodeId, TopicName
from penstock.ports.network import FileSlice
from penstock.replication.isr import FollowerProgress, Leadership, Proposal, advance_high_watermark, effective_min_isr
from penstock.replication.marks import Marks
from penstock.replication.waiting import ProduceDeadlines, Waiters, WaitingProduce
from penstock.storage.log import Appended, Log
from penstock.storage.marker import SIZE as MARKER_SIZE
from penstock.storage.marker_append import append_marker
from penstock.storage.validate import Prepared
from penstock.storage.verification_guard import VerificationGuard
from penstock.wire.batch import BatchHeader

if TYPE_CHECKING:
    from penstock.metadata.image import PartitionImage
    from penstock.replication.fetcher import Followed
    from penstock.replication.follower_sessions import SessionEntry
    from penstock.replication.isr_context import IsrContext

ALL_REPLICAS = -1


class Partition:
    """A log with its high watermark, its role in the cluster and its waiting requests."""

    __slots__ = (
        "_enough_in_sync",
        "_isr_context",
        "bytes_in",
        "followed",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "leadership",
        "log",
        "marks",
        "messages_in",
        "node_id",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
        "unclean",
        "waiters",
    )

    def __init__(
        self,
        topic: TopicName,
        topic_id: UUID,
        index: int,
        node_id: NodeId,
        log: Log,
        *,
        known_mark: int | None = None,
        isr_context: IsrContext | None = None,
        deadlines: ProduceDeadlines | None = None,
    ) -> None:
        """Create a partition that this node leads, with no other replica, until `take_role` changes that.

        `known_mark` is a lower bound of the high watermark of a partition with other replicas.
        """
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.node_id = node_id
        self.log = log
        self.marks = Marks(log, known_mark)
        self.waiters = Waiters(deadlines)
        # What producers have written, counted by the handler.
        self.bytes_in = self.messages_in = 0
        self._isr_context = isr_context
        self.leader = node_id
        self.leader_epoch, self.partition_epoch = 0, -1
        self.replicas: tuple[NodeId, ...] = (node_id,)
        self.isr: tuple[NodeId, ...] = (node_id,)
        self.unclean = False
        """Whether the leader was elected uncleanly and not every replica has joined the ISR since."""
        self.followed: Followed | None = None  # its state in a fetcher, while this node fetches it
        self.leadership: Leadership | None = Leadership(
            node_id, epoch=0, epoch_start=log.end_offset, partition_epoch=-1, replicas=self.replicas, isr=self.isr,
            now=0.0,
        )  # fmt: skip
        self._enough_in_sync = True
        log.flusher.notify_durable(self)

    @property
    def high_watermark(self) -> int:
        return self.marks.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.marks.last_stable_offset

    # -- roles -----------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leadership is not None

    @property
    def mark_is_known(self) -> bool:
        """Return whether a new leader knows the high watermark of the leader before it."""
        return self.leadership is None or self.marks.high_watermark >= self.leadership.epoch_start

    def take_role(self, state: PartitionImage) -> None:
        """Apply the state in the metadata image: become leader or follower, or keep the role with another ISR."""
        if state.leader_epoch < self.leader_epoch or state.partition_epoch < self.partition_epoch:
            return  # The response of the controller arrived before the image.
        goes_on = self.leadership is not None and state.leader == self.node_id
        if goes_on and state.leader_epoch == self.leader_epoch and self.partition_epoch >= 0:
            self.apply_isr(state.isr, state.replicas, state.partition_epoch)
            return
        next_epoch = state.leader_epoch <= self.leader_epoch + 1
        changed = state.leader != self.leader or state.leader_epoch != self.leader_epoch
        is_new = self.partition_epoch < 0
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.isr = state.isr
        self.unclean = state.leader_recovery_state == RECOVERING
        if state.leader == self.node_id:
            self._become_leader(state, keep=goes_on and next_epoch and not is_new)
            if not (goes_on and next_epoch):
                self._fail_waiting()
            self._check_min_isr()
            self.advance()
        else:
            self.leadership = None
            # The next batch from the leader may have an older epoch than the one in which this node led.
            self.log.drop_unwritten_epochs()
            if changed:
                self._fail_waiting()

    def _become_leader(self, state: PartitionImage, *, keep: bool) -> None:
        end = self.log.end_offset
        self._record_epoch()
        if keep and self.leadership is not None:
            self.leadership.commit(partition_epoch=state.partition_epoch, replicas=state.replicas, isr=state.isr)
            self.leadership.next_epoch(epoch=state.leader_epoch, epoch_start=end)
            return
        self.leadership = Leadership(
            self.node_id,
            epoch=state.leader_epoch,
            epoch_start=end,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
            now=0.0 if self._isr_context is None else self._isr_context.now(),
        )

    def _record_epoch(self) -> None:
        """Record where this epoch begins, so that followers of another leader learn where the logs diverge."""
        if len(self.replicas) > 1:
            self.log.begin_epoch(self.leader_epoch, self.log.end_offset)

    def apply_isr(self, isr: tuple[NodeId, ...], replicas: tuple[NodeId, ...], partition_epoch: int) -> None:
        """Apply an ISR that was committed in the same leader epoch."""
        leadership = self.leadership
        if leadership is None or not leadership.commit(partition_epoch=partition_epoch, replicas=replicas, isr=isr):
            return
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = isr
        self._record_epoch()
        self._check_min_isr()
        self.advance()
        self.maybe_expand_isr()

    def withdraw(self, proposal: Proposal) -> None:
        """Drop a proposal that the controller rejected: the high watermark no longer waits for the new member."""
        if self.leadership is not None:
            self.leadership.withdraw(proposal)
            # The high watermark may have waited for that follower alone, and no other event may come for a long time.
            self.advance()

    def settings_changed(self) -> None:
        """Apply a changed min.insync.replicas."""
        if self.leadership is not None:
            self._check_min_isr()
            self.advance()

    def _check_min_isr(self) -> None:
        needed = effective_min_isr(self.log.settings.min_insync_replicas, replica_count=len(self.replicas))
        had_enough, self._enough_in_sync = self._enough_in_sync, len(self.isr) >= needed
        if had_enough and not self._enough_in_sync:
            self.waiters.fail_produces(NotEnoughReplicasAfterAppend.code)

    def _fail_waiting(self) -> None:
        self._enough_in_sync = True
        self.waiters.fail_produces(NotLeaderOrFollower.code)
        self.waiters.changed()

    def check_epoch(self, current_leader_epoch: int, *, leader_only: bool = True) -> None:
        """Reject a request with an older or newer leader epoch (KIP-320)."""
        if leader_only and self.leadership is None:
            raise NotLeaderOrFollower
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise FencedLeaderEpoch
            raise UnknownLeaderEpoch

    # -- followers -------------------------------------------------------------------------

    def follower_fetched(
        self, progress: FollowerProgress, offset: int, log_start_offset: int, broker_epoch: int
    ) -> None:
        """Record a follower's fetch, which was checked before: it holds everything before the offset."""
        leadership, isr_context = self.leadership, self._isr_context
        assert leadership is not None and isr_context is not None, "only a leader receives replica fetches"
        now = isr_context.now()
        progress.fetched(offset, log_start_offset, broker_epoch, leader_end=self.log.offsets.end, now=now)
        if not leadership.is_member(progress.node_id):
            self._propose_joining(leadership, isr_context, progress, now)
        if offset > self.marks.high_watermark:
            self.advance()

    def maybe_expand_isr(self) -> None:
        """Propose followers that could not join at their last fetch: their broker or the ISR may have changed."""
        leadership, isr_context = self.leadership, self._isr_context
        if leadership is None or isr_context is None:
            return
        now = isr_context.now()
        for progress in leadership.followers.values():
            if progress.offset >= 0 and not leadership.is_member(progress.node_id):
                self._propose_joining(leadership, isr_context, progress, now)
        self.advance()

    def _propose_joining(
        self, leadership: Leadership, isr_context: IsrContext, progress: FollowerProgress, now: float
    ) -> None:
        allowed = isr_context.may_join(self, progress.node_id, progress.broker_epoch)
        proposal = leadership.expand_isr(
            progress, mark=self.high_watermark, now=now, lag_s_max=isr_context.lag_s_max, allowed=allowed
        )
        if proposal is not None:
            isr_context.propose(self, proposal)

    def maybe_shrink_isr(self) -> None:
        """Propose an ISR without the members that have lagged for too long."""
        leadership, isr_context = self.leadership, self._isr_context
        if leadership is None or isr_context is None or not leadership.followers:
            return
        end = self.log.end_offset
        for entry in self.waiters.follower_entries:
            progress = leadership.followers.get(entry.session.node_id)
            if progress is not None:
                progress.session_fetched(leader_end=end, last_fetch_at=entry.session.last_fetch_at)
        proposal = leadership.shrink_isr(leader_end=end, now=isr_context.now(), lag_s_max=isr_context.lag_s_max)
        if proposal is not None:
            isr_context.propose(self, proposal)
        self.maybe_expand_isr()

    def delete_before(self, offset: int) -> None:
        """Delete the records before an offset, on this replica now and on the others with their next fetch response."""
        self.log.advance_start(offset)
        self.waiters.changed()

    @property
    def low_watermark(self) -> int:
        """Return the offset below which no live replica has records."""
        start = self.log.start_offset
        if self.leadership is None or self._isr_context is None:
            return start
        return self.leadership.low_watermark(start, is_alive=self._isr_context.is_alive)

    # -- writing ---------------------------------------------------------------------------

    def append(
        self,
        records: memoryview,
        *,
        acks: int,
        now_ms: int,
        trusted: bool = False,
        transaction_verified: VerificationGuard | bool = False,
        prepared: Prepared | None = None,
    ) -> Appended:
        """Append one batch and return before it is durable; `wait_durable` waits for that.

        `trusted`, `transaction_verified` and `prepared` are passed to `Log.append`.
        """
        if self.leadership is None:
            raise NotLeaderOrFollower
        if acks == ALL_REPLICAS and not self._enough_in_sync:
            raise NotEnoughReplicas
        appended = self.log.append(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            trusted=trusted,
            transaction_verified=transaction_verified,
            prepared=prepared,
        )
        marks, waiters = self.marks, self.waiters
        marks.wrote(len(records))
        if waiters.follower_entries:
            waiters.wrote(len(records))
        if self.log.offsets.durable > marks.high_watermark:
            self.advance()
        return appended

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> Appended:
        """Append the marker that ends a transaction; return before it is durable, like `append` with acks=all."""
        if self.leadership is None:
            raise NotLeaderOrFollower
        if not self._enough_in_sync:
            raise NotEnoughReplicas
        appended = append_marker(
            self.log,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            transaction_version=transaction_version,
        )
        self.marks.wrote(MARKER_SIZE)
        self.waiters.wrote(MARKER_SIZE)
        if self.log.offsets.durable > self.marks.high_watermark:
            self.advance()
        return appended

    def append_fetched(self, records: memoryview, *, now_ms: int, leader_mark: int) -> None:
        """Append batches of the leader unchanged. The fetcher is notified when they are durable."""
        offsets = self.log.offsets
        if offsets.start == offsets.end and self.log.directory.refusal is None:
            first = BatchHeader.at(records)
            if first.base_offset < offsets.end < first.next_offset:
                # Records were deleted up to the middle of a batch: the log starts with the whole batch.
                self.restart_at(first.base_offset)
        # Compaction leaves gaps only below the high watermark; any other gap is a corrupt offset. The high watermark of
        # a new leader may be lower than it was when it compacted records of earlier leaders, until its followers fetch.
        self.log.append_replicated(records, now_ms=now_ms, gaps_below=leader_mark, gaps_before_epoch=self.leader_epoch)
        self.marks.wrote(len(records))

    def follow_high_watermark(self, mark: int) -> None:
        """Advance the high watermark to that of the leader, but not past the end of this log."""
        mark = min(mark, self.log.offsets.end)
        if mark > self.marks.high_watermark:
            self._set_high_watermark(mark)

    def truncate(self, offset: int) -> None:
        """Remove the records that diverge from the leader's log."""
        self.log.truncate_to(offset)
        self.marks.after_truncation()

    def restart_at(self, offset: int) -> None:
        """Remove everything and start at an offset: the leader's log starts later, or this one is empty."""
        self.log.truncate_fully_and_start_at(offset)
        self.marks.after_truncation()

    # -- the high watermark ----------------------------------------------------------------

    def wait_committed(self, deadline: float, done: Callable[[int], None]) -> bool:
        """Wait until the high watermark reaches the current end of the log; return False if no wait is needed.

        Returns False as well if the high watermark depends on other replicas, or on a larger ISR, which may take long.
        """
        log, leadership = self.log, self.leadership
        if log.end_offset == self.high_watermark or log.directory.failure is not None:
            return False
        if leadership is None or leadership.counted or not self._enough_in_sync:
            return False
        self.waiters.add_produce(WaitingProduce(log.end_offset, deadline, done))
        return True

    def advance(self) -> None:
        """Advance the high watermark after a sync, a fetch of a follower, or a change of the ISR."""
        leadership = self.leadership
        if leadership is None:
            if self.followed is not None:
                self.followed.became_durable()
            return
        if self._enough_in_sync:
            marks = self.marks
            mark = advance_high_watermark(marks.high_watermark, self.log.offsets.durable, leadership.counted)
            if mark > marks.high_watermark:
                self._set_high_watermark(mark)

    def _set_high_watermark(self, mark: int) -> None:
        self.waiters.mark_moved(mark, self.marks.move(mark))

    # -- waiters ---------------------------------------------------------------------------

    def wait_durable(self, waiting: WaitingProduce) -> None:
        """Park a produce request until the high watermark reaches its offset. Offsets rise, roughly."""
        self.waiters.add_produce(waiting)

    def fail(self, code: int) -> None:
        """Answer all waiting requests: this node no longer serves the partition."""
        self.waiters.fail_produces(code)
        self.waiters.changed()

    def add_follower(self, entry: SessionEntry) -> None:
        """Add a follower's session, and keep the newest batch in memory for it."""
        self.waiters.add_follower(entry)
        self.log.reader.keep_last(True)

    def remove_follower(self, entry: SessionEntry) -> None:
        self.waiters.remove_follower(entry)
        if not self.waiters.follower_entries:
            self.log.reader.keep_last(False)

    # -- reading ---------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, committed_only: bool, at_least_one: bool) -> FileSlice | None:
        """Return whole batches from the one that contains the offset, up to the consumers' bound; None without any."""
        marks, log = self.marks, self.log
        end = marks.last_stable_offset if committed_only else marks.high_watermark
        if offset >= end:
            damaged_from = log.quarantine.damaged_from
            if damaged_from is not None and offset >= damaged_from:
                # There are or were more records: an empty response would make the reader wait for them.
                raise StorageError(log.damage)
            if offset > log.offsets.end:
                raise OffsetOutOfRange
            if offset >= log.offsets.start:
                return None
        return log.reader.read(offset, max_bytes=max_bytes, end=end, at_least_one=at_least_one)

    def read_for_replica(self, offset: int, *, max_bytes: int, at_least_one: bool) -> FileSlice | bytes | None:
        """Return whole batches up to the end of the log; None if there are none."""
        end, reader = self.log.offsets.end, self.log.reader
        if offset == end:
            return None
        newest = reader.read_last(offset)
        if newest is not None and (at_least_one or len(newest) <= max_bytes):
            return newest
        return reader.read(offset, max_bytes=max_bytes, end=end, at_least_one=at_least_one)

    def end_for_consumers(self, *, committed_only: bool) -> int:
        """Return the end offset for consumers. Refuses until a new leader knows the high watermark.

        Refuses for a damaged log as well, because its real end may be unknown.
        """
        if self.log.damage is not None:
            raise StorageError(self.log.damage)
        if not self.mark_is_known:
            raise OffsetNotAvailable
        return self.last_stable_offset if committed_only else self.high_watermark

    def diverging_epoch(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Return the epoch and end offset where the reader's log diverges, if it does before the offset (KIP-595)."""
        damaged_from = self.log.damaged_from
        if damaged_from is not None and (len(self.replicas) > 1 or offset >= damaged_from):
            # After recovery of a damaged log only the epochs before the damage are known: a healthy follower must not
            # truncate because of them.
            raise StorageError(self.log.damage)
        epoch, end_offset = self.log.epochs.end_of(last_fetched_epoch, self.log.offsets.end)
        if end_offset < 0:
            raise OffsetOutOfRange
        if epoch < last_fetched_epoch or end_offset < offset:
            return epoch, end_offset
        return None

    def contains_prefix(self, offset: int, last_fetched_epoch: int) -> bool:
        """Return whether a follower's log up to an offset is a prefix of this log, as far as the epochs show."""
        log = self.log
        if not log.offsets.start <= offset <= log.offsets.end:
            return False
        if last_fetched_epoch < 0:
            return True
        epoch, end_offset = log.epochs.end_of(last_fetched_epoch, log.offsets.end)
        return epoch == last_fetched_epoch and end_offset >= offset
