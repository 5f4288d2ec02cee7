"""Files and folders of the simulated disk: what is durable, and the changes since the last sync.

`crash` keeps a random part of the changes: each 512-byte sector as some write left it, each rename entirely or not at
all. Used by disk.py.
"""

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Final

SECTOR_SIZE: Final = 512


class FileBytes:
    """The content of one file, independent of its name."""

    __slots__ = ("content", "durable", "first_pending", "pending", "unreadable")

    def __init__(self) -> None:
        self.content = bytearray()
        self.unreadable: tuple[int, int] | None = None
        """An unreadable range. One that starts below 0 also prevents opening the file."""
        self.durable = bytearray()
        # Writes (position, bytes) and truncations (size, None), numbered from the first one.
        self.pending: deque[tuple[int, bytes | None]] = deque()
        self.first_pending = 0

    def change(self, position: int, data: bytes | None) -> None:
        _apply(self.content, position, data)
        self.pending.append((position, data))

    def count(self) -> int:
        """Return the number of changes so far."""
        return self.first_pending + len(self.pending)

    def sync(self, count: int) -> None:
        """Make the first `count` changes durable."""
        while self.pending and self.first_pending < count:
            _apply(self.durable, *self.pending.popleft())
            self.first_pending += 1

    def drop_pending(self) -> None:
        """Drop the changes after a failed sync: pages count as clean, and their bytes never reach the disk."""
        self.first_pending += len(self.pending)
        self.pending.clear()

    def crash(self, random: Random, kept: float) -> None:
        """Leave each sector, and the size, as it was after some number of the pending changes."""
        states = [bytes(self.durable)]
        for position, data in self.pending:
            _apply(self.durable, position, data)
            states.append(bytes(self.durable))
        size = len(_survivor(states, random, kept))
        survived = bytearray()
        while len(survived) < size:
            at = len(survived)
            survived += _survivor(states, random, kept)[at : at + SECTOR_SIZE].ljust(SECTOR_SIZE, b"\0")
        del survived[size:]
        self.durable = survived
        self.pending.clear()
        self.content = bytearray(survived)


def _survivor(states: list[bytes], random: Random, kept: float) -> bytes:
    if random.random() < kept:
        return states[-1]
    return random.choice(states) if kept else states[0]


def _apply(target: bytearray, position: int, data: bytes | None) -> None:
    if len(target) < position:
        target.extend(bytes(position - len(target)))
    if data is None:
        del target[position:]
    else:
        target[position : position + len(data)] = data


class Folder:
    """Names of files and directories. Changes are (name removed or "", name added or "", the added entry)."""

    __slots__ = ("durable", "first_pending", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, FileBytes | Folder] = {}
        self.durable: dict[str, FileBytes | Folder] = {}
        # Numbered from the first one, as for a file.
        self.pending: deque[tuple[str, str, FileBytes | Folder | None]] = deque()
        self.first_pending = 0

    def change(self, removed: str, added: str = "", entry: "FileBytes | Folder | None" = None) -> None:
        self.pending.append((removed, added, entry))
        _rename(self.names, removed, added, entry)

    def count(self) -> int:
        """Return the number of changes so far."""
        return self.first_pending + len(self.pending)

    def sync(self, count: int) -> None:
        """Make the first `count` changes durable."""
        while self.pending and self.first_pending < count:
            _rename(self.durable, *self.pending.popleft())
            self.first_pending += 1

    def drop_pending(self) -> None:
        """Do nothing after a failed sync: file systems journal names in order, and a later sync covers all."""

    def crash(self, random: Random, kept: float) -> None:
        for change in self.pending:
            if random.random() < kept:
                _rename(self.durable, *change)
        self.first_pending += len(self.pending)
        self.pending.clear()
        self.names = dict(self.durable)
        for entry in self.names.values():
            entry.crash(random, kept)


def _rename(names: dict[str, FileBytes | Folder], removed: str, added: str, entry: "FileBytes | Folder | None") -> None:
    names.pop(removed, None)
    if entry is not None:
        names[added] = entry


def entries_of(folder: Folder) -> Iterator[FileBytes | Folder]:
    """Yield a folder and everything in it."""
    yield folder
    for entry in folder.names.values():
        if isinstance(entry, Folder):
            yield from entries_of(entry)
        else:
            yield entry


def used_size(folder: Folder) -> int:
    return sum(used_size(entry) if isinstance(entry, Folder) else len(entry.content) for entry in folder.names.values())
