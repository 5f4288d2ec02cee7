"""Group commit: at most one sync under way per log, and all that was written meanwhile shares the next.

Files are synced in the order in which they were written, so an offset is durable only when
everything before it is. A failed sync is never tried again: it stops the whole data folder.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.ports.disk import File
from penstock.storage.segment import Segment

if TYPE_CHECKING:
    from penstock.storage.rolling import RollingLog


class Flusher:
    """Moves a log's `flushed_offset` after its `end_offset`."""

    __slots__ = (
        "_generation",
        "_index_syncs",
        "_log",
        "_stopped",
        "_synced_file",
        "_synced_size",
        "_unlisted",
        "busy",
        "closed",
        "files",
        "folders",
        "on_named",
        "rolled",
    )

    def __init__(self, log: RollingLog) -> None:
        self._log = log
        self._generation = 0
        self.busy = False
        self._stopped = False
        # Folders with names, and small files, that a power loss could still take back.
        self.folders: dict[str, None] = {}
        self.files: list[str] = []
        # Called once those are durable, before anything else is.
        self.on_named: Callable[[], None] | None = None
        # Closed segments with bytes that are not synced yet, each with the offset behind it.
        self.rolled: deque[tuple[File, int]] = deque()
        # Closed segments whose indexes are not synced yet. Nobody waits for these but the recovery point.
        self.closed: deque[Segment] = deque()
        self._index_syncs = 0
        # The active segment's file, if it was synced, and its size when that was asked for.
        self._synced_file: File | None = None
        self._synced_size = 0
        # Synced segments that the disk has refused to list: they are tried again.
        self._unlisted: list[tuple[File, int]] = []

    def start(self) -> None:
        """Sync the oldest file that needs it, unless a sync is under way."""
        log = self._log
        if self.busy or self._stopped or log.directory.failure is not None:
            return
        try:
            self.sync_names()
        except OSError as error:
            log.directory.fail(error)
            return
        disk = log.directory.disk
        if self._unlisted:
            unlisted, self._unlisted = self._unlisted, []
            for job in unlisted:
                self._list_closed(job)
        if self.rolled:
            job = self.rolled[0]
            self.busy = True
            disk.sync_later(job[0], partial(self._finished, self._generation, job, 0))
            return
        file, size = log.active.open_for_append(), log.active.size
        done = partial(self._finished, self._generation, (file, log.end_offset), size)
        self.busy = True
        if file is self._synced_file:
            disk.sync_tail_later(file, self._synced_size, size - self._synced_size, done)
        else:
            disk.sync_later(file, done)

    def sync_indexes(self) -> None:
        """Sync the indexes of the oldest closed segment. What the disk refuses now is tried again later."""
        if self._index_syncs or self._stopped or not self.closed or self._log.directory.failure is not None:
            return
        segment = self.closed[0]
        try:
            files = segment.save_indexes()
        except OSError:
            return
        self._index_syncs = len(files)
        for file in files:
            self._log.directory.disk.sync_later(file, partial(self._index_synced, segment))

    def drop(self, segment: Segment) -> None:
        """Forget a segment that is no longer part of the log."""
        if segment in self.closed:
            self.closed.remove(segment)

    def forget(self, *, from_offset: int = 0) -> None:
        """Ignore the sync under way, because the log is cut at an offset. Closed segments below it are still synced."""
        self._generation += 1
        self._synced_file = None
        self.rolled = deque(each for each in self.rolled if each[1] <= from_offset)
        self._unlisted = [each for each in self._unlisted if each[1] <= from_offset]

    def now(self) -> None:
        """Sync everything before returning; raises OSError. For closing and other cold paths."""
        log = self._log
        try:
            self.sync_names()
            while self.rolled:
                job = self.rolled[0]
                job[0].sync()
                self.rolled.popleft()
                self._list_closed(job)
                self.sync_names()
            if log.flushed_offset < log.end_offset:
                log.active.open_for_append().sync()
        except OSError as error:
            log.directory.fail(error)
            raise
        if self._advance(log.end_offset):
            log.on_durable()

    def indexes_now(self) -> None:
        """Sync the indexes of all closed segments before returning; raises OSError."""
        while self.closed:
            # A full disk is no reason to stop the folder, a failed sync is.
            files = self.closed[0].save_indexes()
            try:
                for file in files:
                    file.sync()
            except OSError as error:
                self._log.directory.fail(error)
                raise
            self.closed.popleft()

    def stop(self) -> None:
        """Sync nothing any more."""
        self.forget()
        self._stopped = True

    def sync_names(self) -> None:
        """Make the names of the log's files and folders durable. Blocks; raises OSError."""
        while self.files:
            file = self._log.directory.disk.open(self.files[-1])
            file.sync()
            file.close()
            self.files.pop()
        while self.folders:
            self._log.directory.disk.sync_folder(next(iter(self.folders)))
            del self.folders[next(iter(self.folders))]
        if self.on_named is not None:
            self.on_named()
            self.on_named = None

    def _list_closed(self, job: tuple[File, int]) -> None:
        """List a closed segment, now that it is synced; the list is synced before anything behind it counts.

        What a full disk refuses is tried again with the next sync.
        """
        log = self._log
        file, end = job
        slot = bisect_left(log.bases, end) - 1
        if file.path == log.listed.path or slot < 0 or log.bases[slot + 1 : slot + 2] != [end]:
            return
        segment = log.segments[slot]
        is_listed = log.listed.exists
        try:
            self.rolled.appendleft((log.listed.closed(segment.base_offset, end, segment.size), end))
        except OSError:
            self._unlisted.append(job)
            return
        if not is_listed:
            self.folders[log.folder] = None

    def _finished(self, generation: int, job: tuple[File, int], size: int, error: OSError | None) -> None:
        log = self._log
        self.busy = False
        if error is not None:
            log.directory.fail(error)
            return
        if self._stopped or log.directory.failure is not None:
            return
        advanced = False
        if generation == self._generation:
            if self.rolled and self.rolled[0] is job:
                self.rolled.popleft()
                self._list_closed(job)
            else:
                self._synced_file, self._synced_size = job[0], size
            advanced = self._advance(job[1])
        # The next sync runs while this one is acknowledged.
        if self.rolled or (log.syncs_appends and log.flushed_offset < log.end_offset):
            self.start()
        if advanced:
            log.on_durable()

    def _index_synced(self, segment: Segment, error: OSError | None) -> None:
        self._index_syncs -= 1
        if error is not None:
            self._log.directory.fail(error)
        elif self._index_syncs == 0:
            self.drop(segment)
            self.sync_indexes()

    def _advance(self, offset: int) -> bool:
        """Move the marks; return whether more is durable than before."""
        log = self._log
        if offset > log.flushed_offset:
            log.flushed_offset = offset
        if offset <= log.durable_offset:
            return False
        log.durable_offset = offset
        return True
