"""Files. Everything is synchronous except `sync_later` and its like, the only calls worth waiting for.

Paths are strings below one root or absolute; the port does not interpret them. Every call
may raise `OSError` (ENOSPC, EIO, EMFILE ...), and callers must expect it anywhere.

What survives a power loss: the bytes of a file up to its last finished sync, and names
(creation, rename, removal) up to the last finished `sync_folder` of their folder.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. Reads and writes name their position; there is no cursor.

    A file that is removed while slices of it wait to be sent stays readable through this
    object: the descriptor closes with `close` or with the last reference.
    """

    path: str

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all buffers one after the other at the position; return the bytes written.

        Raises OSError if fewer could be written. Part of the bytes may then be on
        disk: the caller truncates or overwrites them.
        """
        ...

    def read(self, size: int, position: int) -> bytes:
        """Read up to size bytes; fewer only at the end of the file."""
        ...

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill the buffer from the position; return the bytes read."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Make the bytes durable before returning. Blocks: for cold paths only."""
        ...

    def write_out(self, position: int, size: int) -> None:
        """Have bytes written out, so that a later sync finds little to do. Promises nothing, and blocks."""
        ...

    def close(self) -> None: ...


class FolderLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """Open a file; with create, make it if it is missing (never truncates)."""
        ...

    def sync_later(self, file: File, done: Callable[[OSError | None], None]) -> None:
        """Make durable what was written to the file before this call, off the event loop.

        `done` is called on the event loop, in the order of the calls for one file.
        """
        ...

    def sync_tail_later(self, file: File, position: int, size: int, done: Callable[[OSError | None], None]) -> None:
        """`sync_later` of a file to which only these bytes were written since its last sync, of either kind.

        So they may be kept elsewhere until the file itself is synced. Such a file is cut with `cut`.
        """
        ...

    def cut(self, file: File, size: int) -> None:
        """Truncate a file, for good: nothing that stood behind the cut comes back."""
        ...

    def sync_folder_later(self, path: str, done: Callable[[OSError | None], None]) -> None:
        """Make durable what was made, renamed or removed in the folder before this call, off the event loop."""
        ...

    def remove_later(self, path: str, done: Callable[[OSError | None], None]) -> None:
        """Remove a file, or a folder with all that is in it, off the event loop: large files take long."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, content: bytes) -> None:
        """Durably put content at path: temporary file, sync, rename, sync of the folder."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """The sorted names in a folder, files and folders alike."""
        ...

    def is_folder(self, path: str) -> bool: ...

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents; no error if it is there."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file; no error if it is not there."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that is in it; no error if it is not there."""
        ...

    def sync_folder(self, path: str) -> None: ...

    def lock_folder(self, path: str) -> FolderLock:
        """Take the folder for this process alone; raises BlockingIOError if another has it."""
        ...

    def allocate(self, path: str, size: int) -> None:
        """Make or cut a file to so many bytes, all of which have their place on the volume. What they are is undefined.

        After an OSError the file may have any size in between.
        """
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Total and usable bytes of the volume that holds the path."""
        ...

    def boot_id(self) -> str:
        """A name for this run of the machine, within which nothing that was written is lost; "" if unknown."""
        ...
