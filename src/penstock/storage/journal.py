"""One sync for the small tails of many files: the journal of a data folder.

Each log has a file of its own, and a sync costs as much for a hundred bytes as for many thousand. A small tail is
therefore written once more, into the journal, and the journal is synced: one write and one sync for all who asked
while the last one ran. Two files take turns: one is erased and written over when all that it names has been synced.
`redo`, at a start, puts back what a power loss took. `strike` comes before a file is cut, renamed or removed, so
that nothing comes back that is gone. Formats and states are in docs/internals/journal.md.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from penstock.ports.disk import Disk, File
from penstock.storage.directory import UNOPENABLE
from penstock.storage.journal_format import ENTRY, GROUP, Entry, Pass, encode_entries, read_pass, seal_group
from penstock.storage.kept_tails import KeptTails, empty_and_remove, put_back

Done = Callable[[OSError | None], None]

FILE_NAMES: Final = ("journal.0", "journal.1")
# Each half. A group for fifty logs has some 10 KB, so they take turns every thousand groups.
JOURNAL_SIZE: Final = 8 * 1024 * 1024
# A longer tail is worth a sync of its own: here it would be written twice.
TAIL_SIZE_MAX: Final = 16 * 1024
# Fewer logs than this are synced side by side: that is as quick, and writes nothing twice.
GROUP_FILES_LEAST: Final = 8
# So many small groups in a row are a sign that the crowd has gone.
SMALL_GROUPS_MAX: Final = 16
_PASS_MASK: Final = (1 << 64) - 1


class _PendingSync(NamedTuple):
    file: File
    position: int
    size: int
    done: Done


class _Use(Enum):
    """What becomes of a half, in this order; then from the beginning."""

    FREE = "has no group that a start would read"
    CURRENT = "is written"
    FULL = "waits for its files to be synced"
    ERASED = "waits for its first group to be gone"


class _Half:
    """One of the two files: the paths that its groups name, and those of them that were not synced since."""

    __slots__ = ("file", "named", "pass_id", "unsynced", "use")

    def __init__(self, file: File) -> None:
        self.file = file
        self.use = _Use.FREE
        self.pass_id = 0
        # By folder, so that a strike need not look at all of them.
        self.named: dict[str, set[str]] = {}
        self.unsynced: dict[str, File] = {}

    def name(self, file: File) -> None:
        path = file.path
        self.named.setdefault(_folder_of(path), set()).add(path)
        self.unsynced[path] = file

    def named_under(self, path: str) -> Iterable[str]:
        """The named files that a place is: itself, or those of this folder."""
        found = self.named.get(path)
        if found is not None:
            return found
        return (path,) if path in self.named.get(_folder_of(path), ()) else ()

    def forget(self, path: str) -> None:
        """A start puts nothing back into this file any more."""
        folder = _folder_of(path)
        files = self.named.get(folder, set())
        files.discard(path)
        if not files:
            self.named.pop(folder, None)


class Journal:
    """Vouches for files that are not synced yet.

    Each half may grow to `size` bytes, 0 being none at all; it is used when `crowd` files wait for a sync at a time.
    `secret` is a number that no client can guess.
    """

    def __init__(
        self, disk: Disk, folder: str, *, secret: int, size: int = JOURNAL_SIZE, group_least: int = GROUP_FILES_LEAST
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._size = size
        self._group_least = group_least
        self._is_open = size > 0
        # The half that is written, and the other one; none before the first group.
        self._halves: list[_Half] = []
        self._kept = KeptTails(disk, folder)
        self._position = 0
        self._pass = secret & _PASS_MASK
        self._number = 0
        self._waiting: list[_PendingSync] = []
        self._is_syncing = False
        # Files that are being synced by themselves; and how many groups it takes until others are, too.
        self._direct_syncs = 0
        self._groups_left = 0
        self.on_failure: Callable[[OSError], None] = lambda error: None
        """Called when a sync fails that nobody waits for."""

    # From one process to the next

    def replay(self) -> list[str]:
        """Write what the last process had in the journal to its files; return warnings. Raises OSError.

        What cannot be written because of its file alone is kept (`KeptTails`).
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
                notes += put_back(self._disk, self._folder, path, entries)
            except OSError as error:
                if error.errno not in UNOPENABLE:
                    raise
                left[path] = entries
                notes.append(f"{path} lacks bytes that only the journal has, and cannot be written: {error}")
        if kept or left:
            self._kept.replace(left)
        # The older pass first: it could restore what the newer one has struck out.
        for each in passes:
            empty_and_remove(self._disk, f"{self._folder}/{each.name}")
        return notes

    def complete(self, path: str) -> list[str]:
        """Write what is kept for a file that is about to be opened; return warnings. Raises OSError."""
        return self._kept.apply(path)

    def close(self) -> None:
        """Sync all that only the journal vouches for, and leave none behind. Raises OSError."""
        # A sync may still be under way, and whoever waits for it must not begin another journal.
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
        """Make bytes durable, the only ones that were written to the file since its last sync."""
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
        """Write down what waits. What cannot be written is synced file by file."""
        pending = self._next_pending()
        self._groups_left = SMALL_GROUPS_MAX if len(pending) >= self._group_least else max(self._groups_left - 1, 0)
        try:
            entries = [
                Entry(each.file.path, each.position, each.file.read(each.size, each.position)) for each in pending
            ]
            encoded = self._encode(entries)
            half = self._half_with_room(GROUP.size + len(encoded))
            if half is not None:
                # Named first: even of a write that fails, a start may find all.
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
        """Take those who waited longest, as many as a half could hold: a slow disk may gather more."""
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

    def _half_with_room(self, size: int) -> _Half | None:
        """The half for a group of that size; None while neither has room."""
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
        """Make a half that no start would read anything of the current one."""
        self._pass = (self._pass + 1) & _PASS_MASK
        self._position = 0
        half.use = _Use.CURRENT
        half.pass_id = self._pass

    def _file_synced(self, half: _Half, pass_id: int, path: str, error: OSError | None) -> None:
        if error is not None:
            self.on_failure(error)
        elif half.pass_id == pass_id:
            # Otherwise the half is in use again: its file was struck out meanwhile, and may have grown since.
            half.unsynced.pop(path, None)
            self._erase_if_synced(half)

    def _erase_if_synced(self, half: _Half) -> None:
        """Let a start find nothing in a full half, so that it can be written over.

        Without that, a power loss in the midst of the next pass's first group could leave the beginning of this one
        without its end, where a file may have been struck out.
        """
        if half.use is not _Use.FULL or half.unsynced:
            return
        try:
            half.file.write((bytes(GROUP.size),), 0)
        except OSError:
            # It stays full; the next group that needs room tries again.
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
        """Make the two files. Raises OSError."""
        files = [self._disk.open(f"{self._folder}/{name}", create=True) for name in FILE_NAMES]
        try:
            self._disk.sync_folder(self._folder)
        except OSError as error:
            self.on_failure(error)
            raise
        self._halves = [_Half(file) for file in files]
        self._begin(self._halves[0])

    def _encode(self, entries: Iterable[Entry]) -> bytes:
        """Paths are written down as seen from the folder, which may have moved when they are read."""
        skipped = len(self._folder) + 1
        return encode_entries(Entry(path[skipped:], position, data) for path, position, data in entries)

    def _append(self, half: _Half, entries: bytes) -> None:
        group = seal_group(entries, pass_id=self._pass, number=self._number + 1)
        half.file.write((group,), self._position)
        self._number += 1
        self._position += len(group)

    # Striking out

    def invalidate(self, *paths: str) -> None:
        """Let nothing be put back into these files, or into those of these folders. Raises OSError; blocks.

        They are synced first: until the caller has done what it is about to do, they are what they were.
        """
        self._invalidate(paths, self._sync_named)

    def forget(self, *paths: str) -> None:
        """`strike` for files whose bytes nobody wants any more: they are not synced. Raises OSError; blocks."""
        self._invalidate(frozenset(paths), self._drop_named)

    def _invalidate(self, paths: Collection[str], finish_file: Callable[[str], None]) -> None:
        self._kept.drop(paths)
        removed = [each for each in self._waiting if _is_within(each.file.path, paths)]
        if removed:
            self._waiting = [each for each in self._waiting if not _is_within(each.file.path, paths)]
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
            # No room for even that: an empty journal has nothing to put back either, and gives room.
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
        """Sync every file that is named, and begin both halves anew. Raises OSError; blocks."""
        for path in [path for half in self._halves for path in half.unsynced]:
            self._sync_named(path)
        # The older one first: what the newer one has struck out, it could bring back.
        for half in reversed(self._halves):
            half.file.truncate(0)
            half.file.sync()
            half.named.clear()
            # Of no pass: what is under way for the one that it had is no news any more.
            half.use, half.pass_id = _Use.FREE, -1
        self._begin(self._halves[0])


def _is_within(path: str, paths: Collection[str]) -> bool:
    return path in paths or _folder_of(path) in paths


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _gap_notes(passes: Sequence[Pass]) -> list[str]:
    """What a reader of the node's log should know. A torn end is nothing: nobody was told that it is durable."""
    return [
        f"{each.name} lacks a group in between: it is damaged, or power was lost while a file was struck out of it"
        for each in passes
        if each.has_gaps
    ]
