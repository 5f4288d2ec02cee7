"""Base of a segment's index files: entries in memory that are written to the file in groups.

The files are derived from the log. Those of the active segment are not synced; those of closed segments are synced
before the recovery point passes them, so that recovery need not check them.
"""

from typing import ClassVar, Final

from penstock.model.errors import Corruption
from penstock.ports.disk import Disk, File
from penstock.storage.directory import UNREADABLE

LOG_SUFFIX: Final = ".log"


class IndexFile:
    """The saved and unsaved part of a file with fixed-size entries, beside the log file at `log_path`."""

    __slots__ = ("_log_path", "_saved_size", "_unsaved", "base_offset")

    entry_size: ClassVar[int]
    suffix: ClassVar[str]

    def __init__(self, log_path: str, base_offset: int) -> None:
        # The segment has this string, too: a path of its own would take 130 bytes for each index of each partition.
        self._log_path = log_path
        self.base_offset = base_offset
        self._unsaved: bytes | bytearray = b""
        self._saved_size = 0

    @property
    def path(self) -> str:
        """Return the path of the file, which is renamed in the same way as the log."""
        stem, _, renamed = self._log_path.rpartition(LOG_SUFFIX)
        return f"{stem}{self.suffix}{renamed}"

    @path.setter
    def path(self, path: str) -> None:
        stem, _, renamed = path.rpartition(self.suffix)
        self._log_path = f"{stem}{LOG_SUFFIX}{renamed}"

    def take_path(self, other: "IndexFile") -> None:
        """Use the file of an index that this one replaces."""
        self._log_path = other._log_path

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
        self._unsaved = b""
        self._saved_size = len(content)
        return content

    def _keep(self, count: int) -> None:
        """Drop the bytes of all entries after the first `count`."""
        keep = count * self.entry_size
        if keep < self._saved_size:
            self._saved_size = keep
            self._unsaved = b""
        else:
            self._unsaved = self._unsaved[: keep - self._saved_size]

    def _add(self, entry: bytes) -> None:
        """Add an entry, to be saved later."""
        if self._unsaved:
            self._unsaved += entry
        else:
            self._unsaved = bytearray(entry)

    def unsaved_size(self) -> int:
        return len(self._unsaved)

    def save(self, disk: Disk) -> File:
        """Write unsaved entries and return the file, for a sync."""
        file = disk.open(self.path, create=True)
        if self._unsaved:
            file.write((bytes(self._unsaved),), self._saved_size)
            self._saved_size += len(self._unsaved)
            self._unsaved = b""
        if file.size() != self._saved_size:
            file.truncate(self._saved_size)
        return file
