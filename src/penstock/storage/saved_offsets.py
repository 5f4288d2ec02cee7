"""One offset of each log of a data folder, written down off the event loop: where it begins, how far it is compacted.

An offset that moved is written with those of all other logs; what moves meanwhile goes into
the next write. So many logs that lose segments at once share two syncs instead of waiting for
two each. Writes one checkpoint file; what the offsets mean is known to trim.py and the cleaner.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock.model.errors import StorageError
from penstock.model.ids import TopicPartition
from penstock.ports.disk import Disk, File
from penstock.storage.checkpoint import encode_offsets, read_offsets, write_offsets

Done = Callable[[OSError | None], None]
# Another name than that of a write at once, which may come meanwhile.
_UNFINISHED = ".later"


class _Write(NamedTuple):
    """What is under way, for whom, and how many writes at once there were before."""

    file: File
    offsets: dict[TopicPartition, int]
    served: list[Done]
    number: int


class SavedOffsets:
    """The offsets as they are on disk, and who waits for newer ones."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        name: str,
        open_logs: Callable[[], Mapping[TopicPartition, int]],
        with_reserve: Callable[[Callable[[], Any]], Any] = lambda work: work(),
    ) -> None:
        """`covering` does a write with reserved space if the disk has no other: without it nothing could be deleted."""
        self._with_reserve = with_reserve
        self._disk = disk
        self._folder = folder
        self._path = f"{folder}/{name}"
        self._open_logs = open_logs
        self._on_disk = read_offsets(disk, self._path)
        # Logs that are not open keep what was found.
        self._known = dict(self._on_disk)
        self._is_stale = False
        self._is_busy = False
        self._is_stopped = False
        self._waiting: list[Done] = []
        # Writes at once: what is under way is older than those.
        self._writes = 0
        # What is being written, and is not under the name of the file yet.
        self._under_way: Mapping[TopicPartition, int] = {}

    def found(self, topic_partition: TopicPartition) -> int:
        """The offset that a log had when it was last written down."""
        return self._known.get(topic_partition, 0)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is deleted. Its offset goes from the disk with the next write."""
        self._known.pop(topic_partition, None)

    def reset(self, topic_partition: TopicPartition) -> None:
        """A log is made: no power loss may give it the offset of a namesake. Raises StorageError."""
        self.forget(topic_partition)
        if topic_partition in self._under_way:
            # That write is out of date: it must not be given the name of the file.
            self._writes += 1
        if topic_partition in self._on_disk:
            self.save_now()

    def moved(self) -> None:
        """Write down, soon, that an offset has moved."""
        self._is_stale = True
        if not self._is_busy:
            self._begin()

    def when_saved(self, done: Done) -> None:
        """Call back when every offset that has moved so far is durable, or with the reason why it is not."""
        if not self._is_busy and not self._is_stale:
            done(None)
            return
        self._waiting.append(done)
        if not self._is_busy:
            self._begin()

    def save_now(self) -> None:
        """Write before returning. Blocks: for cold paths."""
        offsets = self._current()
        if offsets != self._on_disk:
            try:
                self._with_reserve(lambda: write_offsets(self._disk, self._path, offsets))
            except OSError as error:
                raise StorageError(f"{self._path}: {error}") from error
            self._on_disk = offsets
            self._writes += 1

    def stop(self) -> None:
        """Write nothing any more; nobody hears of what is under way."""
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
        content = encode_offsets(offsets)
        try:
            file: File = self._with_reserve(lambda: self._write_unfinished(content))
        except OSError as error:
            self._end(served, error)
            return
        write = _Write(file, offsets, served, self._writes)
        self._under_way = offsets
        self._disk.sync_later(file, lambda error: self._synced(write, error))

    def _write_unfinished(self, content: bytes) -> File:
        file = self._disk.open(self._path + _UNFINISHED, create=True)
        file.truncate(0)
        file.write((content,), 0)
        return file

    def _synced(self, write: _Write, error: OSError | None) -> None:
        write.file.close()
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
        # A power loss may leave the old ones or the new ones: a namesake of either must be told apart.
        self._on_disk = {**self._on_disk, **write.offsets}
        self._disk.sync_folder_later(self._folder, lambda error: self._folder_synced(write, error))

    def _folder_synced(self, write: _Write, error: OSError | None) -> None:
        if self._is_stopped:
            return
        if error is None and write.number == self._writes:
            self._on_disk = write.offsets
        self._end(write.served, error)

    def _retry(self, write: _Write) -> None:
        """Newer ones were written meanwhile, which these must not replace."""
        self._waiting = [*write.served, *self._waiting]
        self._is_stale = True
        self._end([], None)

    def _end(self, served: list[Done], error: OSError | None) -> None:
        self._is_busy = False
        if error is not None:
            # The next one who asks has it tried again; the others need not wait for that.
            self._is_stale = True
            served = [*served, *self._waiting]
            self._waiting = []
        elif self._is_stale or self._waiting:
            self._begin()
        for done in served:
            done(error)
