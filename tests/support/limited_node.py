"""`penstock` on a disk that a test can fill: while the file `<data directory>.full` exists, files cannot grow.

Truncated or replaced files release their space, so that reserved space works as on a real disk.
"""

import errno
import os
from typing import Any
from unittest.mock import patch

from penstock.cli.main import main
from penstock.ports.real.disk import RealDisk, RealFile

MARKER_SUFFIX = ".full"


class Volume:
    """A counter of the free space while the disk is full."""

    def __init__(self) -> None:
        self.folder = ""
        self._free: int | None = None

    def take(self, size: int) -> None:
        """Allocate or release space."""
        if not os.path.exists(self.folder + MARKER_SUFFIX):
            self._free = None
            return
        free = self._free or 0
        if size > free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._free = free - size


volume = Volume()
_write, _truncate, _allocate, _replace = RealFile.write, RealFile.truncate, RealDisk.allocate, RealDisk.replace_file
_lock_folder, _space = RealDisk.lock_folder, RealDisk.space


def write(self: RealFile, buffers: Any, position: int) -> int:
    volume.take(max(position + sum(map(len, buffers)) - self.size(), 0))
    return _write(self, buffers, position)


def truncate(self: RealFile, size: int) -> None:
    volume.take(min(size - self.size(), 0))
    _truncate(self, size)


def allocate(self: RealDisk, path: str, size: int) -> None:
    volume.take(size - _size(path))
    _allocate(self, path, size)


def replace_file(self: RealDisk, path: str, content: bytes) -> None:
    volume.take(len(content))
    before = _size(path)
    _replace(self, path, content)
    volume.take(-before)


def space(self: RealDisk, path: str) -> tuple[int, int]:
    total, usable = _space(self, path)
    return total, 0 if os.path.exists(volume.folder + MARKER_SUFFIX) else usable


def lock_folder(self: RealDisk, path: str) -> Any:
    volume.folder = path
    return _lock_folder(self, path)


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


if __name__ == "__main__":
    with (
        patch.object(RealFile, "write", write),
        patch.object(RealFile, "truncate", truncate),
        patch.object(RealDisk, "allocate", allocate),
        patch.object(RealDisk, "replace_file", replace_file),
        patch.object(RealDisk, "lock_folder", lock_folder),
        patch.object(RealDisk, "space", space),
    ):
        main()
