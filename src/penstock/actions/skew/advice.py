"""What to do about a skewed topic, in sentences. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

# A busiest partition below this multiple of the mean is what chance does to a few thousand keys.
EVEN_MAX = 1.3


class KeyShare(NamedTuple):
    """One heavy key of a sample."""

    key: bytes
    partition: int
    share: float
    """Of the sampled records, from 0 to 1."""


class Observed(NamedTuple):
    """What a look at a topic has shown."""

    imbalance: float
    partition_count: int
    sampled: int
    keyless: int
    distinct_keys: int
    heavy: Sequence[KeyShare]


def advise(seen: Observed) -> list[str]:
    """The next steps, the weightiest first; one line if there is nothing to do."""
    return list(_advice(seen)) or ["Nothing to do: the partitions share the load about evenly."]


def _advice(seen: Observed) -> Iterator[str]:
    if seen.imbalance <= EVEN_MAX or seen.partition_count < 2:
        return
    fair = 1 / seen.partition_count
    hot = [heavy for heavy in seen.heavy if heavy.share > fair / 2]
    for heavy in hot[:3]:
        yield (
            f"Key {shown(heavy.key)} alone is {heavy.share:.0%} of the records; a fair partition carries {fair:.0%}. "
            f"Salt it (append a small number, for example {shown(heavy.key + b'#0')}, and merge when reading), or give "
            "it a partition of its own with a custom partitioner."
        )
    keyed = seen.sampled - seen.keyless
    if keyed and seen.distinct_keys < 10 * seen.partition_count:
        yield (
            f"Only {seen.distinct_keys} keys for {seen.partition_count} partitions: choose a key with more values "
            "(an id instead of a category), or the hash cannot spread them."
        )
    if seen.sampled and seen.keyless > seen.sampled / 2:
        yield (
            "Most records have no key, so the producer chose the partition: use its sticky or round-robin "
            "partitioner, and look for code that names partitions itself."
        )
    if not hot and keyed and seen.distinct_keys >= 10 * seen.partition_count:
        yield (
            "No single key is to blame: check that every producer hashes alike (murmur2, 'partitioner=murmur2_random' "
            "in librdkafka), and whether partitions were added after most keys were written."
        )


def shown(key: bytes) -> str:
    text = key.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
