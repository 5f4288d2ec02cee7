"""The write path of a log on leaders and followers: the active segment's file, rolls, and failed writes.

Segments roll by size, by time, when an index is full and when offsets no longer fit into it. A failed write leaves
nothing visible: the file is truncated immediately or before the next write. flush.py moves the end of the log later,
once log.py or replicated.py has recorded epoch and producer. Refuses: RecordListTooLarge, StorageError.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from crc32c import crc32c

from penstock.config.settings import TopicSettings
from penstock.model.errors import RecordListTooLarge, StorageError
from penstock.ports.disk import File
from penstock.storage import aborted
from penstock.storage.reserve import is_disk_full
from penstock.storage.scan import RELATIVE_OFFSET_MAX, BadBatch
from penstock.storage.segment import Damaged, Segment

if TYPE_CHECKING:
    from penstock.storage.log import Log


class SegmentWriter:
    """Appends batches whose offsets are already set."""

    __slots__ = ("_file", "_is_torn", "_log", "_segment_bytes", "_segments", "is_open", "roll_ms")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._segments = log.segments
        # The active segment's file, once something is written to it, unless it was released.
        self._file: File | None = None
        self.is_open = False
        """Whether the active segment may have been written to since the log was opened or truncated."""
        # Whether the file may end with a part of a batch.
        self._is_torn = False
        self._segment_bytes = self.roll_ms = 0

    def apply_settings(self, settings: TopicSettings) -> None:
        """Use other limits from the next append on."""
        self._segment_bytes = settings.segment_bytes
        roll_ms = min(settings.segment_ms, settings.max_compaction_lag_ms) if settings.compact else settings.segment_ms
        if settings.segment_jitter_ms:
            # The jitter is derived from the folder name, so that it is the same after a restart.
            roll_ms -= crc32c(self._log.folder.encode()) % min(settings.segment_jitter_ms, roll_ms)
        self.roll_ms = roll_ms
        if self.is_open:
            self._segments.active.set_roll_times(roll_ms)

    # Writing

    def write(
        self,
        records: memoryview,
        offset: int,
        last_offset: int,
        timestamp: int,
        now_ms: int,
        any_size: bool = False,
        is_one: bool = True,
    ) -> int:
        """Write a batch, record its position and return it.

        `any_size`: the batch may be larger than `segment.bytes`, because the leader has accepted it. Unless `is_one`,
        there are several batches, which the caller records in the active segment.
        """
        file = self._file or self._open()
        segment = self._segments.active
        position = segment.size
        size = len(records)
        if (
            position + size > self._segment_bytes
            or timestamp > segment.roll_after
            or now_ms > segment.roll_after_now
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or segment.full
        ):
            if size > self._segment_bytes and not any_size:
                raise RecordListTooLarge(f"the batch has {size} bytes, more than segment.bytes, {self._segment_bytes}")
            self.roll()
            file = self._open()
            segment = self._segments.active
            position = segment.size
        if self._is_torn:
            self.mend_tail()
        try:
            file.write((records,), position)
        except OSError as error:
            self._write_failed(error)
        if is_one:
            segment.added(offset, last_offset, position, size, timestamp)
            if not position:
                self.note_first(timestamp, now_ms)
        return position

    def note_first(self, timestamp: int, now_ms: int) -> None:
        """Record the times of the active segment's first batch, which determine when it rolls."""
        segment = self._segments.active
        segment.first_timestamp = timestamp
        segment.created_ms = now_ms
        segment.set_roll_times(self.roll_ms)

    def _open(self) -> File:
        log, active = self._log, self._segments.active
        try:
            aborted.ensure_loaded(log, len(self._segments) - 1)
            file = active.open_for_append()
            active.set_roll_times(self.roll_ms)
        except OSError as error:
            # If an I/O error persists, the log is quarantined, so that another replica leads or this one is refilled.
            log.reader.on_read_error(active, max(active.base_offset, log.start_offset), error)
        except BadBatch as bad:
            log.quarantine.refuse_damage(active, bad)
        except Damaged as found:
            log.quarantine.refuse_damage(found.segment, found.bad)
        self._file, self.is_open = file, True
        log.directory.open_writers.opened(log)
        return file

    def _write_failed(self, error: OSError) -> NoReturn:
        """Remove what a failed write may have left, now or before the next append."""
        self._is_torn = True
        with suppress(StorageError):
            self.mend_tail()
        self._log.directory.write_failed(error)
        raise StorageError(f"{self._segments.active.path}: {error}") from error

    def mend_tail(self) -> None:
        """Truncate the file to the end of the last complete batch, after a failed write."""
        if self._is_torn:
            active = self._segments.active
            try:
                active.open_for_append().truncate(active.size)
            except OSError as error:
                raise StorageError(f"{active.path}: {error}") from error
            self._is_torn = False

    # Segments

    def roll(self) -> None:
        """Close the active segment and begin another, unless it is empty."""
        log, active = self._log, self._segments.active
        if active.size == 0:
            return
        self.mend_tail()
        try:
            self._begin_next(log.end_offset)
        except OSError as error:
            if is_disk_full(error):
                # Other errors may concern only this log, because its files are read here as well.
                log.directory.write_failed(error)
            raise StorageError(f"{log.folder}: cannot create a segment: {error}") from error
        except BadBatch as bad:
            log.quarantine.refuse_damage(active, bad)

    def _begin_next(self, base_offset: int) -> None:
        """Create the next active segment. The old one stays active if that fails."""
        log = self._log
        closing = self._segments.active
        written = closing.open_for_append()
        self.begin_at(base_offset)
        closing.close_for_append()
        log.flusher.add_closed(closing, written, base_offset)
        log.save_snapshot()
        log.save_epochs()
        aborted.save_checkpoint(log, closing=False)
        log.flusher.start()
        log.flusher.sync_indexes()

    def begin_at(self, base_offset: int) -> None:
        """Create an empty segment and make it the active one."""
        log = self._log
        segment = Segment(
            log.directory,
            log.folder,
            base_offset,
            size=0,
            index_interval=log.settings.index_interval_bytes,
            index_size_max=log.settings.segment_index_bytes,
            created_ms=log.clock_wall_ms(),
        )
        file = segment.open_for_append()
        if file.size():
            log.directory.disk.cut(file, 0)
        with suppress(OSError):
            segment.save_indexes()
        log.flusher.sync_folder_next(log.folder)
        self._segments.add(segment)
        self._file, self.is_open = file, True
        log.directory.open_writers.opened(log)

    def forget_file(self) -> None:
        """Open the active segment again before the next write, because the log was truncated."""
        self._file, self.is_open = None, False

    def release(self) -> bool:
        """Close the active segment's file until the next write; return False if it has unsynced writes."""
        if self._is_torn or not self._log.flusher.release_file():
            return False
        self._file = None
        self._segments.active.release_file()
        self._log.directory.on_release(self._segments.active.path)
        return True

    def close(self) -> Segment | None:
        """Close the active segment's file; return the segment if it was written to."""
        if not self.is_open:
            return None
        self._file, self.is_open = None, False
        self._segments.active.close_for_append()
        return self._segments.active
