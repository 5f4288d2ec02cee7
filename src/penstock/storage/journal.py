"""The journal of a data folder: one sync for small appends to many files.

A sync costs as much for a hundred bytes as for many thousand. A small append to a log is therefore written a second
time, to the journal, and the journal is synced: one write and one sync for all requests that arrived during the last
sync. Two files take turns: one is erased and reused when all files that it names have been synced. `replay` restores
what a power failure removed. `invalidate` must be called before a file is truncated, renamed or removed, so that
replay does not bring it back. Formats and states are in docs/internals/journal.md.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from penstock.ports.disk import Disk, File
from penstock.storage.directory import UNOPENABLE
from penstock.storage.journal_format import ENTRY, GROUP, Entry, Pass, encode_entries, read_pass, seal_group
from penstock.storage.kept_tails import KeptTails, empty_and_remove, is_within, replay_file

Done = Callable[[OSError | None], None]

FILE_NAMES: Final = ("journal.0", "journal.1")
# The size of each half. A group for fifty logs has about 10 KB, so they take turns every thousand groups.
JOURNAL_SIZE: Final = 8 * 1024 * 1024
# A longer tail is synced directly, because the journal would write it a second time.
TAIL_SIZE_MAX: Final = 16 * 1024
# Fewer files than this are synced in parallel: that is as fast, and writes nothing twice.
GROUP_FILES_LEAST: Final = 8
# After this many small groups in a row, files are synced directly again.
SMALL_GROUPS_MAX: Final = 16
_PASS_MASK: Final = (1 << 64) - 1


class _PendingSync(NamedTuple):
    file: File
    position: int
    size: int
    done: Done


class _Use(Enum):
    """The states of a half, in this cyclic order."""

    FREE = "has no group that replay would read"
    CURRENT = "is being written"
    FULL = "waits until its files are synced"
    ERASED = "waits until its first group is durably erased"


class _Half:
    """One of the two files: the paths that its groups name, and those that have not been synced since."""

    __slots__ = ("file", "named", "pass_id", "unsynced", "use")

    def __init__(self, file: File) -> None:
        self.file = file
        self.use = _Use.FREE
        self.pass_id = 0
        # By folder, so that `invalidate` need not search all of them.
        self.named: dict[str, set[str]] = {}
        self.unsynced: dict[str, File] = {}

    def name(self, file: File) -> None:
        path = file.path
        self.named.setdefault(_folder_of(path), set()).add(path)
        self.unsynced[path] = file

    def named_under(self, path: str) -> Iterable[str]:
        """Return the named files at a path: the file itself, or the files of that folder."""
        found = self.named.get(path)
        if found is not None:
            return found
        return (path,) if path in self.named.get(_folder_of(path), ()) else ()

    def forget(self, path: str) -> None:
        """Drop a file that replay no longer restores."""
        folder = _folder_of(path)
        files = self.named.get(folder, set())
        files.discard(path)
        if not files:
            self.named.pop(folder, None)


class Journal:
    """Makes appends to files durable before the files themselves are synced.

    Each half may grow to `size` bytes; 0 disables the journal. It is used when `group_least` files wait for a sync at
    the same time. `secret` is a number that no client can guess.
    """

    def __init__(
        self, disk: Disk, folder: str, *, secret: int, size: int = JOURNAL_SIZE, group_least: int = GROUP_FILES_LEAST
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._size = size
        self._group_least = group_least
        self._is_open = size > 0
        # The current half and the other one; empty before the first group.
        self._halves: list[_Half] = []
        self._kept = KeptTails(disk, folder)
        self._position = 0
        self._pass = secret & _PASS_MASK
        self._number = 0
        self._waiting: list[_PendingSync] = []
        self._is_syncing = False
        # The number of direct syncs in progress, and the number of groups until direct syncs are used again.
        self._direct_syncs = 0
        self._groups_left = 0
        self.on_failure: Callable[[OSError], None] = lambda error: None
        """Called when a sync fails that no caller waits for, or after which bytes of other callers may be lost."""

    # Start and stop

    def replay(self) -> list[str]:
        """Restore what the previous process wrote to the journal; return warnings. Raises OSError.

        Entries whose file cannot be opened or written are kept (`KeptTails`).
        """
        kept, notes = self._kept.load()
        passes = sorted((self._read_pass(name) for name in FILE_NAMES), key=lambda one: one.last_number)
        notes += _gap_notes(passes)
        tails: dict[str, list[Entry]] = {}
        for entry in (*kept, *(entry for each in passes for entry in each.entries)):
            if entry.data is None:
                tails.pop(entry.path, None)
            else:
                tails.setdefault(entry.path, []).append(entry)
        left: dict[str, list[Entry]] = {}
        for path, entries in tails.items():
            try:
                notes += replay_file(self._disk, self._folder, path, entries, self.on_failure)
            except OSError as error:
                if error.errno not in UNOPENABLE:
                    raise
                left[path] = entries
                notes.append(f"cannot restore bytes of {path} that only the journal has, they are kept: {error}")
        if kept or left:
            self._kept.replace(left)
        # The older pass first, because it could restore files that the newer one invalidates.
        for each in passes:
            empty_and_remove(self._disk, f"{self._folder}/{each.name}")
        return notes

    def complete(self, path: str) -> list[str]:
        """Write the kept entries of a file that is about to be opened; return warnings. Raises OSError."""
        return self._kept.apply(path, self.on_failure)

    def close(self) -> None:
        """Sync all files that depend on the journal, and remove it. Raises OSError."""
        # A sync may still be in progress; its callbacks must not begin another journal.
        self._is_open = False
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._disk.sync_later(each.file, each.done)
        if self._halves:
            self._empty()
            self._halves.clear()
        for name in FILE_NAMES:
            self._disk.remove(f"{self._folder}/{name}")

    def _read_pass(self, name: str) -> Pass:
        try:
            return read_pass(name, self._disk.read_file(f"{self._folder}/{name}"))
        except FileNotFoundError:
            return Pass(name)

    # Writing

    def sync_tail_later(self, file: File, position: int, size: int, done: Done) -> None:
        """Make bytes durable that are the only ones written to the file since its last sync."""
        if size > TAIL_SIZE_MAX or not self._is_open:
            self._disk.sync_later(file, done)
        elif self._groups_left == 0 and self._direct_syncs < self._group_least:
            self._direct_syncs += 1
            self._disk.sync_later(file, partial(self._synced_directly, done))
        else:
            self._waiting.append(_PendingSync(file, position, size, done))
            if not self._is_syncing:
                self._write_group()

    def _synced_directly(self, done: Done, error: OSError | None) -> None:
        self._direct_syncs -= 1
        done(error)

    def _write_group(self) -> None:
        """Write the waiting tails as one group; if that fails, sync their files directly."""
        pending = self._next_pending()
        self._groups_left = SMALL_GROUPS_MAX if len(pending) >= self._group_least else max(self._groups_left - 1, 0)
        try:
            entries = [
                Entry(each.file.path, each.position, each.file.read(each.size, each.position)) for each in pending
            ]
            encoded = self._encode(entries)
            half = self._half_with_room(GROUP.size + len(encoded))
            if half is not None:
                # Add the names first: replay may find a group completely even if its write failed.
                for each in pending:
                    half.name(each.file)
                self._append(half, encoded)
        except OSError:
            half = None
        if half is None:
            pending, self._waiting = [*pending, *self._waiting], []
            for each in pending:
                self._disk.sync_later(each.file, each.done)
            return
        self._is_syncing = True
        self._disk.sync_later(half.file, partial(self._synced, pending))

    def _next_pending(self) -> list[_PendingSync]:
        """Take the oldest waiting syncs, as many as fit into a half; a slow disk may collect more."""
        room, count = self._size - GROUP.size, 0
        for each in self._waiting:
            room -= ENTRY.size + len(each.file.path) + each.size
            if room < 0 and count:
                break
            count += 1
        pending, self._waiting = self._waiting[:count], self._waiting[count:]
        return pending

    def _synced(self, pending: Sequence[_PendingSync], error: OSError | None) -> None:
        self._is_syncing = False
        if error is None:
            if self._waiting:
                # The next sync runs while this one is acknowledged.
                self._write_group()
        else:
            pending, self._waiting = [*pending, *self._waiting], []
        for each in pending:
            each.done(error)

    def sync_released(self, path: str) -> None:
        """Sync a file that its log has closed, so that the journal need not keep it open until its half is full."""
        for half in self._halves:
            file = half.unsynced.get(path)
            if file is not None and half.use is _Use.CURRENT:
                self._disk.sync_later(file, partial(self._released_synced, half, half.pass_id, file))

    def _released_synced(self, half: _Half, pass_id: int, file: File, error: OSError | None) -> None:
        if error is not None:
            self.on_failure(error)
        elif half.pass_id == pass_id and half.unsynced.get(file.path) is file:
            # Otherwise the log was opened again, and has written bytes that this sync did not cover.
            del half.unsynced[file.path]
            self._erase_if_synced(half)

    def _half_with_room(self, size: int) -> _Half | None:
        """Return the half for a group of that size; None while neither has room."""
        if not self._halves:
            self._open_halves()
        half, other = self._halves
        if self._position + size <= self._size:
            return half
        if other.use is not _Use.FREE or size > self._size:
            self._erase_if_synced(other)
            return None
        self._halves = [other, half]
        self._begin(other)
        half.use = _Use.FULL
        for path, file in list(half.unsynced.items()):
            self._disk.sync_later(file, partial(self._file_synced, half, half.pass_id, path))
        return other

    def _begin(self, half: _Half) -> None:
        """Make a free half the current one."""
        self._pass = (self._pass + 1) & _PASS_MASK
        self._position = 0
        half.use = _Use.CURRENT
        half.pass_id = self._pass

    def _file_synced(self, half: _Half, pass_id: int, path: str, error: OSError | None) -> None:
        if error is not None:
            self.on_failure(error)
        elif half.pass_id == pass_id:
            # Otherwise the half is in use again: the file was invalidated meanwhile, and may have grown since.
            half.unsynced.pop(path, None)
            self._erase_if_synced(half)

    def _erase_if_synced(self, half: _Half) -> None:
        """Erase the first group of a full half, so that the half can be overwritten.

        Without that, a power failure during the first group of the next pass could leave the beginning of this pass
        without its end, where a file may have been invalidated.
        """
        if half.use is not _Use.FULL or half.unsynced:
            return
        try:
            half.file.write((bytes(GROUP.size),), 0)
        except OSError:
            # The half stays full; the next group that needs room tries again.
            return
        half.use = _Use.ERASED
        self._disk.sync_later(half.file, partial(self._erased, half, half.pass_id))

    def _erased(self, half: _Half, pass_id: int, error: OSError | None) -> None:
        if error is not None:
            self.on_failure(error)
        elif half.pass_id == pass_id:
            half.named.clear()
            half.use = _Use.FREE

    def _open_halves(self) -> None:
        """Create the two files. Raises OSError."""
        files = [self._disk.open(f"{self._folder}/{name}", create=True) for name in FILE_NAMES]
        try:
            self._disk.sync_folder(self._folder)
        except OSError as error:
            self.on_failure(error)
            raise
        self._halves = [_Half(file) for file in files]
        self._begin(self._halves[0])

    def _encode(self, entries: Iterable[Entry]) -> bytes:
        """Encode entries with paths relative to the data folder, which may have moved when they are read."""
        skipped = len(self._folder) + 1
        return encode_entries(Entry(path[skipped:], position, data) for path, position, data in entries)

    def _append(self, half: _Half, entries: bytes) -> None:
        group = seal_group(entries, pass_id=self._pass, number=self._number + 1)
        half.file.write((group,), self._position)
        self._number += 1
        self._position += len(group)

    # Invalidation

    def invalidate(self, *paths: str) -> None:
        """Keep replay from restoring these files, or the files in these folders. Raises OSError; blocks.

        The files are synced first, because the caller has not changed them yet.
        """
        self._invalidate(paths, self._sync_named)

    def forget(self, *paths: str) -> None:
        """Invalidate files that are no longer needed, without syncing them first. Raises OSError; blocks."""
        self._invalidate(frozenset(paths), self._drop_named)

    def _invalidate(self, paths: Collection[str], finish_file: Callable[[str], None]) -> None:
        self._kept.drop(paths)
        removed = [each for each in self._waiting if is_within(each.file.path, paths)]
        if removed:
            self._waiting = [each for each in self._waiting if not is_within(each.file.path, paths)]
            for each in removed:
                self._disk.sync_later(each.file, each.done)
        invalidated = sorted({path for half in self._halves for target in paths for path in half.named_under(target)})
        if not invalidated:
            return
        try:
            for path in invalidated:
                finish_file(path)
            self._write_invalidations(invalidated)
        except OSError as error:
            self.on_failure(error)
            raise

    def _write_invalidations(self, paths: Sequence[str]) -> None:
        try:
            self._append(self._halves[0], self._encode(Entry(path, 0, None) for path in paths))
        except OSError:
            # The disk is full. Empty the journal: then it restores nothing either, and frees space.
            self._empty()
            return
        self._halves[0].file.sync()
        for half in self._halves:
            for path in paths:
                half.forget(path)

    def _sync_named(self, path: str) -> None:
        for half in self._halves:
            file = half.unsynced.pop(path, None)
            if file is not None:
                file.sync()

    def _drop_named(self, path: str) -> None:
        for half in self._halves:
            half.unsynced.pop(path, None)

    def _empty(self) -> None:
        """Sync all named files and reset both halves. Raises OSError; blocks."""
        for path in [path for half in self._halves for path in half.unsynced]:
            self._sync_named(path)
        # The older one first, because it could restore files that the newer one invalidates.
        for half in reversed(self._halves):
            half.file.truncate(0)
            half.file.sync()
            half.named.clear()
            # Without a pass id, callbacks of the previous pass are ignored.
            half.use, half.pass_id = _Use.FREE, -1
        self._begin(self._halves[0])


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _gap_notes(passes: Sequence[Pass]) -> list[str]:
    """Return messages about missing groups. A torn last group is not reported: nothing in it was acknowledged."""
    return [
        f"{each.name}: a group is missing; the file is damaged, or power failed while a file was being invalidated"
        for each in passes
        if each.has_gaps
    ]
