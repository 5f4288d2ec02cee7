"""Compacted topics in the workload: few keys, written repeatedly, deleted from time to time.

A value begins with its four-byte key; the history records a tombstone as its key alone. checkers/tables.py checks the
contents of such a topic; `differences` checks that its replicas agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from random import Random

from penstock.storage.marker import read_marker
from penstock.wire.batch import BatchHeader, iter_batches
from penstock.wire.codecs import Codec
from penstock.wire.records import Record, decode_batch
from penstock_sim.client import Client, Shared
from penstock_sim.consumers import Consumer
from penstock_sim.history import KEY_SIZE
from penstock_sim.plan import Plan
from penstock_sim.producers import IdempotentProducer, PlainProducer, Values
from penstock_sim.transactors import Transactor

KEYS = 24
"""Some keys are written all the time, others once: the last records of those are deep in the compacted part."""
TOMBSTONE_CHANCE = 0.2
LONG_SIZE = 200_000
LONG_CHANCE = 0.2


class KeyedValues(Values):
    """Values under a few keys, and tombstones."""

    def take(self, count: int) -> tuple[bytes, ...]:
        random = self._client.random
        made = []
        for value in super().take(count):
            key = b"k%02d|" % int(random.random() ** 2 * KEYS)
            made.append(key if random.random() < TOMBSTONE_CHANCE else key + value)
        return tuple(made)


class LongValues(KeyedValues):
    """Values, some so long that a node decodes their batch in several slices; compressed, they are short."""

    def take(self, count: int) -> tuple[bytes, ...]:
        random = self._client.random
        return tuple(
            value + bytes(LONG_SIZE) if len(value) > KEY_SIZE and random.random() < LONG_CHANCE else value
            for value in super().take(count)
        )


def clients(shared: Shared, plan: Plan, random: Random) -> list[Client]:
    """Return the clients that write and read the compacted topics of a plan."""
    partitions = [(topic.name, index) for topic in plan.tables for index in range(topic.partitions)]
    if not partitions:
        return []
    pause_s = random.choice((0.15, 0.3))
    idempotent = IdempotentProducer(
        shared,
        "upserts",
        partitions=partitions,
        pause_s=pause_s,
        in_flight=random.choice((1, 2, 5)),
        values=KeyedValues,
    )
    found: list[Client] = [
        idempotent,
        Consumer(shared, "table-reader", partitions=partitions, committed_only=random.random() < 0.5),
    ]
    if random.random() < 0.5:
        acks = random.choice((-1, -1, 1))
        found.append(
            PlainProducer(
                shared, "plain-upserts", partitions=partitions, acks=acks, pause_s=pause_s, values=KeyedValues
            )
        )
    if random.random() < 0.5:
        found.append(
            Transactor(
                shared,
                "table-transactor",
                transactional_id="table",
                group="table",
                inputs=[],
                outputs=partitions,
                timeout_s=random.choice((3.0, 15.0)),
                abort_chance=0.3,
                pause_s=pause_s,
                values=KeyedValues,
            )
        )
    if random.random() < 0.5:
        codec = random.choice((Codec.GZIP, Codec.LZ4, Codec.ZSTD))
        found.append(
            IdempotentProducer(
                shared,
                "packed-upserts",
                partitions=partitions,
                pause_s=1.0,
                in_flight=5,
                values=LongValues,
                codec=codec,
            )
        )
    return found


def differences(contents: Sequence[bytes]) -> str | None:
    """Return where separately compacted replicas disagree: on a record that both have, or on a key."""
    tables = [_table(content) for content in contents]
    for (one, its_keys), (other, other_keys) in combinations(tables, 2):
        for offset in one.keys() & other.keys():
            if one[offset] != other[offset]:
                return f"offset {offset} holds {one[offset]} and {other[offset]}"
        for key in sorted(its_keys.keys() | other_keys.keys()):
            if its_keys.get(key) != other_keys.get(key):
                return f"key {key!r} has {its_keys.get(key)} and {other_keys.get(key)}"
    return None


_Records = dict[int, tuple[bytes | None, bytes | None]]
_Last = dict[bytes, tuple[int, bytes]]


def _table(content: bytes) -> tuple[_Records, _Last]:
    """Return every record by offset, and the last one of every key as a read_committed consumer sees it."""
    records: _Records = {}
    last: _Last = {}
    open_by_producer: dict[int, list[Record]] = {}
    for view in iter_batches(content):
        header = BatchHeader.at(view)
        if header.is_control:
            marker = read_marker(view)
            waiting = open_by_producer.pop(header.producer_id, [])
            if marker is not None and marker.commit:
                _put(last, waiting)
            continue
        found = decode_batch(view)
        records.update((each.offset, (each.key, each.value)) for each in found)
        if header.is_transactional:
            open_by_producer.setdefault(header.producer_id, []).extend(found)
        else:
            _put(last, found)
    for waiting in open_by_producer.values():
        _put(last, waiting)
    return records, {key: each for key, each in last.items() if each[1]}


def _put(last: _Last, records: Iterable[Record]) -> None:
    """Add records; those of a transaction are added at its end, when a later one may already exist."""
    for each in records:
        if each.key is not None and last.get(each.key, (-1, b""))[0] < each.offset:
            last[each.key] = (each.offset, each.value or b"")
