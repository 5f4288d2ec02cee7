"""The format of a data folder's journal: groups of entries, each with bytes, their position and their file.

One sync makes one group durable. Entries are replayed in order; one without bytes invalidates all earlier entries of
its file. The files are overwritten from the beginning again and again: the groups of one *pass* belong together, and
bytes after the last of them come from an older pass. Clients choose the bytes in entries, so the id of a pass is
unpredictable, or clients could forge groups. Pure: bytes in, bytes out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

MAGIC: Final = b"PsJ1"
# Magic, checksum of all that follows it, size of the entries, pass, number of the group.
GROUP: Final = Struct(">4sIIQQ")
_CHECKED_FROM: Final = 8
# Size of the path, position, size of the bytes: -1 without any.
ENTRY: Final = Struct(">Hqi")


class Entry(NamedTuple):
    path: str
    position: int
    data: bytes | None
    """None invalidates all earlier entries of the file."""


class Group(NamedTuple):
    pass_id: int
    number: int
    entries: list[Entry]
    end: int


@dataclass(slots=True)
class Pass:
    """The content of one journal file."""

    name: str
    last_number: int = 0
    entries: list[Entry] = field(default_factory=list)
    has_gaps: bool = False


def encode_entries(entries: Iterable[Entry]) -> bytes:
    parts: list[bytes] = []
    for path, position, data in entries:
        name = path.encode("utf-8", "surrogateescape")
        parts += ENTRY.pack(len(name), position, -1 if data is None else len(data)), name, data or b""
    return b"".join(parts)


def seal_group(entries: bytes, *, pass_id: int, number: int) -> bytes:
    """Return encoded entries with their group header."""
    checked = GROUP.pack(MAGIC, 0, len(entries), pass_id, number)[_CHECKED_FROM:]
    crc = crc32c(entries, crc32c(checked))
    return b"".join((MAGIC, crc.to_bytes(4, "big"), checked, entries))


def read_pass(name: str, content: bytes) -> Pass:
    """Return the pass at the beginning of a file; it is empty if the first group is incomplete."""
    found = Pass(name)
    group = first = _group_at(content, 0)
    while first is not None and group is not None:
        found.entries += group.entries
        found.last_number = group.number
        at = group.end
        group = _group_at(content, at, pass_id=first.pass_id)
        if group is None:
            # Most likely the end; but if the group is corrupt, others follow it.
            group = _find_group(content, at, pass_id=first.pass_id)
            found.has_gaps |= group is not None
    return found


def _find_group(content: bytes, at: int, *, pass_id: int) -> Group | None:
    while (at := content.find(MAGIC, at)) >= 0:
        group = _group_at(content, at, pass_id=pass_id)
        if group is not None:
            return group
        at += 1
    return None


def _group_at(content: bytes, at: int, *, pass_id: int | None = None) -> Group | None:
    """Return the group at a position, None if there is none of that pass."""
    if len(content) - at < GROUP.size:
        return None
    magic, crc, size, found_id, number = GROUP.unpack_from(content, at)
    # Compare the pass before the checksum: otherwise bytes that look like many long groups would be read repeatedly.
    if magic != MAGIC or (pass_id is not None and found_id != pass_id):
        return None
    end = at + GROUP.size + size
    if end > len(content) or crc32c(memoryview(content)[at + _CHECKED_FROM : end]) != crc:
        return None
    return Group(found_id, number, _read_entries(content, at + GROUP.size, end), end)


def _read_entries(content: bytes, at: int, end: int) -> list[Entry]:
    entries: list[Entry] = []
    while at < end:
        name_size, position, data_size = ENTRY.unpack_from(content, at)
        at += ENTRY.size
        path = content[at : at + name_size].decode("utf-8", "surrogateescape")
        at += name_size
        entries.append(Entry(path, position, None if data_size < 0 else content[at : at + data_size]))
        at += max(data_size, 0)
    return entries
