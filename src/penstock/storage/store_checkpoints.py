"""What a data folder knows of its logs: where they begin, how far they reach at least, and that they exist.

The base of `LogStore`, which opens logs with what is known here, so that they notice what is missing. The table of
all knowledge stands in docs/internals/damage.md. Goes to checkpoint.py, saved_offsets.py and held.py.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final
from uuid import UUID

from penstock.config.settings import TopicSettings
from penstock.model.errors import StorageError
from penstock.model.ids import TopicPartition
from penstock.ports.disk import Disk
from penstock.storage.checkpoint import (
    CLEAN_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    encode_offsets,
    read_offsets,
    write_offsets,
)
from penstock.storage.directory import LogDirectory
from penstock.storage.held_partitions import HeldPartitions, Holding
from penstock.storage.log import Log
from penstock.storage.partition_folder import PARTITION_METADATA
from penstock.storage.recovery import LogExpectations
from penstock.storage.saved_offsets import SavedOffsets

# A start scans what was synced since the last checkpoint: so much of it takes a tenth of a second.
UNCHECKED_SIZE_MAX: Final = 256 * 1024 * 1024


def make_durable(disk: Disk, folder: str) -> None:
    """Sync what a killed process may have left in the cache: what is read now must be what a power loss leaves."""
    # The only checkpoint that is written without a sync.
    path = f"{folder}/{HIGH_WATERMARKS}"
    if disk.exists(path) and not read_offsets(disk, path):
        # A torn one goes for good. Written over, it could become again what it was, by a power loss at that moment.
        disk.remove(path)
    elif disk.exists(path):
        file = disk.open(path)
        file.sync()
        file.close()
    disk.sync_folder(folder)


class StoreCheckpoints:
    """The checkpoints of one data folder, and the partitions that it holds."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self.folder = directory.path
        self.logs: dict[TopicPartition, Log] = {}
        self._disk = directory.disk
        # As last written; logs that are not open keep what was found.
        self._recovery_points = read_offsets(self._disk, self._path(RECOVERY_POINTS))
        self.log_starts = SavedOffsets(
            self._disk,
            self.folder,
            LOG_STARTS,
            lambda: {at: log.start_offset for at, log in self.logs.items()},
            directory.with_reserve,
        )
        # How far compaction has come. Without it a log counts as dirty from its start.
        self.clean_offsets = SavedOffsets(
            self._disk,
            self.folder,
            CLEAN_OFFSETS,
            lambda: {at: log.compaction.clean_offset for at, log in self.logs.items()},
            directory.with_reserve,
        )
        # Lower bounds, as they were found or last written.
        self.high_watermarks: Mapping[TopicPartition, int] = read_offsets(self._disk, self._path(HIGH_WATERMARKS))
        # How large each active segment was at the last checkpoint of its recovery point.
        self._checked_sizes: dict[TopicPartition, int] = {}
        # Partitions that are deleted, while a mark or a recovery point of theirs may still be on disk.
        self._deleted_marks, self._deleted_points = set[TopicPartition](), set[TopicPartition]()
        self._held = HeldPartitions(self._disk, self.folder)
        # Logs whose folders' names a power loss could still take.
        self._unsynced_folders: set[Log] = set()

    # What is known of a log that is opened

    def _known(self, topic_partition: TopicPartition, settings: TopicSettings, *, held: bool) -> LogExpectations:
        return LogExpectations(
            recovery_point=self._recovery_points.get(topic_partition, 0),
            log_start=self.log_starts.found(topic_partition),
            least_end=self._least_end(topic_partition, settings),
            held=held,
        )

    @property
    def _is_same_boot(self) -> bool:
        """Whether nothing that the last process wrote can be missing. After a failed sync it can."""
        return self._held.is_same_boot and not self.directory.failed_before

    def _is_lost(self, topic_partition: TopicPartition, holding: Holding, settings: TopicSettings) -> bool:
        """Whether a partition without a folder had one. The table stands in docs/internals/damage.md."""
        if self._held.is_new:
            return bool(self._recovery_points.get(topic_partition) or self.high_watermarks.get(topic_partition))
        if holding is Holding.CREATED:
            return self._is_same_boot and settings.flush_mode != "fsync"
        return holding is Holding.HELD

    def _least_end(self, topic_partition: TopicPartition, settings: TopicSettings) -> int:
        """An offset that a log must reach, by its mark; 0 where a power loss may have taken what is below the mark."""
        is_durable = self._is_same_boot or settings.flush_mode == "fsync"
        return self.high_watermarks.get(topic_partition, 0) if is_durable else 0

    def note_boot(self) -> None:
        """Remember, once every log is open, under which boot of the machine they are written.

        A log that lost its end to a restart of the machine has a mark behind that, which counts within a boot.
        """
        ends = {topic_partition: log.end_offset for topic_partition, log in self.logs.items() if log.damage is None}
        marks = self.high_watermarks
        with suppress(StorageError):
            self.checkpoint_high_watermarks({at: min(mark, ends.get(at, mark)) for at, mark in marks.items()})
            self._held.note_boot()

    def _forget_previous(self, topic_partition: TopicPartition) -> None:
        """No power loss may give a new log an offset or the mark of one that had its name. Raises StorageError."""
        self.log_starts.reset(topic_partition)
        self.clean_offsets.reset(topic_partition)
        self._forget_point(topic_partition)
        if topic_partition in self._deleted_points:
            self._write_points(self._recovery_points)
        if topic_partition in self._deleted_marks or topic_partition in self.high_watermarks:
            left = {each: mark for each, mark in self.high_watermarks.items() if each != topic_partition}
            self.high_watermarks = self._write(HIGH_WATERMARKS, None, left)
            self._deleted_marks.clear()

    def _forget_mark(self, topic_partition: TopicPartition) -> None:
        if topic_partition in self.high_watermarks:
            self.high_watermarks = {
                each: mark for each, mark in self.high_watermarks.items() if each != topic_partition
            }
            self._deleted_marks.add(topic_partition)

    def _forget_point(self, topic_partition: TopicPartition) -> None:
        if self._recovery_points.pop(topic_partition, None):
            self._deleted_points.add(topic_partition)

    # Partitions that are held

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
        """The names of a log are durable: from its first batch on a missing folder is a loss."""
        key = log.topic_id, log.topic_partition.partition
        # A log that a full disk has refused a slot is entered by the next start.
        if self._held[key] is not Holding.UNKNOWN:
            self._held.note(key, Holding.HELD)
        self._held.sync()
        if log in self._unsynced_folders:
            # The data folder was synced for this log, and with it the names of all folders that were made before.
            for each in self._unsynced_folders:
                each.flusher.folder_is_synced(self.folder)
            self._unsynced_folders.clear()

    # Checkpoints

    def checkpoint_recovery_points(self) -> None:
        """Write down what a crash need not scan again; epochs that only the log knew are written first."""
        points = dict(self._recovery_points)
        for topic_partition, log in self.logs.items():
            if log.damage is not None:
                continue
            log.flusher.sync_indexes()
            if log.recovery_point < points.get(topic_partition, 0) or log.save_epochs():
                points[topic_partition] = log.recovery_point
                self._checked_sizes[topic_partition] = log.segments.active.size
        self._write_points(points)
        try:
            self._held.sync()
        except OSError as error:
            self.directory.fail(error)
            raise StorageError(f"{self.folder}: {error}") from error

    def _write_points(self, points: Mapping[TopicPartition, int]) -> None:
        old = None if self._deleted_points else self._recovery_points
        self._recovery_points = self._write(RECOVERY_POINTS, old, points)
        self._deleted_points.clear()

    def checkpoint_log_starts(self) -> None:
        """Write down what deletion has hidden, before returning."""
        self.log_starts.save_now()

    def _truncating(self, topic_partition: TopicPartition, offset: int) -> None:
        """A log is about to be cut: no crash may leave an offset behind what is left of it."""
        self.checkpoint_recovery_points()
        self.clean_offsets.save_now()
        if self.high_watermarks.get(topic_partition, 0) > offset:
            self.high_watermarks = self._write(HIGH_WATERMARKS, None, {**self.high_watermarks, topic_partition: offset})

    def checkpoint_high_watermarks(self, marks: Mapping[TopicPartition, int]) -> None:
        """Write down lower bounds of the marks; not synced, since a file that fails its checks is as good as none."""
        if marks != self.high_watermarks:
            try:
                file = self._disk.open(self._path(HIGH_WATERMARKS), create=True)
                try:
                    content = encode_offsets(marks)
                    file.write((content,), 0)
                    file.truncate(len(content))
                finally:
                    file.close()
            except OSError as error:
                raise StorageError(f"{self._path(HIGH_WATERMARKS)}: {error}") from error
            # Until a synced write, a power loss may bring back those that are left out.
            self._deleted_marks |= self.high_watermarks.keys() - marks.keys()
        self.high_watermarks = dict(marks)

    def checkpoint_is_due(self) -> bool:
        """Whether a crash now would have to scan more than active segments, or much of those."""
        points = self._recovery_points
        unchecked = 0
        for topic_partition, log in self.logs.items():
            if log.segments.active.base_offset > points.get(topic_partition, 0):
                return True
            if log.offsets.flushed > points.get(topic_partition, 0):
                unchecked += log.segments.active.size - self._checked_sizes.get(topic_partition, 0)
        return unchecked > UNCHECKED_SIZE_MAX

    def _write(
        self, name: str, old: Mapping[TopicPartition, int] | None, new: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if new != old:
            try:
                self.directory.with_reserve(lambda: write_offsets(self._disk, self._path(name), new))
            except OSError as error:
                raise StorageError(f"{self._path(name)}: {error}") from error
        return dict(new)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"
