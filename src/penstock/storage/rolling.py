"""A log's segments and how they follow each other: settings, the active file, rolls, failed writes.

`Log` in log.py stands on this class and adds what others ask of a log. Segments roll by
size, by time, when an index is full and when offsets no longer fit it. A write that failed
leaves nothing visible: the file is cut back at once, or before the next write.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

from crc32c import crc32c

from penstock.config.settings import TopicSettings
from penstock.model.errors import RecordListTooLarge, StorageError
from penstock.model.ids import TopicId, TopicPartition
from penstock.model.job import Job
from penstock.ports.disk import File
from penstock.storage import aborted, damage, recovery, snapshots, validate
from penstock.storage.directory import LogDirectory
from penstock.storage.flush import Flusher
from penstock.storage.marker import Marker
from penstock.storage.reserve import is_no_room
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Damaged, Segment

if TYPE_CHECKING:
    from penstock.storage.compaction.swap import Swap
    from penstock.storage.unreadable import Unreadable

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Appended:
    """Where a batch went. A duplicate went there earlier."""

    __slots__ = ("base_offset", "duplicate", "last_offset", "log_append_time_ms", "log_start_offset")

    def __init__(
        self, base_offset: int, last_offset: int, log_append_time_ms: int, log_start_offset: int, duplicate: bool
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate


class RollingLog:
    """Segments from oldest to newest; the last one is the active one."""

    def __init__(
        self,
        directory: LogDirectory,
        folder: str,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        state: recovery.Recovered,
        clock_wall_ms: Callable[[], int],
    ) -> None:
        self.directory = directory
        self.folder = folder
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments = state.segments
        self.bases = [each.base_offset for each in state.segments]
        self.active: Segment = state.segments[-1]
        self.epochs = state.epochs
        self.listed = state.listed
        self.producer_state = state.producers
        self._producers = state.producers.producers
        self.start_offset = state.start_offset
        self.end_offset = state.end_offset
        self.flushed_offset = state.flushed_offset
        self.durable_offset = state.end_offset
        # What is damaged, for people; reads stop before `damaged_from` and appends are refused.
        self.damage = state.damage
        self.damaged_from = state.damaged_from
        # Offsets where reads met an I/O error of late, and when the node's log last said so.
        self.unreadable: dict[int, Unreadable] = {}
        self.read_failure_said_at: float | None = None
        # What recovery did, in sentences for the node's log.
        self.recovery_notes = state.notes
        self.on_durable: Callable[[], None] = _nothing
        # The checkpoints of the data folder must be written before files go.
        self.on_start_advanced: Callable[[], None] = _nothing
        self.when_start_saved: Callable[[Callable[[OSError | None], None]], None] = _at_once
        self.on_truncating: Callable[[int], None] = _ignore
        self.flusher = Flusher(self)
        if state.folder_changed or state.list_changed:
            self.flusher.folders[folder] = None
        if state.list_changed:
            self.flusher.files.append(state.listed.path)
        self.flusher.rolled.extend(state.unflushed)
        # Whether a transaction may have been aborted here: readers ask with every fetch.
        self.any_aborted = not aborted.none_in(state.segments)
        # Files that are no longer part of the log, each with the time when they may go.
        self.doomed: list[tuple[int, tuple[str, ...]]] = []
        # Compaction is done with everything before this offset.
        self.clean_offset = 0
        # Whether a pass is under way, which must find the closed segments where they are.
        self.is_compacting = False
        # Files that are changing places; whoever cuts the log has that finished first.
        self.swap: Swap | None = None
        self.is_abandoned = False
        self.is_provisional = False
        """Whether its files could not all be read when it was opened, so that it is damaged until they can be."""
        # Whether appends may use the reserved space of a full disk: those to the metadata log.
        self.has_reserve = False
        self.cut_count = 0
        """How often something was cut from the end: what was read in slices before may be gone."""
        self._latest_epoch = state.epochs.latest
        self._writer: File | None = None
        self._torn = False
        # Where the log began and ended when it was opened after a clean close.
        self._found: tuple[int, int] | None = None
        self._unflushed_since_ms: int | None = None
        # The newest batch with its offset and the next, for followers that are about to ask for it.
        self.keeps_last = False
        self.last_batch: tuple[int, int, bytes] | None = None
        self.clock_wall_ms = clock_wall_ms
        self.settings = settings

    @property
    def settings(self) -> TopicSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        """Take other settings from the next append on."""
        self._settings = settings
        self.syncs_appends = settings.flush_mode == "fsync"
        self._max_message_bytes = settings.max_message_bytes
        self._segment_bytes = settings.segment_bytes
        self._timestamp_after_max_ms = settings.message_timestamp_after_max_ms
        self._broker_time = settings.message_timestamp_type == "LogAppendTime"
        self._opens_batches = validate.needs_preparing(settings)
        self._changes_batches = self._opens_batches or self._broker_time
        self._flush_messages = settings.flush_messages
        self.roll_ms = (
            min(settings.segment_ms, settings.max_compaction_lag_ms) if settings.compact else settings.segment_ms
        )
        if settings.segment_jitter_ms:
            # A spread that is the same after a restart: nothing here draws chances.
            self.roll_ms -= crc32c(self.folder.encode()) % min(settings.segment_jitter_ms, self.roll_ms)
        if self._writer is not None:
            self.active.set_roll_times(self.roll_ms)
        if not self.syncs_appends and self.durable_offset < self.end_offset:
            self.durable_offset = self.end_offset
            self.on_durable()

    @property
    def size(self) -> int:
        return sum(each.size for each in self.segments)

    @property
    def latest_epoch(self) -> int:
        return self._latest_epoch

    @property
    def recovery_point(self) -> int:
        """Return the offset whose segment is the first that a crash makes us read again."""
        point = self.flushed_offset
        if self.flusher.closed:
            # A closed segment is not done with before its indexes are synced.
            return min(point, self.flusher.closed[0].base_offset)
        if point == self.end_offset and self._writer is not None and self.active.size:
            # The very end would name the next segment, if one begins there before the next checkpoint.
            return point - 1
        return point

    def roll(self) -> None:
        """Close the active segment and begin another, unless it is empty."""
        if self.active.size == 0:
            return
        if self._torn:
            self._mend_tail()
        try:
            self.begin_segment(self.end_offset)
        except OSError as error:
            if is_no_room(error):
                # Another failure may be one of this log's files alone, which is read here, too.
                self.directory.write_failed(error)
            raise StorageError(f"{self.folder}: no new segment: {error}") from error
        except BadBatch as bad:
            self._refuse_damage(self.active, bad)

    def begin_segment(self, base_offset: int) -> None:
        """Make the next active segment. The old one stays active if that fails."""
        closing = self.active
        written = closing.open_for_append()
        self.start_at(base_offset)
        closing.close_for_append()
        self.flusher.rolled.append((written, self.end_offset))
        snapshots.save_snapshot(self.directory.disk, self.folder, self.producer_state, self.end_offset, self.bases)
        self.save_epochs()
        aborted.save_checkpoint(self, closing=False)
        self.flusher.closed.append(closing)
        self.flusher.start()
        self.flusher.sync_indexes()

    def start_at(self, base_offset: int) -> None:
        """Make an empty segment the active one."""
        segment = Segment(
            self.directory,
            self.folder,
            base_offset,
            size=0,
            index_interval=self._settings.index_interval_bytes,
            index_size_max=self._settings.segment_index_bytes,
            created_ms=self.clock_wall_ms(),
        )
        file = segment.open_for_append()
        if file.size():
            self.directory.disk.cut(file, 0)
        with suppress(OSError):
            segment.save_indexes()
        self.flusher.folders[self.folder] = None
        self.segments.append(segment)
        self.bases.append(base_offset)
        self.active = segment
        self._writer = file

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Let one segment stand for some that follow each other. Slices of the old files stay good."""
        slot = self.bases.index(old[0].base_offset)
        assert self.segments[slot : slot + len(old)] == list(old), "the segments are those of the log"
        for segment in old:
            self.flusher.drop(segment)
            self.directory.open_files.forget(segment.path)
        self.segments[slot : slot + len(old)] = [new]
        self.bases[slot : slot + len(old)] = [new.base_offset]
        self._found = None

    def write_batches(self, records: memoryview, last_offset: int, timestamp: int, now_ms: int) -> int:
        """Write batches whose offsets are set behind the active segment's last; return their position."""
        file = self._writer or self._open_active()
        segment = self.active
        size = len(records)
        if segment.size and (
            segment.size + size > self._segment_bytes
            or timestamp > segment.roll_after
            or now_ms > segment.roll_after_now
            or not segment.fits(last_offset)
            or segment.full
        ):
            self.roll()
            file, segment = self._open_active(), self.active
        position = segment.size
        if self._torn:
            self._mend_tail()
        try:
            file.write((records,), position)
        except OSError as error:
            self._write_failed(error)
        return position

    def appended(self, base_offset: int, last_offset: int) -> Appended:
        """Move the end behind batches that were written and noted."""
        self.end_offset = last_offset + 1
        self._commit()
        return Appended(base_offset, last_offset, -1, self.start_offset, False)

    def _commit(self) -> None:
        if self.syncs_appends:
            if not self.flusher.busy:
                self.flusher.start()
        else:
            self.durable_offset = self.end_offset
            if self.end_offset - self.flushed_offset >= self._flush_messages:
                self.flusher.start()

    def _roll_for(self, size: int) -> File:
        """Roll because a batch of that size does not go into the active segment any more."""
        if size > self._segment_bytes:
            raise RecordListTooLarge(f"the batch has {size} bytes, and segment.bytes is {self._segment_bytes}")
        self.roll()
        return self._open_active()

    def _open_active(self) -> File:
        try:
            aborted.ensure_loaded(self, len(self.segments) - 1)
            self._writer = self.active.open_for_append()
            self.active.set_roll_times(self.roll_ms)
        except OSError as error:
            raise StorageError(f"{self.active.path}: {error}") from error
        except BadBatch as bad:
            self._refuse_damage(self.active, bad)
        except Damaged as found:
            self._refuse_damage(found.segment, found.bad)
        return self._writer

    def _first_batch(self, timestamp: int, now_ms: int) -> None:
        self.active.first_timestamp = timestamp
        self.active.created_ms = now_ms
        self.active.set_roll_times(self.roll_ms)

    def begin_first_batch(self, timestamp: int, size: int, now_ms: int) -> None:
        """Note the first batch of the active segment before it is noted where it stands."""
        self.active.size = size
        self._first_batch(timestamp, now_ms)

    def begin_epoch(self, epoch: int, offset: int) -> None:
        """Note the first batch of an epoch. An epoch below the latest changes nothing."""
        if epoch > self._latest_epoch:
            self.epochs.assign(epoch, offset)
            self._latest_epoch = self.epochs.latest

    def forget_unwritten_epochs(self) -> None:
        """This node no longer leads: what it led without writing anything is not part of the log."""
        self.epochs.truncate_end(self.end_offset)
        self._latest_epoch = self.epochs.latest

    def note_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: Marker,
        offset: int,
        timestamp: int,
        now_ms: int,
        *,
        transaction_version: int = 0,
    ) -> None:
        """Note the end of a transaction that is in the active segment now."""
        ended = self.producer_state.ended(
            producer_id,
            producer_epoch,
            marker.coordinator_epoch,
            offset,
            timestamp,
            now_ms,
            settled=False,
            transaction_version=transaction_version,
        )
        if ended is not None and not marker.commit:
            self.active.txn_index.append(ended)
            self.any_aborted = True

    def save_epochs(self) -> bool:
        """Save the epochs, which must come before a recovery point behind them; return whether they are on disk."""
        with suppress(OSError):
            self.epochs.save()
        return not self.epochs.dirty

    def _write_failed(self, error: OSError) -> NoReturn:
        """Take back what part of a batch may have been written, now or before the next append."""
        self._torn = True
        with suppress(StorageError):
            self._mend_tail()
        self.directory.write_failed(error)
        raise StorageError(f"{self.active.path}: {error}") from error

    def _mend_tail(self) -> None:
        try:
            self.active.open_for_append().truncate(self.active.size)
        except OSError as error:
            raise StorageError(f"{self.active.path}: {error}") from error
        self._torn = False

    def _guarded(self, work: Callable[[], _T]) -> _T:
        """Do something with the files; what the disk refuses or the bytes belie is StorageError."""
        try:
            return work()
        except Damaged as found:
            self._refuse_damage(found.segment, found.bad)
        except OSError as error:
            raise StorageError(f"{self.folder}: {error}") from error

    def _check_storage(self) -> None:
        """Refuse to append to a damaged log or in a folder that takes no writes, unless there is a reserve for it."""
        if self.damage is not None or self.directory.failure is not None or not self.has_reserve:
            self._refuse_storage()

    def _guarded_job(self, start: Callable[[], Job[_T]]) -> Job[_T]:
        """Like `_guarded`, for what is read in slices: the log may be cut, cleaned or closed in between."""
        while True:
            before = self.cut_count, list(self.segments)
            try:
                return (yield from start())
            except Damaged as found:
                if self._is_as(*before):
                    self._refuse_damage(found.segment, found.bad)
            except OSError as error:
                if self._is_as(*before):
                    raise StorageError(f"{self.folder}: {error}") from error
            if self.is_abandoned:
                self._refuse_storage()
            yield None

    def _is_as(self, cut_count: int, segments: list[Segment]) -> bool:
        return self.cut_count == cut_count and self.segments[: len(segments)] == segments

    def _refuse_storage(self) -> NoReturn:
        state = "read-only" if self.directory.is_read_only else "offline"
        raise StorageError(self.damage or f"{self.directory.path} is {state}: {self.directory.refusal}")

    def _refuse_damage(self, segment: Segment, bad: BadBatch) -> NoReturn:
        """Quarantine the log from the damage on: nothing is cut, nothing behind it is served.

        While it is not known where the damage of a large segment begins, nothing of that segment is served.
        """
        slot = bisect_right(self.bases, segment.base_offset)
        job = damage.locate(segment, bad, below=self.bases[slot] if slot < len(self.bases) else self.end_offset)
        try:
            next(job)
        except StopIteration as end:
            bad, offset = end.value
            self.quarantine(offset, damage.describe(segment, bad, offset))
        else:
            if self.damaged_from is None or segment.base_offset < self.damaged_from:
                why = f"{segment.path} is damaged at position {bad.position}: {bad.why}; its beginning is being located"
                self.quarantine(segment.base_offset, why, is_final=False)
                self.directory.run(job, partial(self._located, segment, self.damage))
        self._refuse_storage()

    def _located(
        self, segment: Segment, said: str | None, found: tuple[BadBatch, int] | None, error: BaseException | None
    ) -> None:
        """Quarantine no more than what is damaged, unless something else has been met meanwhile."""
        if found is None or self.damage != said or segment not in self.segments:
            return
        bad, offset = found
        self.damage = self.damaged_from = None
        self.quarantine(offset, damage.describe(segment, bad, offset))

    def _refuse_gap(self, segment: Segment, offset: int, next_offset: int) -> None:
        """Quarantine the log from an offset on that no batch holds: even compaction keeps the end of every segment."""
        self.quarantine(offset, f"{segment.path} ends before offset {offset}, and {next_offset} must follow it")
        self._refuse_storage()

    def quarantine(self, offset: int, why: str, *, is_final: bool = True) -> None:
        """Serve nothing from an offset on, and take no records: something there is missing or cannot be read."""
        if self.damaged_from is None or offset < self.damaged_from:
            self.damaged_from = offset
            self.damage = why
            logger.error("%s is quarantined from offset %d on: %s", self.topic_partition, offset, why)
            if is_final:
                damage.save_quarantine(self.directory.disk, self.folder, offset, why)

    def lift_quarantine(self) -> None:
        """Serve everything and take records again: what could not be read can be read."""
        logger.warning("%s can be read again; its quarantine is lifted", self.topic_partition)
        self.damage = self.damaged_from = None
        with suppress(OSError):
            damage.lift_quarantine(self.directory.disk, self.folder)


def _nothing() -> None:
    return


def _ignore(offset: int) -> None:
    return


def _at_once(done: Callable[[OSError | None], None]) -> None:
    done(None)
