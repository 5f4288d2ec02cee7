"""The record of a failed sync, which the next process reads: the page cache may show data that is not on disk.

The file exists, open and with its byte allocated, from the first start to a clean stop, because a disk that fails to
sync may also fail to create a file. It is never synced: it matters only as long as the page cache lives.
"""

from contextlib import suppress
from typing import Final

from penstock.ports.disk import Disk, File

FILE_NAME: Final = ".sync_failed"
NONE_FAILED: Final = b"0"
TRIES: Final = 3


class SyncFailure:
    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._path = f"{folder}/{FILE_NAME}"
        self._file: File | None = None
        self.has_failed = self._prepare()
        """Whether a sync has failed since the last clean stop, in this process or an earlier one."""

    def _prepare(self) -> bool:
        was_there = self._disk.exists(self._path)
        try:
            self._file = self._disk.open(self._path, create=True)
            if was_there:
                # A power failure may leave it empty, and takes the page cache with it.
                return self._file.read(1, 0) not in (NONE_FAILED, b"")
            self._file.write((NONE_FAILED,), 0)
        except OSError:
            return was_there
        return False

    def record(self, error: OSError) -> None:
        """Record the error, if the disk accepts it."""
        self.has_failed = True
        for _ in range(TRIES):
            with suppress(OSError):
                if self._file is None:
                    self._file = self._disk.open(self._path, create=True)
                self._file.write((f"{error}\n".encode(),), 0)
                return

    def forget(self) -> None:
        """Remove the record: everything was synced or overwritten, and the logs are closed. Raises OSError."""
        self._disk.remove(self._path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
