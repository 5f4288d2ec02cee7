"""penstock topic skew: which partitions and keys of a topic carry more than their share, and what to do.

Counts come from offsets and folder sizes, keys from a sample of the newest records. Only reads, as any client.
"""

import time
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import typer

from penstock.actions.connection import DEFAULT_BOOTSTRAP, BootstrapOption, client_settings, open_cluster, reach
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show
from penstock.actions.positions import parse_duration_ms
from penstock.cli.progress import Progress
from penstock.actions.skew.advice import KeyShare, Observed, advise, shown
from penstock.actions.skew.heavy_hitters import SpaceSaving
from penstock.actions.skew.measures import gini, max_over_mean

EXAMPLE = "Example: penstock topic skew orders --since 1h --sample 200000"
SKETCH_CAPACITY = 1000
POLL_COUNT = 2000
QUIET_S = 5.0
PARTITION_COLUMNS = ["partition", "records", "recent", "recent_share", "bytes", "bytes_share"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    index: int
    earliest: int
    latest: int
    recent: int
    size: int


class Sample(NamedTuple):
    sketch: SpaceSaving[tuple[bytes, int]]
    keyless: int
    distinct: int


def skew(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.", show_default=False)],
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="What counts as recent: 15m, 1h, 7d.")] = "1h",
    sample: Annotated[
        int, typer.Option("--sample", min=0, help="Look at the keys of about so many of the newest records.")
    ] = 100_000,
    keys: Annotated[int, typer.Option("--keys", min=1, help="Show so many of the heaviest keys.")] = 10,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Name the hottest partitions and keys of a topic, and say what to do about them."""
    reach(bootstrap)
    partitions = _measure(bootstrap, topic, parse_duration_ms(since, option="--since"))
    seen = _sample(bootstrap, topic, partitions, sample)
    recent = [partition.recent for partition in partitions]
    # A topic at rest is judged by all that it holds.
    loads = recent if any(recent) else [partition.latest - partition.earliest for partition in partitions]
    observed = Observed(
        imbalance=max_over_mean(loads),
        partition_count=len(partitions),
        sampled=seen.sketch.total + seen.keyless,
        keyless=seen.keyless,
        distinct_keys=seen.distinct,
        heavy=_heavy(seen, keys),
    )
    rows = _partition_rows(partitions)
    key_rows = [
        {"key": shown(heavy.key), "partition": heavy.partition, "share": f"{heavy.share:.1%}"}
        for heavy in observed.heavy
    ]
    if format is not Format.TABLE:
        show([{"topic": topic, **row} for row in rows], ["topic", *PARTITION_COLUMNS], format)
        return
    print(
        f"{topic}: busiest partition {observed.imbalance:.2f} x the mean, Gini {gini(loads):.2f} over the last {since}"
    )
    show(rows, PARTITION_COLUMNS, format)
    if observed.sampled:
        print(f"\nheaviest keys among the newest {observed.sampled:,} records ({observed.keyless:,} without a key)")
        show(key_rows, ["key", "partition", "share"], format)
    print()
    for line in advise(observed):
        print(line)


def _measure(bootstrap: str, topic: str, window_ms: int) -> list[Partition]:
    from penstock.sqlview.topics import EARLIEST, LATEST, list_offsets, sizes

    with open_cluster(bootstrap) as cluster:
        found = [each for each in cluster.topics if each.name == topic]
        if not found:
            raise CommandError(f"There is no topic {topic}: 'penstock topic list' shows the topics there are.")
        earliest, latest = list_offsets(cluster, EARLIEST, found), list_offsets(cluster, LATEST, found)
        begin = list_offsets(cluster, int(time.time() * 1000) - window_ms, found)
        bytes_held = sizes(cluster)
    return [
        Partition(
            index=place[1],
            earliest=earliest.get(place, 0),
            latest=end,
            recent=end - begin[place] if begin.get(place, -1) >= 0 else 0,
            size=bytes_held.get(place, 0),
        )
        for place, end in sorted(latest.items())
    ]


def _sample(bootstrap: str, topic: str, partitions: list[Partition], count: int) -> Sample:
    """The keys of the newest records, from each partition as many as its part of what arrived recently."""
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
    settings = client_settings(bootstrap, **{"group.id": "penstock-skew", "enable.auto.commit": False})
    consumer: Any = Consumer(settings)
    try:
        consumer.assign(starts)
        heard = time.monotonic()
        with Progress(f"reading {topic}", total=None, shown=True) as progress:
            while left and time.monotonic() < heard + QUIET_S:
                for message in consumer.consume(POLL_COUNT, timeout=1.0):
                    heard = time.monotonic()
                    if message.error() is not None:
                        continue
                    key = message.key()
                    if key is None:
                        keyless += 1
                    else:
                        sketch.add((key, message.partition()))
                        hashes.add(hash(key))
                    progress.advance(len(message), done=sketch.total + keyless)
                    if message.offset() + 1 >= ends[message.partition()]:
                        left.discard(message.partition())
                left -= _finished(consumer, left, ends)
    finally:
        consumer.close()
    return Sample(sketch, keyless, len(hashes))


def _finished(consumer: Any, left: set[int], ends: dict[int, int]) -> set[int]:
    """Partitions read to their end although their last offsets hold no record (markers, compacted ones)."""
    positions = {each.partition: each.offset for each in consumer.position(consumer.assignment())}
    return {index for index in left if positions.get(index, -1) >= ends[index]}


def _heavy(seen: Sample, count: int) -> list[KeyShare]:
    sampled = seen.sketch.total + seen.keyless
    return [KeyShare(*heavy.key, heavy.sure / sampled) for heavy in seen.sketch.heaviest(count) if heavy.sure]


def _partition_rows(partitions: list[Partition]) -> list[dict[str, object]]:
    recent, size = sum(each.recent for each in partitions), sum(each.size for each in partitions)
    return [
        {
            "partition": each.index,
            "records": each.latest - each.earliest,
            "recent": each.recent,
            "recent_share": f"{each.recent / recent:.1%}" if recent else None,
            "bytes": each.size,
            "bytes_share": f"{each.size / size:.1%}" if size else None,
        }
        for each in sorted(partitions, key=lambda each: (-each.recent, -each.size))
    ]
