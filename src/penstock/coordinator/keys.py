"""Which partition of an internal topic keeps a key, as Kafka has it: by the hash code that Java gives a string."""

from functools import lru_cache
from typing import Final

_HASHES_KEPT: Final = 1 << 16


@lru_cache(_HASHES_KEPT)
def java_hash(text: str) -> int:
    """The hash code of a string in Java: over its UTF-16 units, in 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def partition_of(key: str, partition_count: int) -> int:
    """The index of the partition that keeps the key."""
    value = java_hash(key)
    # The smallest number has no positive counterpart.
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
