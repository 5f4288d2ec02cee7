"""Journal entries that could not be written to their files at startup, kept until they can.

A file that cannot be opened or written must not prevent the node from starting: its log is damaged, and is copied again
from another replica. But the bytes that only the journal has may be acknowledged, so they stay in `journal.unapplied`,
and the file is not opened without them. docs/internals/journal.md has the states.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from penstock.ports.disk import Disk, File
from penstock.storage.journal_format import Entry, encode_entries, read_pass, seal_group

FILE_NAME: Final = "journal.unapplied"


class KeptTails:
    """The tails of a data folder that wait for their files, by path relative to the folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._file = f"{folder}/{FILE_NAME}"
        self._tails: dict[str, list[Entry]] = {}

    def load(self) -> tuple[list[Entry], list[str]]:
        """Return the entries that earlier starts kept, and warnings. Raises OSError."""
        try:
            content = self._disk.read_file(self._file)
        except FileNotFoundError:
            return [], []
        entries = read_pass(FILE_NAME, content).entries
        return entries, [] if entries or not content else [f"{FILE_NAME} is damaged: nothing of it can be restored"]

    def replace(self, tails: dict[str, list[Entry]]) -> None:
        """Keep these tails and no others, durably. Raises OSError."""
        self._tails = tails
        self._save()

    def apply(self, path: str, on_sync_failure: Callable[[OSError], None]) -> list[str]:
        """Write the tails of a file that is about to be opened; return warnings. Raises OSError."""
        if not self._tails:
            return []
        relative = path.removeprefix(f"{self._folder}/")
        entries = self._tails.get(relative)
        if entries is None:
            return []
        notes = replay_file(self._disk, self._folder, relative, entries, on_sync_failure)
        del self._tails[relative]
        self._save()
        return notes

    def drop(self, paths: Collection[str]) -> None:
        """Forget the tails of these files, or of all files in these folders, durably. Raises OSError."""
        if not self._tails:
            return
        relative = {path.removeprefix(f"{self._folder}/") for path in paths}
        kept = {path: entries for path, entries in self._tails.items() if not is_within(path, relative)}
        if len(kept) < len(self._tails):
            self.replace(kept)

    def _save(self) -> None:
        if self._tails:
            entries = encode_entries(entry for entries in self._tails.values() for entry in entries)
            self._disk.replace_file(self._file, seal_group(entries, pass_id=0, number=0))
        else:
            empty_and_remove(self._disk, self._file)


def is_within(path: str, paths: Collection[str]) -> bool:
    """Return whether a file is one of these paths, or is in one of these folders."""
    return path in paths or path.rpartition("/")[0] in paths


def replay_file(
    disk: Disk, folder: str, path: str, entries: Iterable[Entry], on_sync_failure: Callable[[OSError], None]
) -> list[str]:
    """Write the tails of a file to their positions, and sync it; return warnings. Raises OSError.

    A file that does not exist was removed on purpose, or is lost, which the start of its log notices. A failed sync is
    reported as well, because the kernel may have dropped other bytes of the file, which the previous process wrote.
    """
    file = open_existing(disk, f"{folder}/{path}")
    if file is None:
        return []
    notes: list[str] = []
    try:
        for _, position, data in entries:
            if position > file.size():
                notes.append(
                    f"{path} ends before position {position}, where the journal continues: these bytes are lost"
                )
                break
            assert data is not None, "entries before one without data are dropped"
            file.write((data,), position)
        try:
            file.sync()
        except OSError as error:
            on_sync_failure(error)
            raise
    finally:
        file.close()
    return notes


def open_existing(disk: Disk, path: str) -> File | None:
    try:
        return disk.open(path)
    except FileNotFoundError:
        return None


def empty_and_remove(disk: Disk, path: str) -> None:
    """Remove a file whose content must not return after a power failure, even if its name does. Raises OSError."""
    file = open_existing(disk, path)
    if file is not None:
        file.truncate(0)
        file.sync()
        file.close()
        disk.remove(path)
