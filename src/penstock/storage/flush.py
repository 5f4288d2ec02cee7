"""Group commit: at most one sync in progress per log; everything written meanwhile shares the next one.

Files are synced in the order in which they were written, so that an offset is durable only when everything before it
is. A failed sync is never repeated: it takes the whole data folder offline. Moves `flushed`, `durable` and, after a
write, `end` of log_offsets.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from penstock.config.settings import TopicSettings
from penstock.ports.disk import File
from penstock.storage.segment import Segment

if TYPE_CHECKING:
    from penstock.storage.log import Log
    from penstock.storage.recovered import Recovered


class DurabilityListener(Protocol):
    """What waits for records of a log to be durable. A callback would take 64 bytes for each of thousands of logs."""

    def advance(self) -> None:
        """Handle that more is durable, or written if the log does not sync its appends."""
        ...


class _Nobody:
    def advance(self) -> None: ...


_NOBODY: Final = _Nobody()


class Flusher:
    """Syncs one log and advances its flushed offset."""

    __slots__ = (
        "_busy",
        "_closed",
        "_files",
        "_flush_messages",
        "_folders",
        "_generation",
        "_index_syncs",
        "_listener",
        "_log",
        "_offsets",
        "_on_named",
        "_rolled",
        "_segments",
        "_stopped",
        "_synced_file",
        "_synced_size",
        "_unflushed_since_ms",
        "_unlisted",
        "syncs_appends",
    )

    def __init__(self, log: Log, state: Recovered) -> None:
        self._log = log
        self._offsets = log.offsets
        self._segments = log.segments
        self.syncs_appends = True
        """Whether appends wait for a sync (`flush.mode=fsync`)."""
        self._flush_messages = 0
        self._unflushed_since_ms: int | None = None
        self._listener: DurabilityListener = _NOBODY
        self._generation = 0
        self._busy = False
        self._stopped = False
        # Folders with new names, and small files, that a power failure could still undo.
        # All these are tuples, because they are short, and an empty list takes 56 bytes for each of thousands of logs.
        self._folders: tuple[str, ...] = (log.folder,) if state.folder_changed or state.list_changed else ()
        self._files: tuple[str, ...] = (state.segment_list.path,) if state.list_changed else ()
        # Called once those are durable, before anything else is.
        self._on_named: Callable[[], None] | None = None
        # Closed segments with unsynced bytes, each with its end offset.
        self._rolled: tuple[tuple[File, int], ...] = tuple(state.unflushed)
        # Closed segments whose indexes are not synced yet. Only the recovery point waits for them.
        self._closed: tuple[Segment, ...] = tuple(state.unsynced_indexes)
        self._index_syncs = 0
        # The active segment's file if it was synced, and its size when that sync started.
        self._synced_file: File | None = None
        self._synced_size = 0
        # Synced segments that could not be added to the segment list; they are tried again.
        self._unlisted: tuple[tuple[File, int], ...] = ()

    def apply_settings(self, settings: TopicSettings) -> None:
        """Use other settings from the next append on. Without group commit, no request waits for a sync."""
        self.syncs_appends = settings.flush_mode == "fsync"
        self._flush_messages = settings.flush_messages
        if not self.syncs_appends and self._offsets.count_all_durable():
            self._listener.advance()

    def notify_durable(self, listener: DurabilityListener | None) -> None:
        """Notify a listener, instead of the previous one, whenever more is durable."""
        self._listener = _NOBODY if listener is None else listener

    @property
    def recovery_point(self) -> int:
        """Return the offset whose segment is the first that recovery scans after a crash."""
        offsets = self._offsets
        point = offsets.flushed
        if self._closed:
            # Recovery must scan a closed segment until its indexes are synced.
            return min(point, self._closed[0].base_offset)
        if point == offsets.end and self._log.writer.is_open and self._segments.active.size:
            # The log end would select the next segment if one begins there before the next checkpoint.
            return point - 1
        return point

    # Pending syncs

    def appended(self, end: int) -> None:
        """Move the log end past written batches, and start a sync if the settings require one."""
        offsets = self._offsets
        if self.syncs_appends:
            offsets.extend(end)
            if not self._busy:
                self.start()
        else:
            offsets.extend_durably(end)
            if end - offsets.flushed >= self._flush_messages:
                self.start()

    def add_closed(self, segment: Segment, file: File, end: int) -> None:
        """Sync a closed segment and its indexes before later segments."""
        self._rolled += ((file, end),)
        self._closed += (segment,)

    def add_closed_indexes(self, segment: Segment) -> None:
        """Sync the indexes of a segment whose batches are already synced."""
        self._closed += (segment,)

    def sync_folder_next(self, *paths: str) -> None:
        """Sync folders before anything else counts as durable."""
        self._folders += tuple(path for path in dict.fromkeys(paths) if path not in self._folders)

    def sync_names_next(self, *, files: Sequence[str], folders: Sequence[str], on_named: Callable[[], None]) -> None:
        """Sync files and folders before anything else counts as durable, and call back once they are."""
        self._files += tuple(files)
        self.sync_folder_next(*folders)
        self._on_named = on_named

    def folder_is_synced(self, path: str) -> None:
        """Do not sync a folder that was synced for another log."""
        self._folders = tuple(each for each in self._folders if each != path)

    # Syncing

    def start(self) -> None:
        """Sync the oldest file that needs it, unless a sync is in progress."""
        log = self._log
        if self._busy or self._stopped or log.directory.failure is not None:
            return
        try:
            self.sync_names()
        except OSError as error:
            log.directory.fail(error)
            return
        disk = log.directory.disk
        if self._unlisted:
            unlisted, self._unlisted = self._unlisted, ()
            for job in unlisted:
                self._list_closed(job)
        if self._rolled:
            job = self._rolled[0]
            self._busy = True
            disk.sync_later(job[0], partial(self._finished, self._generation, job, 0))
            return
        file, size = self._segments.active.open_for_append(), self._segments.active.size
        done = partial(self._finished, self._generation, (file, self._offsets.end), size)
        self._busy = True
        if file is self._synced_file:
            disk.sync_tail_later(file, self._synced_size, size - self._synced_size, done)
        else:
            disk.sync_later(file, done)

    def start_if_older_than(self, now_ms: int, age_ms: int) -> None:
        """Start a sync if there have been unsynced bytes for `age_ms` (`flush.ms`)."""
        if self._offsets.flushed >= self._offsets.end:
            self._unflushed_since_ms = None
        elif self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
        elif now_ms - self._unflushed_since_ms >= age_ms:
            self._unflushed_since_ms = None
            self.start()

    def sync_indexes(self) -> None:
        """Sync the indexes of the oldest closed segment. A failed write is tried again later."""
        if self._index_syncs or self._stopped or not self._closed or self._log.directory.failure is not None:
            return
        segment = self._closed[0]
        try:
            files = segment.save_indexes()
        except OSError:
            return
        self._index_syncs = len(files)
        for file in files:
            self._log.directory.disk.sync_later(file, partial(self._index_synced, segment))

    def release_file(self) -> bool:
        """Forget the active segment's file if all of it is synced; otherwise sync it soon and return False."""
        if self._busy or self._stopped or self._log.directory.failure is not None:
            return False
        if self._offsets.flushed < self._offsets.end:
            self.start()
            return False
        self._synced_file = None
        return True

    def drop(self, segment: Segment) -> None:
        """Forget a segment that is no longer part of the log."""
        if segment in self._closed:
            self._closed = tuple(each for each in self._closed if each is not segment)

    def forget(self, *, from_offset: int = 0) -> None:
        """Ignore the sync in progress, because the log is truncated at an offset. Closed segments below stay queued."""
        self._generation += 1
        self._synced_file = None
        self._rolled = tuple(each for each in self._rolled if each[1] <= from_offset)
        self._unlisted = tuple(each for each in self._unlisted if each[1] <= from_offset)

    def now(self) -> None:
        """Sync everything before returning. Raises OSError. For closing and other cold paths."""
        log = self._log
        try:
            self.sync_names()
            while self._rolled:
                job = self._rolled[0]
                job[0].sync()
                self._rolled = self._rolled[1:]
                self._list_closed(job)
                self.sync_names()
            if self._offsets.flushed < self._offsets.end:
                self._segments.active.open_for_append().sync()
        except OSError as error:
            log.directory.fail(error)
            raise
        if self._offsets.flush_to(self._offsets.end):
            self._listener.advance()

    def write_indexes(self) -> None:
        """Write the indexes of all closed segments without a sync. Raises OSError."""
        for segment in self._closed:
            segment.save_indexes()

    def volume_synced(self) -> None:
        """Count everything as durable after a sync of the volume. Another one must follow: this writes as well.

        Raises OSError if one of the files could not be written.
        """
        disk = self._log.directory.disk
        try:
            indexes = (path for segment in self._closed for path in segment.paths()[1:3])
            for path in (*self._files, *indexes):
                file = disk.open(path)
                file.check_written()
                file.close()
            if self._offsets.flushed < self._offsets.end:
                self._segments.active.file.check_written()
            self._files = self._folders = ()
            self.sync_names()
            while self._rolled:
                job, self._rolled = self._rolled[0], self._rolled[1:]
                job[0].check_written()
                self._list_closed(job)
        except OSError as error:
            self._log.directory.fail(error)
            raise
        self._folders = self._closed = ()
        if self._offsets.flush_to(self._offsets.end):
            self._listener.advance()

    def sync_indexes_now(self) -> None:
        """Sync the indexes of all closed segments before returning. Raises OSError."""
        while self._closed:
            # A full disk does not take the folder offline, a failed sync does.
            files = self._closed[0].save_indexes()
            try:
                for file in files:
                    file.sync()
            except OSError as error:
                self._log.directory.fail(error)
                raise
            self._closed = self._closed[1:]

    def stop(self) -> None:
        """Stop syncing, and make no more callbacks."""
        self._listener = _NOBODY
        self.forget()
        self._stopped = True

    def sync_names(self) -> None:
        """Make the names of the log's files and folders durable. Blocks; raises OSError."""
        while self._files:
            file = self._log.directory.disk.open(self._files[-1])
            file.sync()
            file.close()
            self._files = self._files[:-1]
        while self._folders:
            self._log.directory.disk.sync_folder(self._folders[0])
            self._folders = self._folders[1:]
        if self._on_named is not None:
            self._on_named()
            self._on_named = None

    def _list_closed(self, job: tuple[File, int]) -> None:
        """Add a synced segment to the segment list; the list is synced before later offsets count as durable.

        If the disk is full, this is tried again with the next sync.
        """
        log = self._log
        file, end = job
        if file is self._synced_file:
            # Retention may remove the segment before another is synced: its space must become free then.
            self._synced_file = None
        slot = bisect_left(self._segments.bases, end) - 1
        if file.path == log.segment_list.path or slot < 0 or self._segments.bases[slot + 1 : slot + 2] != [end]:
            return
        segment = self._segments[slot]
        is_listed = log.segment_list.exists
        try:
            listed = log.segment_list.add_closed(segment.base_offset, end, segment.size)
        except OSError:
            self._unlisted += (job,)
            return
        self._rolled = ((listed, end), *self._rolled)
        if not is_listed:
            self.sync_folder_next(log.folder)

    def _finished(self, generation: int, job: tuple[File, int], size: int, error: OSError | None) -> None:
        log = self._log
        self._busy = False
        if error is not None:
            log.directory.fail(error)
            return
        if self._stopped or log.directory.failure is not None:
            return
        advanced = False
        if generation == self._generation:
            if self._rolled and self._rolled[0] is job:
                self._rolled = self._rolled[1:]
                self._list_closed(job)
            else:
                self._synced_file, self._synced_size = job[0], size
            advanced = self._offsets.flush_to(job[1])
        # The next sync runs while this one is acknowledged.
        if self._rolled or (self.syncs_appends and self._offsets.flushed < self._offsets.end):
            self.start()
        if advanced:
            self._listener.advance()

    def _index_synced(self, segment: Segment, error: OSError | None) -> None:
        self._index_syncs -= 1
        if error is not None:
            self._log.directory.fail(error)
        elif self._index_syncs == 0:
            self.drop(segment)
            self.sync_indexes()
