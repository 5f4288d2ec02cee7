"""One data folder as a device: whether it still works, and which of its files are open.

The first failed sync takes the whole folder offline for good (`fail`): the kernel may have
dropped the pages, so a second try could only pretend. Logs ask `failure` before they
acknowledge anything.
"""

from collections.abc import Callable
from typing import Final

from penstock.ports.disk import Disk, File

OPEN_FILES_MAX: Final = 256


class OpenFiles:
    """Read handles of inactive segments, the longest unused dropped first.

    Handles are dropped and never closed: a slice that waits to be sent keeps its file.
    """

    __slots__ = ("_disk", "_files", "_most")

    def __init__(self, disk: Disk, most: int = OPEN_FILES_MAX) -> None:
        self._disk = disk
        self._most = most
        self._files: dict[str, File] = {}

    def get(self, path: str) -> File:
        file = self._files.pop(path, None)
        if file is None:
            file = self._disk.open(path, writable=False)
            while len(self._files) >= self._most:
                del self._files[next(iter(self._files))]
        self._files[path] = file
        return file

    def forget(self, path: str) -> None:
        self._files.pop(path, None)


class LogDirectory:
    """A data folder that all of its logs share."""

    __slots__ = ("disk", "failed_before", "failure", "on_failure", "open_files", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = path
        self.failure: OSError | None = None
        self.failed_before = False
        """Whether the last process here stopped on a failed sync: what the cache shows may not be on disk."""
        self.on_failure: Callable[[OSError], None] = lambda error: None
        self.open_files = OpenFiles(disk)

    def fail(self, error: OSError) -> None:
        """Take the folder offline. Nothing brings it back but a restart that reads it anew."""
        if self.failure is None:
            self.failure = error
            self.on_failure(error)
