"""All logs of one data folder.

Owns the folder's lock, its `meta.properties`, the checkpoints, and the partition folders: opens, creates and deletes
them (renamed immediately, removed later). A folder with the wrong topic id is set aside as stray and never deleted:
only the deletion of its topic does that. Calls log.py. Refuses: StartupError.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from uuid import UUID

from penstock.config.settings import TopicSettings
from penstock.model.errors import StartupError, StorageError
from penstock.model.ids import TopicId, TopicPartition
from penstock.model.job import Job, finish
from penstock.ports.clock import Clock
from penstock.ports.disk import Disk, FolderLock
from penstock.ports.entropy import Entropy
from penstock.storage import clean_shutdown, retention_clock
from penstock.storage.clean_shutdown import NO_BROKER_EPOCH
from penstock.storage.closing import close_many
from penstock.storage.directory import SYNCED_ALONE_MAX, LogDirectory
from penstock.storage.held_partitions import Holding
from penstock.storage.journal import GROUP_FILES_LEAST, JOURNAL_SIZE, Journal
from penstock.storage.journaled_disk import JournaledDisk, replay
from penstock.storage.log import Log
from penstock.storage.log_checkpoints import LogCheckpoints
from penstock.storage.meta_properties import MetaProperties, claim_folder
from penstock.storage.open_writers import OPEN_WRITERS_MAX
from penstock.storage.partition_folder import (
    DAMAGED_SUFFIX,
    DELETE_SUFFIX,
    METADATA_FOLDER,
    PARTITION_METADATA,
    STRAY_SUFFIX,
    belongs_to,
    holds_records,
    is_partition_like,
    make_data_folder,
    parse_folder,
    read_topic_id,
    suffixed,
    write_topic_id,
)
from penstock.storage.recovered import NEW_LOG
from penstock.storage.recovery import recover_unreadable
from penstock.storage.reserve import Reserve, is_disk_full
from penstock.storage.retention_clock import RetentionClock
from penstock.storage.store_checkpoints import StoreCheckpoints, make_durable
from penstock.storage.sync_failure import SyncFailure
from penstock.storage.write_probe import WriteProbe

logger = logging.getLogger(__name__)


class LogStore(StoreCheckpoints):
    """The logs of one data folder, by partition."""

    def __init__(
        self,
        directory: LogDirectory,
        journal: Journal,
        clock: Clock,
        entropy: Entropy,
        meta: MetaProperties,
        lock: FolderLock,
        sync_failure: SyncFailure,
        *,
        clean: bool,
    ) -> None:
        super().__init__(directory)
        self._journal = journal
        self.meta = meta
        self.was_clean = clean
        self.previous_broker_epoch = NO_BROKER_EPOCH
        """The broker epoch of the previous process if it stopped cleanly, which proves that nothing was lost."""
        self.on_failure: Callable[[], None] = lambda: None
        self.on_read_only: Callable[[bool], None] = lambda read_only: None
        """Called when the folder becomes read-only, and when it accepts writes again."""
        self._probe: WriteProbe | None = None
        self._clock = clock
        self._wall_ms = clock.wall_ms  # one bound method for all logs
        self._entropy = entropy
        self._lock = lock
        self._retention_clock = RetentionClock(
            retention_clock.load(self._disk, self.folder), monotonic_ms=int(clock.monotonic() * 1000)
        )
        self.retention_now_ms()
        # Folders of deleted partitions, each with the time when it may be removed.
        self._pending_removals: list[tuple[int, str]] = []
        self._syncing_names = self._names_changed = self._has_unopened = False
        self._log_checkpoints = LogCheckpoints(
            start_moved=self.log_starts.moved,
            when_start_saved=self.log_starts.when_saved,
            truncating=self._truncating,
        )
        self._sync_failure = sync_failure
        directory.failed_before = sync_failure.has_failed
        directory.on_failure = self._failed
        directory.on_release = journal.sync_released
        journal.on_failure = directory.fail

    @classmethod
    def load(
        cls,
        disk: Disk,
        folder: str,
        *,
        cluster_id: str | None,
        node_id: int,
        clock: Clock,
        entropy: Entropy,
        journal_size: int = JOURNAL_SIZE,
        journal_group_least: int = GROUP_FILES_LEAST,
        reserve_size: int = 0,
        open_writers_max: int = OPEN_WRITERS_MAX,
    ) -> LogStore:
        """Lock and load a data folder; a new one gets the given cluster id, or a random one."""
        try:
            make_data_folder(disk, folder)
            lock = disk.lock_folder(folder)
        except BlockingIOError:
            raise StartupError(f"{folder} is in use by another process: stop it, or choose another folder") from None
        except OSError as error:
            raise StartupError(f"cannot use {folder}: {error.strerror or error}") from None
        try:
            with ExitStack() as if_refused:
                if_refused.callback(lock.release)
                in_use = any(is_partition_like(name) for name in disk.list(folder))
                meta = claim_folder(
                    disk, folder, cluster_id=cluster_id, node_id=node_id, entropy=entropy, in_use=in_use
                )
                broker_epoch = clean_shutdown.take(disk, folder)
                make_durable(disk, folder)
                journal = Journal(
                    disk, folder, secret=entropy.uuid().int, size=journal_size, group_least=journal_group_least
                )
                reserve = Reserve(disk, folder, reserve_size)
                sync_failure = SyncFailure(disk, folder)
                if_refused.callback(sync_failure.close)
                journal.on_failure = sync_failure.record
                replay(journal, folder, reserve)
                directory = LogDirectory(JournaledDisk(disk, journal), folder, clock.monotonic)
                directory.reserve = reserve
                # The other half is for connections and for files that are read.
                directory.limit_writers(max(1, min(open_writers_max, disk.open_files_max() // 2)))
                is_clean = broker_epoch is not None
                store = cls(directory, journal, clock, entropy, meta, lock, sync_failure, clean=is_clean)
                store._probe = WriteProbe(directory, reserve, disk, clock, store._read_only_changed)
                store._probe.start()
                store.previous_broker_epoch = NO_BROKER_EPOCH if broker_epoch is None else broker_epoch
                store._pending_removals = [
                    (0, f"{folder}/{name}") for name in disk.list(folder) if name.endswith(DELETE_SUFFIX)
                ]
                if_refused.pop_all()
                return store
        except OSError as error:
            raise StartupError(f"cannot use {folder}: {error.strerror or error}") from None

    @property
    def cluster_id(self) -> str:
        return self.meta.cluster_id

    @property
    def directory_id(self) -> UUID:
        return self.meta.directory_id

    @property
    def failure(self) -> OSError | None:
        """Return why the folder is offline, None if it is not."""
        return self.directory.failure

    @property
    def is_read_only(self) -> bool:
        """Return whether the folder serves reads but accepts no writes."""
        return self.directory.is_read_only

    @property
    def needed_bytes(self) -> int:
        """Return how much must be free before the full folder accepts writes; 0 if it is not full."""
        directory = self.directory
        is_full = directory.is_read_only and is_disk_full(directory.refusal)
        return directory.reserve.room_needed if is_full and directory.reserve is not None else 0

    @property
    def reserved_bytes(self) -> int:
        """Return the remaining reserved space."""
        reserve = self.directory.reserve
        return 0 if reserve is None else reserve.held

    def _read_only_changed(self) -> None:
        self.on_read_only(self.directory.is_read_only)

    @property
    def has_table(self) -> bool:
        """Return whether the table of partitions was found, which tells lost folders from new partitions."""
        return not self._held.is_new

    def leave_unopened(self) -> None:
        """Close with logs that were not opened. They are not recovered, so the next start scans after a crash."""
        self._has_unopened = True

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self.logs.get(topic_partition)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self.logs.values()))

    def _failed(self, error: OSError) -> None:
        self._sync_failure.record(error)
        self.on_failure()

    # Time

    def retention_now_ms(self) -> int:
        """Return the time from which the age of records is computed; a jump of the wall clock does not move it."""
        return retention_clock.read(self._retention_clock, self._clock)

    @property
    def retention_lags(self) -> bool:
        """Return whether the last `retention_now_ms` ignored a jump forward, which may still be accepted."""
        return self._retention_clock.is_doubtful

    def checkpoint_retention_clock(self) -> None:
        retention_clock.save(self._disk, self.folder, self.retention_now_ms())

    # Partitions

    def open(self, topic_partition: TopicPartition, topic_id: UUID, settings: TopicSettings) -> Log:
        """Open or create a partition's log. Raises OSError."""
        return finish(self.opening(topic_partition, topic_id, settings))

    def opening(self, topic_partition: TopicPartition, topic_id: UUID, settings: TopicSettings) -> Job[Log]:
        """Open or create a partition's log like `open`, in slices if much of it must be scanned.

        If the job is closed before its end, the log stays as the previous process left it.
        """
        log = self.logs.get(topic_partition)
        if log is not None and not log.quarantine.is_provisional:
            assert log.topic_id == topic_id, f"{topic_partition} is open under another topic id"
            return log
        folder = self._path(str(topic_partition))
        holding = self._held[topic_id, topic_partition.partition]
        is_known = holding is not Holding.UNKNOWN
        exists = self._disk.exists(folder)
        if exists and not belongs_to(self._disk, folder, topic_id, is_known=is_known):
            self._set_aside(topic_partition)
            exists = False
        is_lost = not exists and self._is_lost(topic_partition, holding, settings)
        if not exists and not is_lost:
            self._forget_previous(topic_partition)
            known = NEW_LOG
        else:
            known = self._known(topic_partition, settings, held=is_lost or holding is Holding.HELD)
        now, clean = self._wall_ms, self.was_clean or not exists
        try:
            log = yield from Log.opening(
                self.directory, folder, topic_partition, TopicId(topic_id), settings,
                clock_wall_ms=now, clean=clean, known=known,
            )  # fmt: skip
        except BaseException:
            self.directory.recovery_interrupted()
            raise
        self._record_holding(log, holding, is_new=not exists, is_lost=is_lost)
        for note in log.recovery_notes:
            logger.warning("%s", note)
        self._register(log)
        return log

    def open_unreadable(
        self, topic_partition: TopicPartition, topic_id: UUID, settings: TopicSettings, why: str
    ) -> Log | None:
        """Open a log that `open` could not read as a damaged one; return None if it had no records.

        Nothing on disk is changed, and `open` may be called again.
        """
        folder = self._path(str(topic_partition))
        holding = self._held[topic_id, topic_partition.partition]
        known = self._known(topic_partition, settings, held=holding is Holding.HELD)
        now_ms = self._clock.wall_ms()
        state = recover_unreadable(self.directory, folder, settings, now_ms=now_ms, known=known, why=why)
        if state is None:
            return None
        if holding is Holding.UNKNOWN:
            # The folder may be that of a deleted topic with the same name.
            state.damaged_from = state.start_offset
        log = Log(self.directory, folder, topic_partition, TopicId(topic_id), settings, state, self._wall_ms)
        self._register(log)
        return log

    def _register(self, log: Log) -> None:
        topic_partition = log.topic_partition
        if log.damage is not None:
            logger.error(
                "%s is damaged, offsets %d to %d are not served and appends are rejected: %s. If it has another "
                "replica, it is copied again; otherwise restore the files, or run `penstock log accept-loss`",
                topic_partition, log.damaged_from, log.end_offset - 1, log.damage,
            )  # fmt: skip
        log.compaction.load(self.clean_offsets.found(topic_partition))
        log.use_checkpoints(self._log_checkpoints)
        self.logs[topic_partition] = log

    def _record_holding(self, log: Log, holding: Holding, *, is_new: bool, is_lost: bool) -> None:
        """Record the partition in the table of the data folder, to be synced with its first batch."""
        key = log.topic_id, log.topic_partition.partition
        try:
            if is_lost or (holding is Holding.UNKNOWN and log.end_offset):
                self._note_held(key, Holding.HELD)
            elif holding is Holding.UNKNOWN:
                self._note_held(key, Holding.CREATED)
        except OSError:
            # A full disk must not prevent reads of an existing log; the next start adds it to the table.
            if is_new:
                raise
        has_topic_id = not is_new and read_topic_id(self._disk, log.folder) is not None
        if not has_topic_id:
            if not is_new:
                logger.warning("%s has no %s: writing it again", log.folder, PARTITION_METADATA)
            write_topic_id(self._disk, log.folder, log.topic_id)
        if not has_topic_id or holding is Holding.CREATED or log.end_offset == 0:
            # An empty log is closed without a sync, so its folder may not be on disk yet.
            self._sync_names_with_first_batch(log)
        if holding is Holding.CREATED and log.flusher.syncs_appends and log.end_offset and log.damage is None:
            # Recovery treats all records that it finds as durable.
            log.flusher.sync_names()

    def delete(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        """Delete a partition. Its folder is renamed now and removed later; slices that are being read stay valid."""
        folder = self._path(str(topic_partition))
        log = self.logs.get(topic_partition)
        if log is not None and log.topic_id == topic_id:
            del self.logs[topic_partition]
            log.abandon()
        elif log is not None or not self._disk.exists(folder) or read_topic_id(self._disk, folder) != topic_id:
            return
        else:
            self.directory.open_files.forget_folder(folder)  # Its recovery may be under way.
        with suppress(OSError):
            self._held.note((topic_id, topic_partition.partition), Holding.UNKNOWN)
        self._unsynced_folders -= {log}
        self.recovery_points.forget(topic_partition)
        self.log_starts.forget(topic_partition)
        self.clean_offsets.forget(topic_partition)
        self._forget_mark(topic_partition)
        target = self._path(suffixed(topic_partition, self._entropy.uuid(), DELETE_SUFFIX))
        # If this fails, the folder stays with the id of a deleted topic, and is set aside for a new one.
        with suppress(OSError):
            self._journal.forget(folder)
            self._disk.rename(folder, target)
            delay_ms = log.settings.file_delete_delay_ms if log is not None else 0
            self._pending_removals.append((self._clock.wall_ms() + delay_ms, target))
            self._sync_names_later()

    def prepare_delete(self, topic_partitions: Iterable[TopicPartition], topic_id: UUID) -> None:
        """Prepare the deletion of many partitions with one sync of the journal; `delete` must follow for each."""
        logs = map(self.logs.get, topic_partitions)
        # The journal has reported the failure, and each deletion tries again.
        with suppress(OSError):
            self._journal.forget(*(log.folder for log in logs if log and log.topic_id == topic_id))

    def _sync_names_later(self) -> None:
        """Sync the renames of deleted folders, many at a time. Before that, a crash may leave stray folders."""
        self._names_changed = True
        if not self._syncing_names:
            self._syncing_names, self._names_changed = True, False
            self._disk.sync_folder_later(self.folder, self._names_synced)

    def _names_synced(self, error: OSError | None) -> None:
        self._syncing_names = False
        if error is not None:
            self.directory.fail(error)
        elif self._names_changed:
            self._sync_names_later()

    def topic_id_of(self, topic_partition: TopicPartition) -> UUID | None:
        """Return the topic id of a partition's folder, None if it has no valid one."""
        return read_topic_id(self._disk, self._path(str(topic_partition)))

    def apply_accepted_loss(self, topic_partition: TopicPartition, *, start_offset: int, end_offset: int) -> None:
        """Set the offsets of a log after its loss was accepted. Raises StorageError."""
        self.logs[topic_partition].offsets.accept_loss(start=start_offset, end=end_offset)
        self.log_starts.save_now()
        del self.logs[topic_partition]

    def set_aside_damaged(self, topic_partition: TopicPartition) -> str:
        """Rename the folder of a damaged log, so that an empty one can be created; return the new name.

        Raises OSError: before the rename, after which the log is open as before, or later, after which it is not.
        """
        log = self.logs[topic_partition]
        target = self._path(suffixed(topic_partition, self._entropy.uuid(), DAMAGED_SUFFIX))
        self._disk.rename(log.folder, target)
        del self.logs[topic_partition]
        log.abandon()
        self._unsynced_folders.discard(log)
        self.recovery_points.forget(topic_partition)
        # If the table of partitions were missing, a high watermark would mean that the folder is lost.
        self._forget_mark(topic_partition)
        self.log_starts.forget(topic_partition)
        self.clean_offsets.forget(topic_partition)
        # The new log is recorded as held with its first batch. If this fails, it counts as lost, and is replaced again.
        self._held.note((log.topic_id, topic_partition.partition), Holding.UNKNOWN)
        self._disk.sync_folder(self.folder)
        self._held.sync()
        return target

    def remove_damaged(self, topic_partition: TopicPartition) -> None:
        """Remove the folders of a partition that were set aside, because it is complete again."""
        log = self.logs.get(topic_partition)
        delay_ms = 0 if log is None else log.settings.file_delete_delay_ms
        with suppress(OSError):
            for name in self._disk.list(self.folder):
                if name.startswith(f"{topic_partition}.") and name.endswith(DAMAGED_SUFFIX):
                    self._pending_removals.append((self._clock.wall_ms() + delay_ms, self._path(name)))

    def remove_deleted_folders(self, now_ms: int) -> None:
        """Remove the folders of deleted partitions whose delay has passed."""
        due = [each for each in self._pending_removals if each[0] <= now_ms]
        self._pending_removals = [each for each in self._pending_removals if each[0] > now_ms]
        for each in due:
            self._disk.remove_later(each[1], partial(self._folder_removed, each))

    def _folder_removed(self, removal: tuple[int, str], error: OSError | None) -> None:
        if error is not None:
            self._pending_removals.append(removal)

    def strays(self) -> list[str]:
        """Return the partition folders that are not open. They are kept: only the deletion of a topic removes them."""
        opened = {str(topic_partition) for topic_partition in self.logs}
        return [
            name
            for name in self._disk.list(self.folder)
            if name.endswith(STRAY_SUFFIX)
            or (parse_folder(name) is not None and name not in opened and name != METADATA_FOLDER)
        ]

    def _set_aside(self, topic_partition: TopicPartition) -> None:
        """Rename the folder of another topic with the same name, or remove it if it has no records."""
        folder = self._path(str(topic_partition))
        if holds_records(self._disk, folder):
            self._disk.rename(folder, self._path(suffixed(topic_partition, self._entropy.uuid(), STRAY_SUFFIX)))
        else:
            self._disk.remove_folder(folder)
        self._disk.sync_folder(self.folder)

    def close(self, clean: bool = True, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Close all logs and release the folder. After a clean close the next start scans nothing."""
        try:
            if clean and self.directory.failure is None:
                self._close_logs()
                self.checkpoint_recovery_points()
                self.checkpoint_log_starts()
                self.clean_offsets.save_now()
                self.checkpoint_retention_clock()
                self._journal.close()
                if not self.was_clean and self._has_unopened:
                    return
                self._sync_failure.forget()
                self.directory.with_reserve(lambda: clean_shutdown.write(self._disk, self.folder, broker_epoch))
        except (OSError, StorageError):
            # The next start scans the logs, which is slower but correct.
            clean_shutdown.remove(self._disk, self.folder)
        finally:
            self._mark_resets += 1
            if self._probe is not None:
                self._probe.stop()
            for saved in (self.recovery_points, self.log_starts, self.clean_offsets):
                saved.stop()
            self.logs.clear()
            self._held.close()
            self._sync_failure.close()
            self._lock.release()

    def _close_logs(self) -> None:
        logs = [log for log in self if log.needs_close()]
        if len(logs) > SYNCED_ALONE_MAX and self._sync_volume():
            with self._held.one_sync():
                close_many(logs, self._sync_volume)
            self._sync_volume()
        else:
            for log in logs:
                log.close()

    def _sync_volume(self) -> bool:
        try:
            return self._disk.sync_volume(self.folder)
        except OSError as error:
            self.directory.fail(error)
            raise
