"""The last offset of each key in the dirty part of a log, in bounded memory.

Short keys are stored as they are, longer ones as a 16-byte digest, for which collisions are infeasible.
"""

from hashlib import blake2b
from typing import Final

DIGEST_SIZE: Final = 16
# The memory of a digest, an offset and their share of the table in CPython.
ENTRY_SIZE: Final = 192


class KeyMap:
    """Offsets by key. `latest` is the last offset that the map covers."""

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
