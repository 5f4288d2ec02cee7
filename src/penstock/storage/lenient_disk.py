"""A read-only view of a disk that hides read errors, to find out what is left of a log.

Unreadable sectors are returned as zeros, so that the batches in them fail their checksums. Segments that cannot be
opened, and the names in a folder that cannot be listed, count as missing. Writes, renames and removals do nothing.
recovery.py and accept_loss.py use it for unreadable logs.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from penstock.ports.disk import Buffer, Disk, File

SECTOR_SIZE: Final = 4096
"""An unreadable range is read again in this unit, the sector size of current disks."""


def read_in_parts(file: File, size: int, position: int) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield position, size and content of a range, or after an error of each of its sectors; None if unreadable."""
    try:
        whole = file.read(size, position)
    except OSError:
        end = min(position + size, file.size())
        while position < end:
            wanted = min(SECTOR_SIZE - position % SECTOR_SIZE, end - position)
            content = None
            with suppress(OSError):
                content = file.read(wanted, position)
            yield position, wanted, content
            position += wanted
    else:
        yield position, size, whole


class LenientFile:
    """A file whose unreadable sectors are zeros; empty if the file could not be opened."""

    def __init__(self, path: str, file: File | None) -> None:
        self.path = path
        self._file = file

    def read(self, size: int, position: int) -> bytes:
        if self._file is None:
            return b""
        parts = read_in_parts(self._file, size, position)
        return b"".join(bytes(length) if content is None else content for _, length, content in parts)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        content = self.read(len(buffer), position)
        buffer[: len(content)] = content
        return len(content)

    def ready_size(self, position: int, size: int) -> int:
        return size

    def size(self) -> int:
        return 0 if self._file is None else self._file.size()

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        return sum(map(len, buffers))

    def truncate(self, size: int) -> None:
        pass

    def sync(self) -> None:
        pass

    def write_out(self, position: int, size: int) -> None:
        pass

    def check_written(self) -> None:
        pass

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class LenientDisk:
    """The part of the disk port that recovery uses."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.has_hidden = False
        """Whether any segment or folder listing was hidden."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        try:
            return LenientFile(path, self._disk.open(path, writable=False))
        except OSError as error:
            if create:
                return LenientFile(path, None)
            raise FileNotFoundError(*error.args[:2], path) from error

    def read_file(self, path: str) -> bytes:
        file = self.open(path, writable=False)
        try:
            return file.read(file.size(), 0)
        finally:
            file.close()

    def list(self, path: str) -> list[str]:
        try:
            return [name for name in self._disk.list(path) if self._opens(f"{path}/{name}")]
        except OSError:
            self.has_hidden = True
            return []

    def _opens(self, path: str) -> bool:
        if not path.endswith(".log"):
            return True
        with suppress(OSError):
            self._disk.open(path, writable=False).close()
            return True
        self.has_hidden = True
        return False

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def make_folder(self, path: str) -> None:
        pass

    def rename(self, source: str, target: str) -> None:
        pass

    def remove(self, path: str) -> None:
        pass

    def replace_file(self, path: str, content: bytes) -> None:
        pass

    def sync_folder(self, path: str) -> None:
        pass

    def sync_volume(self, path: str) -> bool:
        return True
