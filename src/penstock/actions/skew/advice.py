"""Advice about a skewed topic, as sentences. No I/O."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

# A few thousand randomly hashed keys vary by this much.
EVEN_MAX = 1.3


class KeyShare(NamedTuple):
    """One heavy key of a sample."""

    key: bytes
    partition: int
    share: float
    """The share of the sampled records, from 0 to 1."""


class Observed(NamedTuple):
    """The measurements that advice depends on."""

    imbalance: float
    partition_count: int
    sampled: int
    keyless: int
    distinct_keys: int
    heavy: Sequence[KeyShare]


def advise(seen: Observed) -> list[str]:
    """Return the next steps, the most important first; one sentence if there is nothing to do."""
    return list(_advice(seen)) or ["Nothing to do: the load is spread evenly over the partitions."]


def _advice(seen: Observed) -> Iterator[str]:
    if seen.imbalance <= EVEN_MAX or seen.partition_count < 2:
        return
    if not seen.sampled:
        yield "The load is uneven, but no recent record could be read: run the command again while records are written."
        return
    fair = 1 / seen.partition_count
    hot = [heavy for heavy in seen.heavy if heavy.share > fair / 2]
    for heavy in hot[:3]:
        yield (
            f"Key {render_key(heavy.key)} has {heavy.share:.0%} of the records; an even share is {fair:.0%}. "
            f"Salt it (append a small number, for example {render_key(heavy.key + b'#0')}, and merge when reading), or "
            "assign it to a separate partition with a custom partitioner."
        )
    keyed = seen.sampled - seen.keyless
    if keyed and seen.distinct_keys < 10 * seen.partition_count:
        yield (
            f"There are only {seen.distinct_keys} keys for {seen.partition_count} partitions. Choose a key with more "
            "values, for example an id instead of a category."
        )
    if seen.keyless > seen.sampled / 2:
        yield (
            "Most records have no key, so the producer chose the partition. Use its sticky or round-robin "
            "partitioner, and look for code that sets partitions explicitly."
        )
    if not hot and keyed and seen.distinct_keys >= 10 * seen.partition_count:
        yield (
            "No single key causes the skew. Check that all producers use the same partitioner (murmur2; in librdkafka "
            "'partitioner=murmur2_random'), and whether partitions were added after most keys were written."
        )


def render_key(key: bytes) -> str:
    text = key.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
