"""The driver of compaction for one data folder: finds the dirtiest log, has a worker rewrite it, swaps the files.

One pass at a time. The search for work runs in slices, so that many logs do not block the event loop. A log with damage
or disk errors is skipped until the next start and reported in the node's log; a full disk only delays it. Calls
plan.py, swap.py and a worker.
"""

import errno
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from penstock.config.settings import BrokerSettings
from penstock.model.errors import StorageError
from penstock.model.ids import TopicPartition
from penstock.ports.clock import Clock, Timer
from penstock.storage import aborted
from penstock.storage.compaction import plan
from penstock.storage.compaction.swap import Swap, discard
from penstock.storage.compaction.task import WORKER_DIED, CleanedGroup, Extent, Failed, Finished, Task, WorkerMessage
from penstock.storage.log import Log
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Damaged, Segment
from penstock.storage.store import LogStore

logger = logging.getLogger(__name__)

LOGS_PER_SLICE: Final = 50
# Disk errors that are temporary, or end when space is freed.
_PASSING: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM))
# The longest pause before the next attempt on a log whose worker died repeatedly.
DEATH_WAIT_S_MAX: Final = 900.0


class _Deaths(NamedTuple):
    """How often in a row the worker died while compacting a log, and when the next attempt may start."""

    in_a_row: int
    until_s: float


class Worker(Protocol):
    """The runner of passes: a child process, or the event loop in slices."""

    def start(self, task: Task, on_message: Callable[[WorkerMessage], None]) -> None:
        """Run a pass. `on_message` gets each group, then the end. After a group the worker waits for a reply."""
        ...

    def resume(self) -> None:
        """Continue, because the group is in place."""
        ...

    def cancel(self) -> None:
        """End the pass without using the group; `on_message` is not called again."""
        ...

    def stop(self) -> None:
        """Abort the pass in progress; `on_message` is not called again."""
        ...


class _Candidate(NamedTuple):
    log: Log
    dirty_ratio: float


class Cleaner:
    def __init__(
        self,
        store: LogStore,
        clock: Clock,
        current_settings: Callable[[], BrokerSettings],
        last_stable_offset: Callable[[TopicPartition], int],
        worker: Worker,
    ) -> None:
        self._store = store
        self._clock = clock
        self._current_settings = current_settings
        self._last_stable_offset = last_stable_offset
        self._worker = worker
        # Partitions that are skipped, each with the reason.
        self.uncleanable: dict[TopicPartition, str] = {}
        self._worker_deaths: dict[TopicPartition, _Deaths] = {}
        self._timer: Timer | None = None
        self._unseen: list[Log] = []
        self._best: _Candidate | None = None
        self._log: Log | None = None
        self._segments: list[Segment] = []
        self._swap: Swap | None = None

    def start(self) -> None:
        self._later(self._backoff_s())

    def stop(self) -> None:
        """Stop immediately; unfinished files are removed now or by the next start."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._worker.stop()
        if self._swap is not None:
            self._swap.forget()
            self._swap = None
        self._end_pass()

    @property
    def is_busy(self) -> bool:
        return self._log is not None

    def worker_deaths(self, topic_partition: TopicPartition) -> int:
        """Return how often in a row the worker has died while compacting a log."""
        return self._worker_deaths[topic_partition].in_a_row if topic_partition in self._worker_deaths else 0

    # Search

    def _later(self, delay_s: float) -> None:
        self._timer = self._clock.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.find_work()

    def find_work(self) -> None:
        """Check the next slice of logs; after the last slice, start a pass over the dirtiest one."""
        if self._log is not None:
            return
        settings = self._current_settings()
        if not settings.flag("log.cleaner.enable") or self._store.failure is not None:
            self._later(self._backoff_s())
            return
        if not self._unseen:
            self._unseen = [each for each in self._store if each.settings.compact]
            self._best = None
        for log in self._unseen[-LOGS_PER_SLICE:]:
            self._consider(log)
        del self._unseen[-LOGS_PER_SLICE:]
        if self._unseen:
            self._later(0)
        elif self._best is None:
            self._later(self._backoff_s())
        else:
            self._begin(self._best.log)

    def _consider(self, log: Log) -> None:
        found = self._planned(log)
        if found is not None and (self._best is None or found.dirty_ratio > self._best.dirty_ratio):
            self._best = _Candidate(log, found.dirty_ratio)

    def _planned(self, log: Log) -> plan.Plan | None:
        """Return the pass that the log needs now; None if it needs none or is skipped."""
        topic_partition = log.topic_partition
        if topic_partition in self.uncleanable or log.damage is not None or self._store.get(topic_partition) is not log:
            return None
        worker_deaths = self._worker_deaths.get(topic_partition)
        if worker_deaths is not None and self._clock.monotonic() < worker_deaths.until_s:
            return None
        now_ms = self._store.retention_now_ms()
        try:
            _roll_if_overdue(log, now_ms)
            return self._plan_for(log, now_ms)
        except (StorageError, OSError, BadBatch, Damaged) as error:
            self._mark_uncleanable(log, f"cannot read it: {error}")
            return None

    def _plan_for(self, log: Log, now_ms: int) -> plan.Plan | None:
        bases = log.segments.bases
        dirty_from = plan.first_dirty(
            log.compaction.clean_offset, log_start=log.start_offset, first_base=bases[0], active_base=bases[-1]
        )
        # Closed segments whose files are still being synced are left for the next search.
        stable_end = min(self._last_stable_offset(log.topic_partition), log.recovery_point)
        if dirty_from >= min(stable_end, bases[-1]):
            return None
        return plan.decide(
            _closed_segments(log, dirty_from),
            log.settings,
            dirty_from=dirty_from,
            stable_end=stable_end,
            now_ms=now_ms,
        )

    # A pass

    def _begin(self, log: Log) -> None:
        # The search ran in slices: retention or a truncation may have removed segments since it saw this log.
        found = self._planned(log)
        if found is None:
            self._later(0)
            return
        try:
            task = self._task(log, found)
        except (StorageError, OSError, Damaged) as error:
            self._mark_uncleanable(log, f"cannot read its aborted transactions: {error}")
            self._later(0)
            return
        self._log = log
        self._segments = log.segments[: found.segment_count]
        log.compaction.begin()
        self._worker.start(task, self._on_message)

    def _task(self, log: Log, found: plan.Plan) -> Task:
        settings, broker = log.settings, self._current_settings()
        return Task(
            folder=log.folder,
            segments=tuple(Extent(each.base_offset, each.size) for each in log.segments[: found.segment_count]),
            bound=found.bound,
            first_dirty=found.first_dirty,
            now_ms=self._store.retention_now_ms(),
            now_lags=self._store.retention_lags,
            delete_retention_ms=settings.delete_retention_ms,
            segment_bytes=settings.segment_bytes,
            index_interval=settings.index_interval_bytes,
            index_size_max=settings.segment_index_bytes,
            map_memory=broker.integer("log.cleaner.dedupe.buffer.size"),
            map_load_factor=broker["log.cleaner.io.buffer.load.factor"],
            bytes_per_second=broker["log.cleaner.io.max.bytes.per.second"],
            aborted=tuple(aborted.ended_before(log, found.bound)),
            producers={
                each.producer_id: (each.last_offset, each.epoch)
                for each in log.producer_state
                if each.last_offset < found.bound
            },
        )

    def _on_message(self, message: WorkerMessage) -> None:
        log = self._log
        assert log is not None, "a worker sends messages only during a pass"
        if isinstance(message, CleanedGroup):
            self._take(log, message)
        elif not self._is_current(log):
            self._postpone()
        elif isinstance(message, Finished):
            self._finished(log, message)
        else:
            self._failed(log, message)

    def _take(self, log: Log, group: CleanedGroup) -> None:
        """Swap a group in, unless the log has changed since the worker read it."""
        old = [each for each in self._segments if each.base_offset in group.replaced]
        if not self._is_current(log) or len(old) != len(group.replaced):
            discard(self._store.directory.disk, log.folder, group.base_offset)
            self._worker.cancel()
            self._postpone()
            return
        self._swap = Swap(log, old, group, self._clock.wall_ms(), lambda outcome: self._swapped(log, old, outcome))
        self._swap.begin()

    def _swapped(self, log: Log, old: list[Segment], outcome: Segment | OSError) -> None:
        self._swap = None
        if isinstance(outcome, OSError):
            logger.warning(
                "%s: cannot swap in the compacted segment %d, will try again: %s",
                log.topic_partition,
                old[0].base_offset,
                outcome,
            )
            self._worker.cancel()
            self._postpone()
            return
        slot = self._segments.index(old[0])
        self._segments[slot : slot + len(old)] = [outcome]
        self._worker.resume()

    def _postpone(self) -> None:
        self._end_pass()
        self._later(self._backoff_s())

    def _is_current(self, log: Log) -> bool:
        return (
            self._store.failure is None
            and self._store.get(log.topic_partition) is log
            and log.damage is None
            and not log.compaction.is_outdated
            and log.segments[: len(self._segments)] == self._segments
        )

    def _finished(self, log: Log, message: Finished) -> None:
        self._worker_deaths.pop(log.topic_partition, None)
        log.compaction.advance(message.clean_end)
        self._store.clean_offsets.moved()
        logger.info(
            "%s: compacted up to offset %d, %d records dropped, %d bytes read, %d written",
            log.topic_partition, message.clean_end, message.records_dropped, message.bytes_read, message.bytes_written,
        )  # fmt: skip
        self._end_pass()
        self._later(0)

    def _failed(self, log: Log, message: Failed) -> None:
        topic_partition = log.topic_partition
        if message.errno in _PASSING:
            logger.warning("%s: compaction waits for free space: %s", topic_partition, message.why)
        elif message.errno == WORKER_DIED:
            self._delay_after_death(topic_partition, message.why)
        else:
            self._mark_uncleanable(log, message.why)
        self._postpone()

    def _delay_after_death(self, topic_partition: TopicPartition, why: str) -> None:
        """Delay the next attempt, longer each time: the log itself may be what kills the worker, so others go first."""
        count = self._worker_deaths[topic_partition].in_a_row + 1 if topic_partition in self._worker_deaths else 1
        wait_s = min(self._backoff_s() * 2**count, DEATH_WAIT_S_MAX)
        self._worker_deaths[topic_partition] = _Deaths(count, self._clock.monotonic() + wait_s)
        logger.warning("%s: the compaction worker died (%s), next attempt in %.0f s", topic_partition, why, wait_s)

    def _mark_uncleanable(self, log: Log, why: str) -> None:
        self.uncleanable[log.topic_partition] = why
        logger.error("%s is not compacted until the next start: %s", log.topic_partition, why)

    def _end_pass(self) -> None:
        if self._log is not None:
            self._log.compaction.end()
        self._log, self._segments = None, []

    def _backoff_s(self) -> float:
        return self._current_settings().integer("log.cleaner.backoff.ms") / 1000


def _closed_segments(log: Log, dirty_from: int) -> list[plan.ClosedSegment]:
    """Return the closed segments for a decision, with timestamps only where settings require them."""
    lags = log.settings.min_compaction_lag_ms > 0
    overdue = log.settings.max_compaction_lag_ms < plan.NEVER_OVERDUE
    closed: list[plan.ClosedSegment] = []
    for segment, end in zip(log.segments[:-1], log.segments.bases[1:], strict=True):
        first = latest = plan.NO_TIME
        if end > dirty_from and segment.size:
            if lags:
                segment.ensure_timed()
                latest = segment.max_timestamp
            if overdue:
                first = segment.header_at(0)[8]
        closed.append(plan.ClosedSegment(segment.base_offset, end, segment.size, first, latest))
    return closed


def _roll_if_overdue(log: Log, now_ms: int) -> None:
    """Roll an active segment that is older than the maximum lag, even if nothing is appended."""
    if log.settings.max_compaction_lag_ms < plan.NEVER_OVERDUE and log.segments.active.size:
        first = log.segments.active.header_at(0)[8]
        if first > 0 and now_ms - first > log.settings.max_compaction_lag_ms:
            log.roll()
