"""Files. Everything is synchronous except `sync_later` and similar calls, the only ones worth waiting for.

Paths are strings below one root or absolute; the port does not interpret them. Every call
may raise `OSError` (ENOSPC, EIO, EMFILE ...), and callers must expect that.

A power loss preserves the bytes of a file up to its last finished sync, and names
(creation, rename, removal) up to the last finished `sync_folder` of their folder.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. Reads and writes name their position; there is no cursor.

    A file that is removed while slices of it wait to be sent stays readable through this
    object: the descriptor is closed by `close` or with the last reference.
    """

    path: str

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all buffers one after the other at the position; return the bytes written.

        Raises OSError if not all of them could be written. Some of the bytes may then be on
        disk: the caller truncates or overwrites them.
        """
        ...

    def read(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""
        ...

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill the buffer from the position; return the bytes read."""
        ...

    def ready_size(self, position: int, size: int) -> int:
        """Return about how many of these bytes can be read without a wait for the disk. Read the others ahead."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Make the bytes durable before returning. Blocks: for cold paths only."""
        ...

    def write_out(self, position: int, size: int) -> None:
        """Write bytes to the disk, so that a later sync has little to do. Guarantees nothing, and blocks."""
        ...

    def check_written(self) -> None:
        """Raise OSError if bytes that were written to the file could not be written to the disk.

        After `sync_volume`, the file is durable if this does not raise.
        """
        ...

    def close(self) -> None: ...


class FolderLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """Open a file; with `create`, create it if it is missing (never truncates)."""
        ...

    def sync_later(self, file: File, done: Callable[[OSError | None], None]) -> None:
        """Make durable, off the event loop, what was written to the file before this call.

        `done` is called on the event loop, in the order of the calls for one file.
        """
        ...

    def sync_tail_later(self, file: File, position: int, size: int, done: Callable[[OSError | None], None]) -> None:
        """Sync a file to which only these bytes were written since its last sync of either kind, like `sync_later`.

        The bytes may therefore be kept elsewhere until the file itself is synced. Such a file is truncated with `cut`.
        """
        ...

    def cut(self, file: File, size: int) -> None:
        """Truncate a file durably: nothing behind the cut comes back after a crash."""
        ...

    def sync_folder_later(self, path: str, done: Callable[[OSError | None], None]) -> None:
        """Make durable, off the event loop, what was created, renamed or removed in the folder before this call."""
        ...

    def remove_later(self, path: str, done: Callable[[OSError | None], None]) -> None:
        """Remove a file, or a folder with its content, off the event loop: large files take long."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, content: bytes) -> None:
        """Durably replace the content of a file: temporary file, sync, rename, sync of the folder."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Return the sorted names of the files and folders in a folder."""
        ...

    def is_folder(self, path: str) -> bool: ...

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents; do nothing if it already exists."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file; do nothing if it does not exist."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove a folder with its content; do nothing if it does not exist."""
        ...

    def sync_folder(self, path: str) -> None: ...

    def sync_volume(self, path: str) -> bool:
        """Make everything durable that was written, created, renamed or removed on the volume before this call.

        With many files this takes a fraction of the time of syncing each. The errors of a single file are reported by
        its `check_written`. Blocks; return False, without doing anything, if the volume does not support it.
        """
        ...

    def lock_folder(self, path: str) -> FolderLock:
        """Lock the folder for this process; raise BlockingIOError if another process has locked it."""
        ...

    def allocate(self, path: str, size: int) -> None:
        """Create or resize a file with all of its bytes allocated on the volume. Their content is undefined.

        After an OSError the file may have any size in between.
        """
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Return the total and usable bytes of the volume with the path."""
        ...

    def open_files_max(self) -> int:
        """Return how many files and connections this process may have open."""
        ...

    def boot_id(self) -> str:
        """Return an id of this boot of the machine, during which no written data is lost; "" if unknown."""
        ...
