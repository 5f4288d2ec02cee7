"""One partition as this node holds it: its log, its role, its high watermark, and who waits on it.

Calls go to storage/log.py. The mark follows the durable end of every in-sync replica, so
nothing that a power failure could take back is ever shown to a consumer. Refuses: stale and
unknown leader epochs, too small an in-sync set, transactional batches outside transactions.
"""

from collections import deque
from collections.abc import Callable
from uuid import UUID

from penstock.model.errors import (
    NO_ERROR,
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RequestTimedOut,
    StorageError,
    UnknownLeaderEpoch,
)
from penstock.model.ids import NodeId, Offset, TopicName
from penstock.ports.network import FileSlice
from penstock.replication.isr import advance_high_watermark, effective_min_isr
from penstock.replication.waiting import WaitingFetch, WaitingProduce
from penstock.storage.log import Appended, Log
from penstock.storage.marker import SIZE as MARKER_SIZE
from penstock.storage.verification import Verification

ALL_REPLICAS = -1


class Partition:
    __slots__ = (
        "_held_size",
        "_hidden_size",
        "_stable_mark",
        "_waiting_fetches",
        "_waiting_produces",
        "high_watermark",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "node_id",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: TopicName, topic_id: UUID, index: int, node_id: NodeId, log: Log) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.node_id = node_id
        self.log = log
        self.leader = node_id
        self.leader_epoch = 0
        self.replicas: tuple[NodeId, ...] = (node_id,)
        self.isr: tuple[NodeId, ...] = (node_id,)
        self.high_watermark = Offset(log.durable_offset)
        log.high_watermark_moved(self.high_watermark)
        self._stable_mark = self._stable_up_to(self.high_watermark)
        # Bytes that nobody sees yet, and bytes that only readers of uncommitted records see.
        self._hidden_size = 0
        self._held_size = 0
        self._waiting_produces: deque[WaitingProduce] = deque()
        # A dict for its order and its cheap removal; the values mean nothing.
        self._waiting_fetches: dict[WaitingFetch, None] = {}
        log.on_durable = self._advance

    # -- roles -----------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended for good; it never moves back."""
        # Deleted records hold nobody back, whether or not their transaction was ended.
        start = self.log.start_offset
        return self._stable_mark if self._stable_mark >= start else start

    def _stable_up_to(self, mark: int) -> int:
        first_unstable = self.log.first_unstable_offset
        return mark if first_unstable is None or first_unstable > mark else first_unstable

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Fence a client that knows an older, or claims a newer, leader epoch (KIP-320)."""
        if not self.is_leader:
            raise NotLeaderOrFollower
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise FencedLeaderEpoch
            raise UnknownLeaderEpoch

    # -- writing ---------------------------------------------------------------------------

    def append(
        self,
        records: memoryview,
        *,
        acks: int,
        now_ms: int,
        trusted: bool = False,
        transaction_verified: Verification | bool = False,
    ) -> Appended:
        """Write one batch. Returns before it is durable; `wait_durable` tells when it is.

        `trusted` and `transaction_verified` are those of `Log.append`.
        """
        if self.leader != self.node_id:
            raise NotLeaderOrFollower
        log = self.log
        if acks == ALL_REPLICAS:
            needed = effective_min_isr(log.settings.min_insync_replicas, replica_count=len(self.replicas))
            if len(self.isr) < needed:
                raise NotEnoughReplicas
        appended = log.append(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            trusted=trusted,
            transaction_verified=transaction_verified,
        )
        self._hidden_size += len(records)
        if log.durable_offset > self.high_watermark:
            self._advance()
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
        """End a producer's transaction here. Returns before that is durable, like `append` with acks=all."""
        if self.leader != self.node_id:
            raise NotLeaderOrFollower
        needed = effective_min_isr(self.log.settings.min_insync_replicas, replica_count=len(self.replicas))
        if len(self.isr) < needed:
            raise NotEnoughReplicas
        appended = self.log.append_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            transaction_version=transaction_version,
        )
        self._hidden_size += MARKER_SIZE
        if self.log.durable_offset > self.high_watermark:
            self._advance()
        return appended

    def wait_durable(self, waiting: WaitingProduce) -> None:
        """Park until the high watermark reaches the offset. Offsets come in about rising order."""
        self._waiting_produces.append(waiting)

    def wait_shown(self, deadline: float, done: Callable[[int], None]) -> bool:
        """Park until consumers are shown all that is written by now; False if there is nothing to wait for.

        A mark that waits for other replicas is not waited for: they may be long in coming.
        """
        log = self.log
        if log.end_offset == self.high_watermark or self.isr != (self.node_id,) or log.directory.failure is not None:
            return False
        self._waiting_produces.append(WaitingProduce(log.end_offset, deadline, done))
        return True

    def _advance(self) -> None:
        mark = advance_high_watermark(self.high_watermark, ends_in_sync=(Offset(self.log.durable_offset),))
        if mark == self.high_watermark:
            return
        self.high_watermark = mark
        size, self._hidden_size = self._hidden_size, 0
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

    def log_failed(self) -> None:
        """The log directory went offline: what is not durable by now never will be known to be."""
        self.fail(StorageError.code)

    # -- reading ---------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, committed_only: bool, at_least_one: bool) -> FileSlice | None:
        """Whole batches from the one that contains the offset, up to the mark; None if there are none."""
        end = self.last_stable_offset if committed_only else self.high_watermark
        log = self.log
        if offset >= end:
            if offset > log.end_offset:
                raise OffsetOutOfRange
            if offset >= log.start_offset:
                return None
        return log.read(offset, max_bytes=max_bytes, end=end, at_least_one=at_least_one)

    def diverging_epoch(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Where the reader's log and this one part, if they do before the offset (KIP-595)."""
        epoch, end_offset = self.log.epoch_end(last_fetched_epoch)
        if end_offset < 0:
            raise OffsetOutOfRange
        if epoch < last_fetched_epoch or end_offset < offset:
            return epoch, end_offset
        return None

    def add_waiting(self, fetch: WaitingFetch) -> None:
        self._waiting_fetches[fetch] = None

    def remove_waiting(self, fetch: WaitingFetch) -> None:
        self._waiting_fetches.pop(fetch, None)
