"""Periodic maintenance: retention, delayed deletes, expired producers, checkpoints, flushes by time.

Driven by one timer. Each round handles the logs in slices, so that ten thousand of them do not block the event loop.
Calls log.py and store.py. A log that raises StorageError is skipped until the next round; its readers and writers
receive the error.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.config.settings import BrokerSettings
from penstock.model.errors import StorageError
from penstock.model.ids import TopicPartition
from penstock.ports.clock import Clock, Timer
from penstock.storage import trim
from penstock.storage.log import Log
from penstock.storage.store import LogStore
from penstock.storage.store_checkpoints import UNCHECKED_SIZE_MAX

TICK_S: Final = 1.0
LOGS_PER_SLICE: Final = 200
SLICE_S: Final = 0.002
VISITS_PER_TICK: Final = 1000
"""So many logs are visited every second for the sake of `flush.ms`, delayed deletes and checkpoints. With more, each is
visited every few seconds: visiting ten thousand every second would take two percent of a core of an idle node."""


class Janitor:
    """Maintains the logs of one data folder."""

    def __init__(
        self,
        store: LogStore,
        clock: Clock,
        current_settings: Callable[[], BrokerSettings],
        high_watermark: Callable[[TopicPartition], int],
    ) -> None:
        self._store = store
        self._clock = clock
        self._current_settings = current_settings
        self._high_watermark = high_watermark
        self._timer: Timer | None = None
        self._next_retention_ms = self._next_checkpoint_ms = self._next_visit_ms = 0
        self._waiting: list[Log] = []
        self._retention_now_ms = 0
        self._unvisited: list[Log] = []
        # How much recovery would scan of the logs that were visited since the last checkpoint.
        self._unchecked_size = 0

    def start(self) -> None:
        now_ms = self._monotonic_ms()
        self._plan_retention(now_ms)
        self._plan_checkpoint(now_ms)
        self._timer = self._clock.call_later(TICK_S, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = self._clock.call_later(0 if self.work() else TICK_S, self._tick)

    def work(self) -> bool:
        """Run a slice of the due work; return whether more is due now."""
        if self._store.failure is not None:
            return False
        now_ms = self._monotonic_ms()
        if not self._waiting and now_ms >= self._next_retention_ms:
            self._waiting = list(self._store)
            self._plan_retention(now_ms)
        if self._waiting:
            self._retention_now_ms = self._store.retention_now_ms()
        ends = self._clock.monotonic() + SLICE_S
        for _ in range(min(LOGS_PER_SLICE, len(self._waiting))):
            if self._maintain(self._waiting.pop()) and self._clock.monotonic() >= ends:
                break
        if now_ms >= self._next_visit_ms:
            # Not after every slice of retention.
            self._next_visit_ms = now_ms + int(TICK_S * 1000)
            self._store.remove_deleted_folders(self._clock.wall_ms())
            self._visit_logs()
            if now_ms >= self._next_checkpoint_ms or self._unchecked_size > UNCHECKED_SIZE_MAX:
                self._checkpoint()
                self._plan_checkpoint(now_ms)
        return bool(self._waiting)

    def _maintain(self, log: Log) -> bool:
        """Apply retention to a log; return whether that may have taken more than a microsecond."""
        now_ms, producers = self._retention_now_ms, log.producer_state
        any_producers = producers.producers or producers.verifications
        if any_producers:
            producers.expire(now_ms, self._current_settings().integer("producer.id.expiration.ms"))
        if not trim.may_delete(log, now_ms):
            return bool(any_producers)
        with suppress(StorageError):
            log.delete_old_segments(high_watermark=self._high_watermark(log.topic_partition), now_ms=now_ms)
        return True

    def _visit_logs(self) -> None:
        """Visit the next logs, in turn."""
        wall_ms = self._clock.wall_ms()
        if not self._unvisited:
            self._unvisited = list(self._store)
            self._unchecked_size = 0
        for _ in range(min(VISITS_PER_TICK, len(self._unvisited))):
            log = self._unvisited.pop()
            self._unchecked_size += self._store.unchecked_size(log)
            if log.deletes.files:
                log.deletes.remove_due(wall_ms)
            log.flusher.start_if_older_than(wall_ms, log.rules.settings.flush_ms)

    def _checkpoint(self) -> None:
        self._unchecked_size = 0
        self._store.checkpoint_retention_clock()
        self._store.log_starts.moved()
        self._store.checkpoint_recovery_points_later()

    def _plan_retention(self, now_ms: int) -> None:
        self._next_retention_ms = now_ms + self._current_settings().integer("log.retention.check.interval.ms")

    def _plan_checkpoint(self, now_ms: int) -> None:
        self._next_checkpoint_ms = now_ms + self._current_settings().integer("log.flush.offset.checkpoint.interval.ms")

    def _monotonic_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)
