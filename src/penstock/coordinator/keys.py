"""The partition of an internal topic for a key, as in Kafka: by Java's hash code of the string."""

from functools import lru_cache
from typing import Final

_HASHES_KEPT: Final = 1 << 16


@lru_cache(_HASHES_KEPT)
def java_hash(text: str) -> int:
    """Return Java's hash code of a string: 32 bits, over its UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8) + units[position + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def partition_of(key: str, partition_count: int) -> int:
    """Return the index of the partition that holds the key."""
    value = java_hash(key)
    # The smallest integer has no positive counterpart.
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
