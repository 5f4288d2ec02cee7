"""A checkpoint with one offset per log, written off the event loop: log starts, clean offsets, or recovery points.

A write contains the offsets of all logs; changes during a write go into the next one. Many logs that remove segments
at the same time therefore share two syncs instead of waiting for two each. trim.py, the cleaner and flush.py define the
meaning of the offsets.
"""

from collections.abc import Callable, ItemsView, Mapping
from functools import partial
from typing import Any, NamedTuple

from penstock.model.errors import StorageError
from penstock.model.ids import TopicPartition
from penstock.ports.disk import Disk, File
from penstock.storage.checkpoint import encode_offsets_job, read_offsets, write_offsets
from penstock.storage.directory import RunJob, run_now

Done = Callable[[OSError | None], None]
# Not the temporary name of `save_now`, which may run at the same time.
_UNFINISHED = ".later"


class _Write(NamedTuple):
    """A write in progress, the callbacks that wait for it, and the number of `save_now` writes before it."""

    offsets: dict[TopicPartition, int]
    served: list[Done]
    number: int


class SavedOffsets:
    """The offsets on disk, and the callbacks that wait for newer ones."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        name: str,
        open_logs: Callable[[], Mapping[TopicPartition, int]],
        with_reserve: Callable[[Callable[[], Any]], Any] = lambda work: work(),
        run: RunJob = run_now,
    ) -> None:
        """Load the file. `with_reserve` lets writes use reserved space, so that a full disk can be cleaned up.

        `run` encodes the offsets of thousands of logs in slices.
        """
        self._with_reserve = with_reserve
        self._run = run
        self._disk = disk
        self._folder = folder
        self._path = f"{folder}/{name}"
        self._open_logs = open_logs
        self._on_disk = read_offsets(disk, self._path)
        # Logs that are not open keep the values that were read at startup.
        self._known = dict(self._on_disk)
        self._is_stale = False
        self._is_busy = False
        self._is_stopped = False
        self._waiting: list[Done] = []
        # The number of `save_now` writes: a write in progress is older than these.
        self._writes = 0
        # The offsets being written, before the file is renamed.
        self._under_way: Mapping[TopicPartition, int] = {}

    def found(self, topic_partition: TopicPartition) -> int:
        """Return the saved offset of a log."""
        return self._known.get(topic_partition, 0)

    def items(self) -> ItemsView[TopicPartition, int]:
        """Return the offsets of the next write, without those that are read from open logs then."""
        return self._known.items()

    def keep(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Change offsets that are not read from open logs; the next write contains them."""
        self._known.update(offsets)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Drop the offset of a deleted log; the next write removes it from the disk."""
        self._known.pop(topic_partition, None)

    def reset(self, topic_partition: TopicPartition) -> None:
        """Durably remove the offset of a deleted log with the same name as a new one. Raises StorageError."""
        self.forget(topic_partition)
        if topic_partition in self._under_way:
            # The write in progress is outdated and must not replace the file.
            self._writes += 1
        if topic_partition in self._on_disk:
            self.save_now()

    def lower(self, topic_partition: TopicPartition, offset: int) -> None:
        """Write before returning if the saved offset of a log is after this one. Raises StorageError."""
        if self._under_way.get(topic_partition, 0) > offset:
            # The write in progress is outdated and must not replace the file.
            self._writes += 1
        if self._on_disk.get(topic_partition, 0) > offset:
            self.save_now()

    def moved(self) -> None:
        """Schedule a write, because an offset has moved."""
        self._is_stale = True
        if not self._is_busy:
            self._begin()

    def when_saved(self, done: Done) -> None:
        """Call back when all current offsets are durable, or with the error; never after `stop`."""
        if self._is_stopped:
            return
        if not self._is_busy and not self._is_stale:
            done(None)
            return
        self._waiting.append(done)
        if not self._is_busy:
            self._begin()

    def save_now(self) -> None:
        """Write before returning. Blocks, so for cold paths only."""
        offsets = self._current()
        if offsets != self._on_disk:
            try:
                self._with_reserve(lambda: write_offsets(self._disk, self._path, offsets))
            except OSError as error:
                raise StorageError(f"{self._path}: {error}") from error
            self._on_disk = offsets
            self._writes += 1

    def stop(self) -> None:
        """Stop writing, and drop all callbacks."""
        self._is_stopped = True
        self._waiting.clear()

    def _current(self) -> dict[TopicPartition, int]:
        return {
            topic_partition: offset
            for topic_partition, offset in {**self._known, **self._open_logs()}.items()
            if offset > 0
        }

    def _begin(self) -> None:
        self._is_busy = True
        self._is_stale = False
        served, self._waiting = self._waiting, []
        offsets = self._current()
        if offsets == self._on_disk:
            self._end(served, None)
            return
        write = _Write(offsets, served, self._writes)
        self._under_way = offsets
        self._run(encode_offsets_job(offsets), partial(self._encoded, write))

    def _encoded(self, write: _Write, content: bytes | None, problem: BaseException | None) -> None:
        if self._is_stopped:
            return
        if content is None:
            assert isinstance(problem, OSError), problem
            self._failed(write, problem)
            return
        if write.number != self._writes:
            self._under_way = {}
            self._retry(write)
            return
        try:
            file: File = self._with_reserve(lambda: self._write_unfinished(content))
        except OSError as error:
            self._failed(write, error)
            return
        self._disk.sync_later(file, partial(self._synced, write, file))

    def _failed(self, write: _Write, error: OSError) -> None:
        self._under_way = {}
        self._end(write.served, error)

    def _write_unfinished(self, content: bytes) -> File:
        file = self._disk.open(self._path + _UNFINISHED, create=True)
        file.truncate(0)
        file.write((content,), 0)
        return file

    def _synced(self, write: _Write, file: File, error: OSError | None) -> None:
        file.close()
        self._under_way = {}
        if self._is_stopped:
            return
        if error is None and write.number != self._writes:
            self._retry(write)
            return
        if error is None:
            try:
                self._disk.rename(self._path + _UNFINISHED, self._path)
            except OSError as refusal:
                error = refusal
        if error is not None:
            self._end(write.served, error)
            return
        # A power failure may leave the old or the new offsets, so `reset` and `lower` must consider both.
        before = self._on_disk
        self._on_disk = before | {each: max(offset, before.get(each, 0)) for each, offset in write.offsets.items()}
        self._disk.sync_folder_later(self._folder, lambda error: self._folder_synced(write, error))

    def _folder_synced(self, write: _Write, error: OSError | None) -> None:
        if self._is_stopped:
            return
        if error is None and write.number == self._writes:
            self._on_disk = write.offsets
        self._end(write.served, error)

    def _retry(self, write: _Write) -> None:
        """Write again, because newer offsets were written meanwhile, which this write must not replace."""
        self._waiting = [*write.served, *self._waiting]
        self._is_stale = True
        self._end([], None)

    def _end(self, served: list[Done], error: OSError | None) -> None:
        self._is_busy = False
        if error is not None:
            # The next call tries again; the callbacks that wait now get the error.
            self._is_stale = True
            served = [*served, *self._waiting]
            self._waiting = []
        elif self._is_stale or self._waiting:
            self._begin()
        for done in served:
            done(error)
