"""The checkpoints of a data folder: where its logs begin, how far they reach at least, and that they exist.

The base class of `LogStore`, which passes these values to recovery, so that missing records are noticed. The table of
all values is in docs/internals/damage.md. Calls checkpoint.py, saved_offsets.py and held_partitions.py.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

from penstock.config.settings import TopicSettings
from penstock.model.errors import StorageError
from penstock.model.ids import TopicPartition
from penstock.model.job import Job, finish
from penstock.ports.disk import Disk
from penstock.storage.checkpoint import (
    CLEAN_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    encode_offsets,
    encode_offsets_job,
    read_offsets,
    write_offsets,
    write_unsynced,
)
from penstock.storage.directory import LogDirectory
from penstock.storage.held_partitions import HeldPartitions, Holding
from penstock.storage.log import Log
from penstock.storage.partition_folder import PARTITION_METADATA
from penstock.storage.recovered import LogExpectations
from penstock.storage.saved_offsets import SavedOffsets

logger = logging.getLogger(__name__)

# Recovery scans what was synced since the last checkpoint; this much takes a tenth of a second.
UNCHECKED_SIZE_MAX: Final = 256 * 1024 * 1024
LOGS_PER_SLICE: Final = 200


def make_durable(disk: Disk, folder: str) -> None:
    """Sync what a killed process may have left in the page cache, so that a power failure cannot undo it later."""
    # This is the only checkpoint that is written without a sync.
    path = f"{folder}/{HIGH_WATERMARKS}"
    if disk.exists(path) and not read_offsets(disk, path):
        # Remove a torn file: if it were overwritten, a power failure at that moment could restore its old content.
        disk.remove(path)
    elif disk.exists(path):
        file = disk.open(path)
        file.sync()
        file.close()
    disk.sync_folder(folder)


class StoreCheckpoints:
    """The checkpoints of one data folder, and the table of its partitions."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self.folder = directory.path
        self.logs: dict[TopicPartition, Log] = {}
        self._disk = directory.disk
        # As of the last checkpoint; logs that are not open keep the values that were read at startup.
        self.recovery_points = SavedOffsets(
            self._disk, self.folder, RECOVERY_POINTS, dict, directory.with_reserve, self._run
        )
        self._is_gathering = False
        self.log_starts = SavedOffsets(
            self._disk,
            self.folder,
            LOG_STARTS,
            lambda: {at: log.start_offset for at, log in self.logs.items()},
            directory.with_reserve,
            self._run,
        )
        # The progress of compaction. Without it, a log counts as dirty from its start.
        self.clean_offsets = SavedOffsets(
            self._disk,
            self.folder,
            CLEAN_OFFSETS,
            lambda: {at: log.compaction.clean_offset for at, log in self.logs.items()},
            directory.with_reserve,
            self._run,
        )
        # Lower bounds, as read at startup or last written.
        self.high_watermarks: dict[TopicPartition, int] = read_offsets(self._disk, self._path(HIGH_WATERMARKS))
        self._is_saving_marks = False
        # The number of events after which high watermarks that were gathered before must not be written.
        self._mark_resets = 0
        # The size of each active segment at the last checkpoint of its recovery point.
        self._checked_sizes: dict[TopicPartition, int] = {}
        # Deleted partitions whose high watermark may still be on disk.
        self._deleted_marks = set[TopicPartition]()
        self._held = HeldPartitions(self._disk, self.folder)
        # Logs whose folder names a power failure could still undo.
        self._unsynced_folders: set[Log] = set()

    # Expectations for a log that is opened

    def _known(self, topic_partition: TopicPartition, settings: TopicSettings, *, held: bool) -> LogExpectations:
        return LogExpectations(
            recovery_point=self.recovery_points.found(topic_partition),
            log_start=self.log_starts.found(topic_partition),
            least_end=self._least_end(topic_partition, settings),
            held=held,
        )

    @property
    def _is_same_boot(self) -> bool:
        """Return whether everything that the previous process wrote must be present; not so after a failed sync."""
        return self._held.is_same_boot and not self.directory.failed_before

    def _is_lost(self, topic_partition: TopicPartition, holding: Holding, settings: TopicSettings) -> bool:
        """Return whether a partition without a folder had one. The table is in docs/internals/damage.md."""
        if self._held.is_new:
            return bool(self.recovery_points.found(topic_partition) or self.high_watermarks.get(topic_partition))
        if holding is Holding.CREATED:
            return self._is_same_boot and settings.flush_mode != "fsync"
        return holding is Holding.HELD

    def _least_end(self, topic_partition: TopicPartition, settings: TopicSettings) -> int:
        """Return the offset that a log must reach: its high watermark, or 0 after a power failure without syncs."""
        is_durable = self._is_same_boot or settings.flush_mode == "fsync"
        return self.high_watermarks.get(topic_partition, 0) if is_durable else 0

    def note_boot(self) -> None:
        """Store the boot id of the machine once every log is open.

        Lowers the high watermarks of logs that lost their end when the machine restarted, because from now on a log
        must reach its high watermark.
        """
        ends = {topic_partition: log.end_offset for topic_partition, log in self.logs.items() if log.damage is None}
        marks = self.high_watermarks
        with suppress(StorageError):
            self.checkpoint_high_watermarks({at: min(mark, ends.get(at, mark)) for at, mark in marks.items()})
            self._held.note_boot()

    def _forget_previous(self, topic_partition: TopicPartition) -> None:
        """Durably remove the offsets of a deleted log with the same name as a new one. Raises StorageError."""
        self.log_starts.reset(topic_partition)
        self.clean_offsets.reset(topic_partition)
        self.recovery_points.reset(topic_partition)
        if topic_partition in self._deleted_marks or topic_partition in self.high_watermarks:
            self._mark_resets += 1
            left = {each: mark for each, mark in self.high_watermarks.items() if each != topic_partition}
            self.high_watermarks = self._write(HIGH_WATERMARKS, None, left)
            self._deleted_marks.clear()

    def _forget_mark(self, topic_partition: TopicPartition) -> None:
        self._mark_resets += 1
        if topic_partition in self.high_watermarks:
            del self.high_watermarks[topic_partition]
            self._deleted_marks.add(topic_partition)

    # The partition table

    def _note_held(self, key: tuple[UUID, int], state: Holding) -> None:
        self.directory.with_reserve(lambda: self._held.note(key, state))

    def _sync_names_with_first_batch(self, log: Log) -> None:
        log.flusher.sync_names_next(
            files=[f"{log.folder}/{PARTITION_METADATA}"],
            folders=[log.folder, self.folder],
            on_named=partial(self._names_synced_with_batch, log),
        )
        self._unsynced_folders.add(log)

    def _names_synced_with_batch(self, log: Log) -> None:
        """Record that a log's folder is durable: if it is missing later, records are lost."""
        key = log.topic_id, log.topic_partition.partition
        # If the disk was too full for a slot, the next start adds the log.
        if self._held[key] is not Holding.UNKNOWN:
            self._held.note(key, Holding.HELD)
        self._held.sync()
        if log in self._unsynced_folders:
            # This synced the data folder, and with it the names of all folders that were created before.
            for each in self._unsynced_folders:
                each.flusher.folder_is_synced(self.folder)
            self._unsynced_folders.clear()

    # Checkpoints

    def checkpoint_recovery_points(self) -> None:
        """Write the recovery points before returning. Blocks, so for cold paths only. Raises StorageError."""
        finish(self._gather_recovery_points())
        self.recovery_points.save_now()
        try:
            self._held.sync()
        except OSError as error:
            self.directory.fail(error)
            raise StorageError(f"{self.folder}: {error}") from error

    def checkpoint_recovery_points_later(self) -> None:
        """Write the recovery points in slices and off the event loop. A failed write is tried again with the next."""
        if not self._is_gathering:
            self._is_gathering = True
            self._run(self._gather_recovery_points(), self._gathered)

    def _gathered(self, _: None, error: BaseException | None) -> None:
        self._is_gathering = False
        if error is None and self.directory.failure is None:
            self.recovery_points.moved()
            try:
                self._held.sync()
            except OSError as failure:
                self.directory.fail(failure)

    def _gather_recovery_points(self) -> Job[None]:
        """Take the recovery points of all logs; leader epochs that are only in memory are written first.

        A log may be truncated between two slices or while the points are written: `_truncating` lowers its point.
        """
        saved = self.recovery_points
        for count, log in enumerate(list(self.logs.values()), 1):
            if count % LOGS_PER_SLICE == 0:
                yield None
            topic_partition = log.topic_partition
            if log.damage is not None or self.logs.get(topic_partition) is not log:
                continue
            log.flusher.sync_indexes()
            if log.recovery_point < saved.found(topic_partition) or log.save_epochs():
                saved.keep({topic_partition: log.recovery_point})
                self._checked_sizes[topic_partition] = log.segments.active.size

    def checkpoint_log_starts(self) -> None:
        """Write the log start offsets before returning."""
        self.log_starts.save_now()

    def _truncating(self, topic_partition: TopicPartition, offset: int) -> None:
        """Lower the checkpoints of a log before it is truncated: after a crash, none may lie beyond its end."""
        log = self.logs.get(topic_partition)
        is_damaged = log is not None and log.damage is not None
        if not is_damaged:
            if self.recovery_points.found(topic_partition) > offset:
                self.recovery_points.keep({**self._points_at_marks(), topic_partition: offset})
            self.recovery_points.lower(topic_partition, offset)
        self.clean_offsets.lower(topic_partition, offset)
        self._mark_resets += 1
        if self.high_watermarks.get(topic_partition, 0) > offset:
            self.high_watermarks = self._write(HIGH_WATERMARKS, None, {**self.high_watermarks, topic_partition: offset})

    def _points_at_marks(self) -> dict[TopicPartition, int]:
        """Return lower recovery points for logs that may be truncated soon, as long as recovery scans no more for it.

        A replica that gets another leader is truncated at its high watermark or later, usually together with many
        others. After this write none of them needs one of its own.
        """
        lowered = {}
        for topic_partition, point in self.recovery_points.items():
            mark = self.high_watermarks.get(topic_partition)
            log = self.logs.get(topic_partition)
            if mark is not None and mark < point and log is not None and log.damage is None:
                lowered[topic_partition] = min(point, max(mark, log.segments.active.base_offset))
        return lowered

    def checkpoint_high_watermarks(self, marks: Mapping[TopicPartition, int]) -> None:
        """Write lower bounds of the high watermarks, without a sync: a file that fails its checks is ignored."""
        self._mark_resets += 1
        if marks != self.high_watermarks:
            try:
                write_unsynced(self._disk, self._path(HIGH_WATERMARKS), encode_offsets(marks))
            except OSError as error:
                raise StorageError(f"{self._path(HIGH_WATERMARKS)}: {error}") from error
            # Until the next synced write, a power failure may restore the entries that are left out.
            self._deleted_marks |= self.high_watermarks.keys() - marks.keys()
        self.high_watermarks = dict(marks)

    def checkpoint_high_watermarks_later(self, gather: Job[dict[TopicPartition, int]]) -> None:
        """Write the high watermarks that a job returns, like `checkpoint_high_watermarks`, but in slices.

        If a log is truncated or deleted meanwhile, nothing is written: its value may be too high by then.
        """
        if not self._is_saving_marks:
            self._is_saving_marks = True
            self._run(self._save_marks(gather), self._marks_saved)

    def _save_marks(self, gather: Job[dict[TopicPartition, int]]) -> Job[None]:
        resets = self._mark_resets
        marks = yield from gather
        if resets != self._mark_resets or marks is self.high_watermarks:
            return
        removed: list[TopicPartition] = []
        is_changed = len(marks) != len(self.high_watermarks)
        for count, (each, mark) in enumerate(list(self.high_watermarks.items()), 1):
            found = marks.get(each)
            if found is None:
                removed.append(each)
            elif found != mark:
                is_changed = True
            if count % LOGS_PER_SLICE == 0:
                yield None
        if not is_changed and not removed:
            return
        content = yield from encode_offsets_job(marks)
        if resets == self._mark_resets and self.directory.failure is None:
            write_unsynced(self._disk, self._path(HIGH_WATERMARKS), content)
            # Until the next synced write, a power failure may restore the entries that are left out.
            self._deleted_marks.update(removed)
            self.high_watermarks = marks

    def _marks_saved(self, _: None, error: BaseException | None) -> None:
        self._is_saving_marks = False
        if error is not None:
            logger.warning("cannot write the high watermarks: %s", error)

    def unchecked_size(self, log: Log) -> int:
        """Return how much more recovery would scan after a crash than after a checkpoint: if the sum over some logs
        exceeds `UNCHECKED_SIZE_MAX`, a checkpoint is due. A closed segment alone makes one due.
        """
        topic_partition = log.topic_partition
        point = self.recovery_points.found(topic_partition)
        if log.segments.active.base_offset > point:
            return UNCHECKED_SIZE_MAX + 1
        if log.offsets.flushed > point:
            return log.segments.active.size - self._checked_sizes.get(topic_partition, 0)
        return 0

    def _write(
        self, name: str, old: Mapping[TopicPartition, int] | None, new: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if new != old:
            try:
                self.directory.with_reserve(lambda: write_offsets(self._disk, self._path(name), new))
            except OSError as error:
                raise StorageError(f"{self._path(name)}: {error}") from error
        return dict(new)

    def _run(self, job: Job[Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.directory.run(job, done)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"
