"""The format of a data folder's journal: groups of entries, each the bytes that stand somewhere in some file.

A group is what one sync made durable. Entries are redone in order; one without bytes says that all that was
written down for its file so far no longer counts. The files are written over from their beginning again and
again: groups of one *pass* belong together, and what follows the last of them is of an older one. Clients choose
the bytes in entries, so a pass has a name that nobody can guess, or they could write groups. Pure: bytes in and out.
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
    """None: nothing that was written down for the file before counts any more."""


class Group(NamedTuple):
    pass_id: int
    number: int
    entries: list[Entry]
    end: int


@dataclass(slots=True)
class Pass:
    """What one file of a journal holds."""

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
    """Put the header before encoded entries."""
    checked = GROUP.pack(MAGIC, 0, len(entries), pass_id, number)[_CHECKED_FROM:]
    crc = crc32c(entries, crc32c(checked))
    return b"".join((MAGIC, crc.to_bytes(4, "big"), checked, entries))


def read_pass(name: str, content: bytes) -> Pass:
    """Return the pass that a file begins with: none, if not even its first group was finished."""
    found = Pass(name)
    group = first = _group_at(content, 0)
    while first is not None and group is not None:
        found.entries += group.entries
        found.last_number = group.number
        at = group.end
        group = _group_at(content, at, pass_id=first.pass_id)
        if group is None:
            # The end, most likely. Behind a group that has rotted there are others.
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
    """Return the group that begins here, None if there is none, or none of that pass."""
    if len(content) - at < GROUP.size:
        return None
    magic, crc, size, found_id, number = GROUP.unpack_from(content, at)
    # The pass comes before the checksum: bytes that look like many long groups would be read over and over.
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
