"""One sync for the small tails of many files: the journal of a data folder.

Each log has a file of its own, and a sync costs as much for a hundred bytes as for many thousand. A small tail is
therefore written once more, into the journal, and the journal is synced: one write and one sync for all who asked
while the last one ran. Two files take turns: one is written over when all that it names has been synced itself.
`redo`, at a start, puts back what a power loss took. `strike` comes before a file is cut, renamed or removed, so
that nothing comes back that is gone. Formats and states are in docs/internals/journal.md.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from penstock.ports.disk import Disk, File
from penstock.storage.journal_format import GROUP, Entry, Pass, encode_entries, read_pass, seal_group

Done = Callable[[OSError | None], None]

FILE_NAMES: Final = ("journal.0", "journal.1")
# Each half. A group for fifty logs has some 10 KB, so they take turns every thousand groups.
JOURNAL_SIZE: Final = 8 * 1024 * 1024
# A longer tail is worth a sync of its own: here it would be written twice.
TAIL_SIZE_MAX: Final = 16 * 1024
# Fewer logs than this are synced side by side: that is as quick, and writes nothing twice.
CROWD: Final = 8
# So many small groups in a row are a sign that the crowd has gone.
PATIENCE: Final = 16
_PASS_MASK: Final = (1 << 64) - 1


class _Asked(NamedTuple):
    file: File
    position: int
    size: int
    done: Done


class _Half:
    """One of the two files: the paths that its groups name, and those of them that were not synced since."""

    __slots__ = ("file", "named", "unsynced")

    def __init__(self, file: File) -> None:
        self.file = file
        self.named: set[str] = set()
        self.unsynced: dict[str, File] = {}


class Journal:
    """Vouches for files that are not synced yet.

    Each half may grow to `size` bytes, 0 being none at all; it is used when `crowd` files wait for a sync at a time.
    `secret` is a number that no client can guess.
    """

    def __init__(self, disk: Disk, folder: str, *, secret: int, size: int = JOURNAL_SIZE, crowd: int = CROWD) -> None:
        self._disk = disk
        self._folder = folder
        self._size = size
        self._crowd = crowd
        # The half that is written, and the other one; none before the first group.
        self._halves: list[_Half] = []
        self._position = 0
        self._pass = secret & _PASS_MASK
        self._number = 0
        # Paths in groups that are being written over: they count until the first group of the new pass is synced.
        self._overwritten: set[str] = set()
        self._waiting: list[_Asked] = []
        self._is_syncing = False
        # Files that are being synced by themselves; and how many groups it takes until others are, too.
        self._alone = 0
        self._groups_left = 0
        self.on_failure: Callable[[OSError], None] = lambda error: None
        """Called when a sync fails that nobody waits for."""

    # From one process to the next

    def redo(self) -> list[str]:
        """Put back what the last process wrote down; return what people should know. Raises OSError."""
        passes = sorted((self._read_pass(name) for name in FILE_NAMES), key=lambda one: one.last_number)
        notes = _complaints(passes)
        entries = [entry for each in passes for entry in each.entries]
        struck = {entry.path: index for index, entry in enumerate(entries) if entry.data is None}
        files: dict[str, File | None] = {}
        for index, (path, position, data) in enumerate(entries):
            if data is None or index < struck.get(path, -1):
                continue
            if path not in files:
                files[path] = self._open_existing(f"{self._folder}/{path}")
            file = files[path]
            if file is None:
                continue
            if position > file.size():
                notes.append(f"{path} ends before {position}, where the journal has its next bytes: they are left out")
                files[path] = None
                continue
            file.write((data,), position)
        for file in files.values():
            if file is not None:
                file.sync()
        self._remove_files([each.name for each in passes])
        return notes

    def close(self) -> None:
        """Sync all that only the journal vouches for, and leave none behind. Raises OSError."""
        if self._halves:
            self._empty()
            self._halves.clear()
        self._remove_files(FILE_NAMES)

    def _read_pass(self, name: str) -> Pass:
        try:
            return read_pass(name, self._disk.read_file(f"{self._folder}/{name}"))
        except FileNotFoundError:
            return Pass(name)

    def _open_existing(self, path: str) -> File | None:
        """Open a file; None if there is none: whoever removed it meant to."""
        try:
            return self._disk.open(path)
        except FileNotFoundError:
            return None

    def _remove_files(self, names: Sequence[str]) -> None:
        """Make sure that no group is read again, whatever becomes of the names: those of the older pass first.

        What the newer one has struck out, the older one could bring back.
        """
        for name in names:
            file = self._open_existing(f"{self._folder}/{name}")
            if file is not None:
                file.truncate(0)
                file.sync()
                file.close()
                self._disk.remove(f"{self._folder}/{name}")

    # Writing

    def sync_tail_later(self, file: File, position: int, size: int, done: Done) -> None:
        """Make bytes durable, the only ones that were written to the file since its last sync."""
        if size > TAIL_SIZE_MAX or size > self._size:
            self._disk.sync_later(file, done)
        elif self._groups_left == 0 and self._alone < self._crowd:
            self._alone += 1
            self._disk.sync_later(file, partial(self._synced_alone, done))
        else:
            self._waiting.append(_Asked(file, position, size, done))
            if not self._is_syncing:
                self._write_group()

    def _synced_alone(self, done: Done, error: OSError | None) -> None:
        self._alone -= 1
        done(error)

    def _write_group(self) -> None:
        """Write down all that waits. What cannot be written is synced file by file."""
        asked, self._waiting = self._waiting, []
        self._groups_left = PATIENCE if len(asked) >= self._crowd else max(self._groups_left - 1, 0)
        try:
            entries = [Entry(each.file.path, each.position, each.file.read(each.size, each.position)) for each in asked]
            encoded = self._encode(entries)
            half = self._half_with_room(GROUP.size + len(encoded))
            if half is not None:
                self._append(half, encoded)
        except OSError:
            half = None
        if half is None:
            for each in asked:
                self._disk.sync_later(each.file, each.done)
            return
        for each in asked:
            half.named.add(each.file.path)
            half.unsynced[each.file.path] = each.file
        self._is_syncing = True
        self._disk.sync_later(half.file, partial(self._synced, asked))

    def _synced(self, asked: Sequence[_Asked], error: OSError | None) -> None:
        self._is_syncing = False
        if error is None:
            self._overwritten.clear()
            if self._waiting:
                # The next sync runs while this one is acknowledged.
                self._write_group()
        else:
            asked, self._waiting = [*asked, *self._waiting], []
        for each in asked:
            each.done(error)

    def _half_with_room(self, size: int) -> _Half | None:
        """The half for a group of that size; None while neither has room."""
        if not self._halves:
            self._open_halves()
        half, other = self._halves
        if self._position + size <= self._size:
            return half
        if other.unsynced or size > self._size:
            return None
        for path, file in list(half.unsynced.items()):
            self._disk.sync_later(file, partial(self._file_synced, half, path))
        self._overwritten |= other.named
        other.named.clear()
        self._halves = [other, half]
        self._position = 0
        self._pass = (self._pass + 1) & _PASS_MASK
        return other

    def _open_halves(self) -> None:
        """Make the two files. Raises OSError."""
        files = [self._disk.open(f"{self._folder}/{name}", create=True) for name in FILE_NAMES]
        self._disk.sync_folder(self._folder)
        self._halves = [_Half(file) for file in files]

    def _encode(self, entries: Iterable[Entry]) -> bytes:
        """Paths are written down as seen from the folder, which may have moved when they are read."""
        skipped = len(self._folder) + 1
        return encode_entries(Entry(path[skipped:], position, data) for path, position, data in entries)

    def _append(self, half: _Half, entries: bytes) -> None:
        group = seal_group(entries, pass_id=self._pass, number=self._number + 1)
        half.file.write((group,), self._position)
        self._number += 1
        self._position += len(group)

    def _file_synced(self, half: _Half, path: str, error: OSError | None) -> None:
        if error is not None:
            self.on_failure(error)
        else:
            half.unsynced.pop(path, None)

    # Striking out

    def strike(self, *paths: str) -> None:
        """Let nothing be put back into these files, or into those of these folders. Raises OSError; blocks.

        They are synced first: until the caller has done what it is about to do, they are what they were.
        """
        left: list[_Asked] = []
        for each in self._waiting:
            if _is_within(each.file.path, paths):
                self._disk.sync_later(each.file, each.done)
            else:
                left.append(each)
        self._waiting = left
        struck = {path for names in self._named() for path in names if _is_within(path, paths)}
        if not struck:
            return
        try:
            for path in sorted(struck):
                self._sync_named(path)
            self._write_down_as_struck(sorted(struck))
        except OSError as error:
            self.on_failure(error)
            raise

    def _write_down_as_struck(self, paths: Sequence[str]) -> None:
        try:
            self._append(self._halves[0], self._encode(Entry(path, 0, None) for path in paths))
        except OSError:
            # No room for even that: an empty journal has nothing to put back either, and gives room.
            self._empty()
            return
        self._halves[0].file.sync()
        for names in self._named():
            names.difference_update(paths)

    def _named(self) -> tuple[set[str], ...]:
        """The paths that a start might put something back into."""
        return (self._overwritten, *(half.named for half in self._halves))

    def _sync_named(self, path: str) -> None:
        for half in self._halves:
            file = half.unsynced.pop(path, None)
            if file is not None:
                file.sync()

    def _empty(self) -> None:
        """Sync every file that is named, and begin both halves anew. Raises OSError; blocks."""
        for path in [path for half in self._halves for path in half.unsynced]:
            self._sync_named(path)
        # The older one first: what the newer one has struck out, it could bring back.
        for half in reversed(self._halves):
            half.file.truncate(0)
            half.file.sync()
            half.named.clear()
        self._overwritten.clear()
        self._position = 0
        self._pass = (self._pass + 1) & _PASS_MASK


def _is_within(path: str, places: Sequence[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _complaints(passes: Sequence[Pass]) -> list[str]:
    """What a reader of the node's log should know. A torn end is nothing: nobody was told that it is durable."""
    return [
        f"{each.name} lacks a group in between: it is damaged, or power was lost while a file was struck out of it"
        for each in passes
        if each.has_gaps
    ]
