"""The last offset of each key in the dirty part of a log, in bounded memory.

Short keys stand for themselves, longer ones for a 16-byte digest: two keys of one digest
do not happen by chance, nor by anybody's doing.
"""

from hashlib import blake2b
from typing import Final

DIGEST_SIZE: Final = 16
# A digest, an offset and their share of the table, as CPython keeps them.
ENTRY_SIZE: Final = 192


class KeyMap:
    """Offsets by key; `full` once no further key fits. `latest` is the last offset that the map accounts for."""

    __slots__ = ("_capacity", "latest", "offsets")

    def __init__(self, *, memory: int, load_factor: float) -> None:
        self._capacity = max(int(memory * load_factor) // ENTRY_SIZE, 1)
        self.offsets: dict[bytes, int] = {}
        self.latest = -1

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def room(self) -> int:
        return self._capacity - len(self.offsets)

    def note(self, key: bytes, offset: int) -> None:
        self.offsets[key if len(key) < DIGEST_SIZE else digest(key)] = offset

    def last_of(self, key: bytes) -> int:
        """Return the last offset of a key, -1 if it is not in the dirty part."""
        return self.offsets.get(key if len(key) < DIGEST_SIZE else digest(key), -1)


def digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_SIZE).digest()
