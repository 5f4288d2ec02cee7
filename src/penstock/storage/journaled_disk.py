"""The disk of a data folder with its journal, which makes small appends durable; other calls pass through."""

import logging
from collections.abc import Callable

from penstock.model.errors import StartupError
from penstock.ports.disk import Disk, File, FolderLock
from penstock.storage.journal import FILE_NAMES, Journal
from penstock.storage.reserve import Reserve

logger = logging.getLogger(__name__)

Done = Callable[[OSError | None], None]


def replay(journal: Journal, folder: str, reserve: Reserve) -> None:
    """Replay the journal of the previous process. Raises StartupError, because records would be missing without it."""
    try:
        for note in reserve.with_reserve(journal.replay):
            logger.warning("%s", note)
    except OSError as error:
        raise StartupError(
            f"cannot replay the journal of {folder} ({', '.join(FILE_NAMES)}): {error}. It may contain acknowledged "
            "records: do not remove it, but fix the cause and start again"
        ) from None


class JournaledDisk:
    """A disk that invalidates journal entries before their file is truncated, renamed or removed."""

    def __init__(self, disk: Disk, journal: Journal) -> None:
        self._disk = disk
        self._journal = journal

    def sync_tail_later(self, file: File, position: int, size: int, done: Done) -> None:
        self._journal.sync_tail_later(file, position, size, done)

    def cut(self, file: File, size: int) -> None:
        self._journal.invalidate(file.path)
        self._disk.cut(file, size)

    def rename(self, source: str, target: str) -> None:
        self._journal.invalidate(source, target)
        self._disk.rename(source, target)

    def remove(self, path: str) -> None:
        self._journal.invalidate(path)
        self._disk.remove(path)

    def remove_folder(self, path: str) -> None:
        self._journal.invalidate(path)
        self._disk.remove_folder(path)

    def remove_later(self, path: str, done: Done) -> None:
        try:
            self._journal.invalidate(path)
        except OSError as error:
            done(error)
        else:
            self._disk.remove_later(path, done)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        for note in self._journal.complete(path):
            logger.warning("%s", note)
        return self._disk.open(path, create=create, writable=writable)

    # Calls that do not affect the journal

    def sync_later(self, file: File, done: Done) -> None:
        self._disk.sync_later(file, done)

    def sync_folder_later(self, path: str, done: Done) -> None:
        self._disk.sync_folder_later(path, done)

    def read_file(self, path: str) -> bytes:
        return self._disk.read_file(path)

    def replace_file(self, path: str, content: bytes) -> None:
        self._disk.replace_file(path, content)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def list(self, path: str) -> list[str]:
        return self._disk.list(path)

    def is_folder(self, path: str) -> bool:
        return self._disk.is_folder(path)

    def make_folder(self, path: str) -> None:
        self._disk.make_folder(path)

    def sync_folder(self, path: str) -> None:
        self._disk.sync_folder(path)

    def sync_volume(self, path: str) -> bool:
        return self._disk.sync_volume(path)

    def lock_folder(self, path: str) -> FolderLock:
        return self._disk.lock_folder(path)

    def allocate(self, path: str, size: int) -> None:
        self._disk.allocate(path, size)

    def space(self, path: str) -> tuple[int, int]:
        return self._disk.space(path)

    def open_files_max(self) -> int:
        return self._disk.open_files_max()

    def boot_id(self) -> str:
        return self._disk.boot_id()
