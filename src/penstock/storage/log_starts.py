"""Where the logs of a data folder begin, written down off the event loop before any file goes.

A start that moved is written with those of all other logs; what moves meanwhile goes into
the next write. So many logs that lose segments at once share two syncs instead of waiting for
two each. Writes `log-start-offset-checkpoint`; deciding what may go is left to trim.py.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.model.errors import StorageError
from penstock.model.ids import TopicPartition
from penstock.ports.disk import Disk, File
from penstock.storage.checkpoint import LOG_STARTS, encode_offsets, read_offsets, write_offsets

Done = Callable[[OSError | None], None]
# Another name than that of a write at once, which may come meanwhile.
_UNFINISHED = ".later"


class _Write(NamedTuple):
    """What is under way, for whom, and how many writes at once there were before."""

    file: File
    starts: dict[TopicPartition, int]
    served: list[Done]
    number: int


class LogStarts:
    """The starts as they are on disk, and who waits for newer ones."""

    def __init__(self, disk: Disk, folder: str, open_logs: Callable[[], Mapping[TopicPartition, int]]) -> None:
        self._disk = disk
        self._folder = folder
        self._path = f"{folder}/{LOG_STARTS}"
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

    def found(self, place: TopicPartition) -> int:
        """The start that a log had when it was last written down."""
        return self._known.get(place, 0)

    def forget(self, place: TopicPartition) -> None:
        """The log is deleted. Its start goes from the disk with the next write."""
        self._known.pop(place, None)

    def begin_anew(self, place: TopicPartition) -> None:
        """A log is made: no power loss may give it the start of a namesake. Raises StorageError."""
        self.forget(place)
        if place in self._on_disk:
            self.save_now()

    def moved(self) -> None:
        """Write down, soon, that a start has moved."""
        self._is_stale = True
        if not self._is_busy:
            self._begin()

    def when_saved(self, done: Done) -> None:
        """Call back when every start that has moved so far is durable, or with the reason why it is not."""
        if not self._is_busy and not self._is_stale:
            done(None)
            return
        self._waiting.append(done)
        if not self._is_busy:
            self._begin()

    def save_now(self) -> None:
        """Write before returning. Blocks: for cold paths."""
        starts = self._current()
        if starts != self._on_disk:
            try:
                write_offsets(self._disk, self._path, starts)
            except OSError as error:
                raise StorageError(f"{self._path}: {error}") from error
            self._on_disk = starts
            self._writes += 1

    def stop(self) -> None:
        """Write nothing any more; nobody hears of what is under way."""
        self._is_stopped = True
        self._waiting.clear()

    def _current(self) -> dict[TopicPartition, int]:
        return {place: start for place, start in {**self._known, **self._open_logs()}.items() if start > 0}

    def _begin(self) -> None:
        self._is_busy = True
        self._is_stale = False
        served, self._waiting = self._waiting, []
        starts = self._current()
        if starts == self._on_disk:
            self._end(served, None)
            return
        path = self._path + _UNFINISHED
        try:
            file = self._disk.open(path, create=True)
            file.truncate(0)
            file.write((encode_offsets(starts),), 0)
        except OSError as error:
            self._end(served, error)
            return
        write = _Write(file, starts, served, self._writes)
        self._disk.sync_later(file, lambda error: self._synced(write, error))

    def _synced(self, write: _Write, error: OSError | None) -> None:
        write.file.close()
        if self._is_stopped:
            return
        if error is None and write.number != self._writes:
            self._again(write)
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
        self._on_disk = {**self._on_disk, **write.starts}
        self._disk.sync_folder_later(self._folder, lambda error: self._named(write, error))

    def _named(self, write: _Write, error: OSError | None) -> None:
        if self._is_stopped:
            return
        if error is None and write.number == self._writes:
            self._on_disk = write.starts
        self._end(write.served, error)

    def _again(self, write: _Write) -> None:
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
