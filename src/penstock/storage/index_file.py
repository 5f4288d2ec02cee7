"""Base of a segment's index files: entries in memory that are written to the file in groups.

The files are derived from the log. Those of the active segment are not synced; those of closed segments are synced
before the recovery point passes them, so that recovery need not check them.
"""

from typing import ClassVar

from penstock.model.errors import Corruption
from penstock.ports.disk import Disk, File
from penstock.storage.directory import UNREADABLE


class IndexFile:
    """The saved and unsaved part of a file with fixed-size entries."""

    __slots__ = ("_saved_size", "_unsaved", "base_offset", "path")

    entry_size: ClassVar[int]

    def __init__(self, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._unsaved = bytearray()
        self._saved_size = 0

    def _read(self, disk: Disk) -> bytes:
        try:
            content = disk.read_file(self.path)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            raise Corruption(f"{self.path} cannot be read: {error}") from error
        if len(content) % self.entry_size:
            raise Corruption(f"{self.path}: {len(content)} bytes are not whole entries of {self.entry_size}")
        self._unsaved = bytearray()
        self._saved_size = len(content)
        return content

    def _keep(self, count: int) -> None:
        """Drop the bytes of all entries after the first `count`."""
        keep = count * self.entry_size
        if keep < self._saved_size:
            self._saved_size = keep
            self._unsaved = bytearray()
        else:
            del self._unsaved[keep - self._saved_size :]

    def unsaved_size(self) -> int:
        return len(self._unsaved)

    def save(self, disk: Disk) -> File:
        """Write unsaved entries and return the file, for a sync."""
        file = disk.open(self.path, create=True)
        if self._unsaved:
            file.write((bytes(self._unsaved),), self._saved_size)
            self._saved_size += len(self._unsaved)
            self._unsaved = bytearray()
        if file.size() != self._saved_size:
            file.truncate(self._saved_size)
        return file
