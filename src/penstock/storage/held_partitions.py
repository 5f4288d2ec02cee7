"""The partitions of a data folder (`held-partitions`), to distinguish a lost folder from a new partition.

A table of slots that are rewritten in place, so that state changes work on a full disk. The format and the meaning of
each state are in docs/internals/damage.md. Called by store.py. Raises OSError.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from struct import Struct
from typing import Final
from uuid import UUID

from crc32c import crc32c

from penstock.ports.disk import Disk, File
from penstock.storage.checkpoint import write_unsynced

FILE_NAME: Final = "held-partitions"
BOOT_ID: Final = "boot-id"
# The slot size divides the sector size, so a power failure leaves the old or the new content.
_SLOT: Final = Struct(">B3x16siI4x")
_CHECKED_SIZE: Final = 24

Key = tuple[UUID, int]


class Holding(IntEnum):
    """The state of a partition's folder."""

    UNKNOWN = 0
    CREATED = 1
    HELD = 2


class HeldPartitions:
    """The partitions of one data folder, by topic id and index."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._path = f"{folder}/{FILE_NAME}"
        # The slot of each partition, by topic id and index: a key for both would take 64 bytes for each of thousands.
        self._slots: dict[UUID, dict[int, int]] = {}
        # The Holding in each slot, which takes a byte for each of thousands of partitions.
        self._states = bytearray()
        self._free: list[int] = []
        self._file: File | None = None
        self._is_dirty = self._is_deferred = False
        # Partitions that a power failure may bring back into the table, because their removal is not synced.
        self._unsynced_removals: set[Key] = set()
        self.is_new = False
        """Whether there was no file, so that nothing is known about any partition."""
        self._load()
        self.is_same_boot = bool(disk.boot_id()) and self._last_boot_id() == disk.boot_id()
        """Whether the machine has not restarted since the previous process opened its logs."""

    def __getitem__(self, key: Key) -> Holding:
        slot = self._slot_of(key)
        return Holding.UNKNOWN if slot is None else Holding(self._states[slot])

    def _slot_of(self, key: Key) -> int | None:
        slots = self._slots.get(key[0])
        return None if slots is None else slots.get(key[1])

    def note(self, key: Key, state: Holding) -> None:
        """Write a state without a sync, except for a removed partition that returns. UNKNOWN frees its slot."""
        if self[key] is state:
            return
        slot = self._slot_of(key)
        if slot is None:
            slot = self._free[-1] if self._free else len(self._states)
        content = bytes(_SLOT.size)
        if state is not Holding.UNKNOWN:
            content = _SLOT.pack(state, key[0].bytes, key[1], 0)
            content = _SLOT.pack(state, key[0].bytes, key[1], crc32c(content[:_CHECKED_SIZE]))
        self._open().write((content,), slot * _SLOT.size)
        self._is_dirty = True
        self._states[slot : slot + 1] = bytes((state,))
        if self._free and self._free[-1] == slot:
            self._free.pop()
        if state is Holding.UNKNOWN:
            del self._slots[key[0]][key[1]]
            if not self._slots[key[0]]:
                del self._slots[key[0]]
            self._free.append(slot)
            self._unsynced_removals.add(key)
        else:
            self._slots.setdefault(key[0], {})[key[1]] = slot
            if key in self._unsynced_removals:
                # The folder of the removed partition is gone: with its old state, the new one would count as lost.
                self.sync()

    @contextmanager
    def one_sync(self) -> Iterator[None]:
        """Make the changes of a block of code durable once, at its end. Raises OSError."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
        self.sync()

    def sync(self) -> None:
        """Make all state changes durable. Blocks, unless nothing has changed."""
        if self._is_dirty and not self._is_deferred:
            self._open().sync()
            self._is_dirty = False
            self._unsynced_removals.clear()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> File:
        if self._file is None:
            is_new = not self._disk.exists(self._path)
            self._file = self._disk.open(self._path, create=True)
            if is_new:
                self._disk.sync_folder(self._folder)
        return self._file

    def _load(self) -> None:
        try:
            content = self._disk.read_file(self._path)
        except FileNotFoundError:
            self.is_new = True
            return
        self._states = bytearray(-(-len(content) // _SLOT.size))
        for slot in range(len(self._states)):
            at = slot * _SLOT.size
            checked = content[at : at + _CHECKED_SIZE]
            if len(content) - at < _SLOT.size:
                self._free.append(slot)
                continue
            state, topic_id, index, crc = _SLOT.unpack_from(content, at)
            if state in (Holding.CREATED, Holding.HELD) and crc == crc32c(checked):
                self._slots.setdefault(UUID(bytes=topic_id), {})[index] = slot
                self._states[slot] = state
            else:
                self._free.append(slot)

    # Boots of the machine

    def note_boot(self) -> None:
        """Store the boot id of the machine. It needs no sync, because it matters only within the same boot."""
        with suppress(OSError):
            write_unsynced(self._disk, f"{self._folder}/{BOOT_ID}", self._disk.boot_id().encode())

    def _last_boot_id(self) -> str:
        try:
            return self._disk.read_file(f"{self._folder}/{BOOT_ID}").decode(errors="replace")
        except OSError:
            return ""
