"""Measuring a topic: load per partition from offsets and sizes, and the heaviest keys from a sample of records."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.actions.connection import Connection
from penstock.actions.errors import unknown_topic
from penstock.actions.librdkafka import client_config
from penstock.actions.skew.advice import KeyShare, Observed
from penstock.actions.skew.heavy_hitters import SpaceSaving
from penstock.actions.skew.measures import gini, max_over_mean

SKETCH_CAPACITY: Final = 1000
POLL_COUNT: Final = 2000
IDLE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    index: int
    earliest: int
    latest: int
    recent: int
    size: int


class KeySample(NamedTuple):
    sketch: SpaceSaving[tuple[bytes, int]]
    keyless: int
    distinct: int


def measure_partitions(connection: Connection, topic: str, window_ms: int) -> list[PartitionLoad]:
    """Return the load of each partition; records of the last `window_ms` count as recent."""
    from penstock.actions.cluster.offsets import EARLIEST, LATEST, list_offsets, partition_sizes
    from penstock.actions.cluster_client import open_cluster

    with open_cluster(connection) as cluster:
        found = [each for each in cluster.topics if each.name == topic]
        if not found:
            raise unknown_topic(topic)
        earliest, latest = list_offsets(cluster, EARLIEST, found), list_offsets(cluster, LATEST, found)
        start = list_offsets(cluster, int(time.time() * 1000) - window_ms, found)
        sizes = partition_sizes(cluster)
    return [
        PartitionLoad(
            index=partition[1],
            earliest=earliest.get(partition, 0),
            latest=end,
            recent=end - start[partition] if start.get(partition, -1) >= 0 else 0,
            size=sizes.get(partition, 0),
        )
        for partition, end in sorted(latest.items())
    ]


def sample_keys(
    connection: Connection,
    topic: str,
    partitions: list[PartitionLoad],
    count: int,
    *,
    advance: Callable[[int, int], None],
) -> KeySample:
    """Read the keys of about `count` of the newest records, in proportion to the load of the partitions.

    `advance` is called for each record with its size and the number of records so far.
    """
    from confluent_kafka import Consumer, TopicPartition

    weights = [partition.recent or partition.latest - partition.earliest for partition in partitions]
    total = sum(weights)
    starts = [
        TopicPartition(topic, each.index, max(each.earliest, each.latest - count * weight // total))
        for each, weight in zip(partitions, weights, strict=True)
        if total and count * weight // total
    ]
    sketch = SpaceSaving[tuple[bytes, int]](SKETCH_CAPACITY)
    keyless, hashes = 0, set[int]()
    ends = {partition.index: partition.latest for partition in partitions}
    left = {each.partition for each in starts if each.offset < ends[each.partition]}
    consumer: Any = Consumer(client_config(connection, **{"group.id": "penstock-skew", "enable.auto.commit": False}))
    try:
        consumer.assign(starts)
        last_message_at = time.monotonic()
        while left and time.monotonic() < last_message_at + IDLE_S:
            for message in consumer.consume(POLL_COUNT, timeout=1.0):
                last_message_at = time.monotonic()
                if message.error() is not None:
                    continue
                key = message.key()
                if key is None:
                    keyless += 1
                else:
                    sketch.add((key, message.partition()))
                    hashes.add(hash(key))
                advance(len(message), sketch.total + keyless)
                if message.offset() + 1 >= ends[message.partition()]:
                    left.discard(message.partition())
            left -= _finished(consumer, left, ends)
    finally:
        consumer.close()
    return KeySample(sketch, keyless, len(hashes))


def observe(partitions: list[PartitionLoad], sample: KeySample, key_count: int) -> tuple[Observed, float]:
    """Return what advice needs, and the Gini coefficient of the load."""
    recent = [partition.recent for partition in partitions]
    # Without recent records, the load is everything that the topic holds.
    loads = recent if any(recent) else [partition.latest - partition.earliest for partition in partitions]
    sampled = sample.sketch.total + sample.keyless
    observed = Observed(
        imbalance=max_over_mean(loads),
        partition_count=len(partitions),
        sampled=sampled,
        keyless=sample.keyless,
        distinct_keys=sample.distinct,
        heavy=[
            KeyShare(*heavy.key, heavy.guaranteed / sampled)
            for heavy in sample.sketch.heaviest(key_count)
            if heavy.guaranteed
        ],
    )
    return observed, gini(loads)


def partition_rows(partitions: list[PartitionLoad]) -> list[dict[str, object]]:
    """Return a row per partition, the busiest first."""
    recent, size = sum(each.recent for each in partitions), sum(each.size for each in partitions)
    return [
        {
            "partition": each.index,
            "offsets": each.latest - each.earliest,
            "recent": each.recent,
            "recent_share": f"{each.recent / recent:.1%}" if recent else None,
            "bytes": each.size,
            "bytes_share": f"{each.size / size:.1%}" if size else None,
        }
        for each in sorted(partitions, key=lambda each: (-each.recent, -each.size))
    ]


def _finished(consumer: Any, left: set[int], ends: dict[int, int]) -> set[int]:
    """Return partitions that are read to the end although the last offsets hold no records (markers, compaction)."""
    positions = {each.partition: each.offset for each in consumer.position(consumer.assignment())}
    return {index for index in left if positions.get(index, -1) >= ends[index]}
