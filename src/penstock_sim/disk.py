"""An in-memory disk that loses power, fills up, fails and decays on command.

Each file has durable bytes and writes since its last sync; each directory has durable names and changes since its last
sync. `crash` keeps a random part of both: each 512-byte sector as some write left it, each rename entirely or not at
all. `fail_at` makes the Nth call fail or stops the node there. Syncs requested with `sync_later` complete immediately,
or one by one with `finish_sync`.
"""

import errno
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from penstock.ports.disk import Buffer, File
from penstock_sim.disk_entries import FileBytes, Folder, entries_of, used_size

_SPACE_TOTAL: Final = 1 << 40


class Crashed(Exception):
    """The node has crashed: it stopped at this call, and later calls fail until `crash` is called."""


class SimFile:
    """An open file; it stays readable after its name is removed."""

    __slots__ = ("__weakref__", "_disk", "bytes", "path")

    def __init__(self, disk: "SimDisk", path: str, content: FileBytes) -> None:
        self._disk = disk
        self.path = path
        self.bytes = content

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        data = b"".join(buffers)
        try:
            self._disk.call("write", self.path)
        except (OSError, Crashed):
            # Any part of the write may have reached the file.
            self.bytes.change(position, data[: self._disk.random.randrange(len(data) + 1)])
            raise
        room = self._disk.room_for(self.bytes, position, len(data))
        if room < len(data):
            self.bytes.change(position, data[:room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        self.bytes.change(position, data)
        return len(data)

    def read(self, size: int, position: int, *, kind: str = "read") -> bytes:
        self._disk.call(kind, self.path)
        self.check_readable(size, position)
        return bytes(self.bytes.content[position : position + size])

    def read_to_send(self, size: int, position: int) -> bytes:
        """Read bytes while a response is sent."""
        return self.read(size, position, kind="send")

    def check_readable(self, size: int, position: int) -> None:
        unreadable = self.bytes.unreadable
        if unreadable is not None and position < unreadable[1] and unreadable[0] < position + size:
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        self._disk.call("read", self.path)
        self.check_readable(len(buffer), position)
        data = self.bytes.content[position : position + len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def ready_size(self, position: int, size: int) -> int:
        return size

    def size(self) -> int:
        return len(self.bytes.content)

    def truncate(self, size: int) -> None:
        self._disk.call("truncate", self.path)
        self.bytes.change(size, None)

    def sync(self) -> None:
        self._disk.sync_bytes(self, self.bytes.count())

    def write_out(self, position: int, size: int) -> None:
        return

    def check_written(self) -> None:
        return

    def close(self) -> None:
        return


class SimLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


class SimDisk:
    """Directories and files below one root, "/"."""

    def __init__(self, seed: int | str = 0, *, capacity: int | None = None, syncs_at_once: bool = True) -> None:
        self.random = Random(f"{seed}:disk")
        self.capacity = capacity
        self.syncs_at_once = syncs_at_once
        # The number of calls, and the faults at some of them: an errno, or None for a crash of the node.
        self.calls = 0
        self.fail_at: dict[int, int | None] = {}
        # Kinds of calls that keep failing, with their errno.
        self.failing: dict[str, int] = {}
        self.trace: list[tuple[str, str]] = []
        self._dead = False
        self._boots = 1
        self._unreadable, self._unreadable_for_good = list[FileBytes](), list[FileBytes]()
        self._root = Folder()
        self._locked: set[str] = set()
        self._syncs: deque[tuple[FileBytes | Folder, int, Callable[[OSError | None], None]]] = deque()

    # Faults

    def call(self, kind: str, path: str) -> None:
        """Count a call, and fail if a fault is set for it."""
        if self._dead:
            raise Crashed(f"{kind} {path} after the crash")
        self.calls += 1
        self.trace.append((kind, path))
        if self.calls in self.fail_at:
            fault = self.fail_at[self.calls]
            if fault is None:
                self._dead = True
                raise Crashed(f"stopped at call {self.calls}: {kind} {path}")
            raise OSError(fault, os.strerror(fault), path)
        if kind in self.failing:
            raise OSError(self.failing[kind], os.strerror(self.failing[kind]), path)

    def crash(self, random: Random | None = None, *, kept: float | None = None) -> None:
        """Simulate a power loss. Unsynced data survives piece by piece, with probability `kept`."""
        random = random or self.random
        self._root.crash(random, random.choice((0.0, 0.3, 0.7, 0.95, 1.0)) if kept is None else kept)
        self._boots += 1
        self.end_process()

    def end_process(self) -> None:
        """Simulate the end of the process: everything written stays, synced or not."""
        self._dead = False
        self.read_well()
        self.fail_at.clear()
        self.failing.clear()
        self._locked.clear()
        self._syncs.clear()

    def flip(self, path: str, position: int, mask: int = 1) -> None:
        """Flip bits of one byte of a file."""
        found = self._file(path)
        found.content[position] ^= mask
        if position < len(found.durable):
            found.durable[position] ^= mask

    def lose(self, path: str) -> None:
        """Remove a file or a directory permanently, with its contents."""
        folder, name = self._locate(path)
        folder.names.pop(name, None)
        folder.durable.pop(name, None)
        # Keep numbered changes: a sync in progress ends at one of them.
        folder.pending = deque(change if name not in change[:2] else ("", "", None) for change in folder.pending)

    def cut_off(self, path: str, size: int) -> None:
        """Cut off the end of a file."""
        self.put_back(path, bytes(self._file(path).content[:size]))

    def make_unreadable(self, path: str, start: int, end: int, *, lasting: bool = False) -> None:
        """Make a range of a file unreadable until the process ends, or permanently with `lasting`."""
        found = self._file(path)
        found.unreadable = (start, end)
        (self._unreadable_for_good if lasting else self._unreadable).append(found)

    @property
    def has_unreadable(self) -> bool:
        return bool(self._unreadable or self._unreadable_for_good)

    def read_well(self) -> None:
        """Make everything readable again, except permanent errors."""
        for found in self._unreadable:
            found.unreadable = None
        self._unreadable.clear()

    def put_back(self, path: str, content: bytes) -> None:
        """Restore an old content of a file: all later writes are lost silently."""
        found = self._file(path)
        found.drop_pending()
        found.content, found.durable = bytearray(content), bytearray(content)

    def finish_sync(self, error: OSError | None = None) -> bool:
        """Complete the oldest sync in progress; return False if there is none."""
        if not self._syncs:
            return False
        content, count, done = self._syncs.popleft()
        if error is not None:
            content.drop_pending()
        else:
            content.sync(count)
        done(error)
        return True

    def syncs_under_way(self) -> int:
        return len(self._syncs)

    def sync_bytes(self, file: SimFile, count: int) -> None:
        try:
            self.call("sync", file.path)
        except OSError:
            file.bytes.drop_pending()
            raise
        file.bytes.sync(count)

    def room_for(self, content: FileBytes, position: int, size: int) -> int:
        """Return how many bytes of a write fit; overwriting needs no space."""
        growth = position + size - len(content.content)
        if self.capacity is None or growth <= 0:
            return size
        free = max(self.capacity - used_size(self._root), 0)
        return size - max(growth - free, 0)

    # The disk port

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        self.call("open", path)
        folder, name = self._locate(path)
        entry = folder.names.get(name)
        if entry is None and create:
            entry = FileBytes()
            folder.change("", name, entry)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(entry, Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if entry.unreadable is not None and entry.unreadable[0] < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return SimFile(self, path, entry)

    def sync_later(self, file: File, done: Callable[[OSError | None], None]) -> None:
        assert isinstance(file, SimFile), "a file of this disk"
        if not self.syncs_at_once:
            self._syncs.append((file.bytes, file.bytes.count(), done))
            return
        try:
            file.sync()
        except OSError as error:
            done(error)
        else:
            done(None)

    def sync_tail_later(self, file: File, position: int, size: int, done: Callable[[OSError | None], None]) -> None:
        self.sync_later(file, done)

    def cut(self, file: File, size: int) -> None:
        file.truncate(size)

    def sync_folder_later(self, path: str, done: Callable[[OSError | None], None]) -> None:
        if not self.syncs_at_once:
            folder = self._folder(path)
            self._syncs.append((folder, folder.count(), done))
            return
        try:
            self.sync_folder(path)
        except OSError as error:
            done(error)
        else:
            done(None)

    def remove_later(self, path: str, done: Callable[[OSError | None], None]) -> None:
        try:
            self.remove(path)
        except OSError as error:
            done(error)
        else:
            done(None)

    def read_file(self, path: str) -> bytes:
        self.call("read", path)
        found = self._file(path)
        SimFile(self, path, found).check_readable(len(found.content), 0)
        return bytes(found.content)

    def replace_file(self, path: str, content: bytes) -> None:
        file = self.open(path + ".tmp", create=True)
        file.truncate(0)
        file.write((content,), 0)
        file.sync()
        self.rename(path + ".tmp", path)
        self.sync_folder(path.rpartition("/")[0])

    def exists(self, path: str) -> bool:
        try:
            folder, name = self._locate(path)
        except FileNotFoundError:
            return False
        return not name or name in folder.names

    def list(self, path: str) -> list[str]:
        self.call("list", path)
        return sorted(self._folder(path).names)

    def is_folder(self, path: str) -> bool:
        try:
            self._folder(path)
        except OSError:
            return False
        return True

    def make_folder(self, path: str) -> None:
        self.call("make_folder", path)
        folder = self._root
        for name in path.strip("/").split("/"):
            if name not in folder.names:
                folder.change("", name, Folder())
            entry = folder.names[name]
            if not isinstance(entry, Folder):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            folder = entry

    def rename(self, source: str, target: str) -> None:
        self.call("rename", source)
        folder, name = self._locate(source)
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        other, new_name = self._locate(target)
        assert other is folder, "renames stay within one folder"
        folder.change(name, new_name, folder.names[name])

    def remove(self, path: str) -> None:
        self.call("remove", path)
        folder, name = self._locate(path)
        if name in folder.names:
            folder.change(name)

    def remove_folder(self, path: str) -> None:
        self.remove(path)

    def sync_folder(self, path: str) -> None:
        self.call("sync_folder", path)
        folder = self._folder(path)
        folder.sync(folder.count())

    def sync_volume(self, path: str) -> bool:
        try:
            self.call("sync", path)
        except OSError:
            for entry in entries_of(self._root):
                entry.drop_pending()
            raise
        for entry in entries_of(self._root):
            entry.sync(entry.count())
        return True

    def lock_folder(self, path: str) -> SimLock:
        if path in self._locked:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        self._locked.add(path)
        return SimLock(self._locked, path)

    def allocate(self, path: str, size: int) -> None:
        file = self.open(path, create=True)
        present = file.size()
        if size <= present:
            file.truncate(size)
        else:
            file.write((bytes(size - present),), present)

    def space(self, path: str) -> tuple[int, int]:
        total = _SPACE_TOTAL if self.capacity is None else self.capacity
        return total, max(total - used_size(self._root), 0)

    def open_files_max(self) -> int:
        return sys.maxsize

    def boot_id(self) -> str:
        return str(self._boots)

    def _locate(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.strip("/").rpartition("/")
        return self._folder(folder), name

    def _folder(self, path: str) -> Folder:
        entry: FileBytes | Folder = self._root
        for name in path.strip("/").split("/") if path.strip("/") else ():
            found = entry.names.get(name) if isinstance(entry, Folder) else None
            if found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            entry = found
        if not isinstance(entry, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return entry

    def _file(self, path: str) -> FileBytes:
        folder, name = self._locate(path)
        entry = folder.names.get(name)
        if not isinstance(entry, FileBytes):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return entry
