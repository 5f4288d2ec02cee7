"""Compacted topics in the workload: few keys, written again and again, deleted now and then.

A value begins with its key, four bytes; a tombstone is told in the history as its key alone. What such a
topic must still hold is in checkers/tables.py; what its replicas must agree on is `differences`.
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
"""Some are written all the time, others once: what is last of those lies deep in the compacted part."""
TOMBSTONE_CHANCE = 0.2
LONG_SIZE = 200_000
LONG_CHANCE = 0.2


class KeyedValues(Values):
    """Values under a few keys, and tombstones of them."""

    def take(self, count: int) -> tuple[bytes, ...]:
        random = self._client.random
        made = []
        for value in super().take(count):
            key = b"k%02d|" % int(random.random() ** 2 * KEYS)
            made.append(key if random.random() < TOMBSTONE_CHANCE else key + value)
        return tuple(made)


class LongValues(KeyedValues):
    """Some so long that a node opens their batch in several slices; compressed, they are short."""

    def take(self, count: int) -> tuple[bytes, ...]:
        random = self._client.random
        return tuple(
            value + bytes(LONG_SIZE) if len(value) > KEY_SIZE and random.random() < LONG_CHANCE else value
            for value in super().take(count)
        )


def clients(shared: Shared, plan: Plan, random: Random) -> list[Client]:
    """Those who write and read the compacted topics of a plan."""
    places = [(topic.name, index) for topic in plan.tables for index in range(topic.partitions)]
    if not places:
        return []
    pause_s = random.choice((0.15, 0.3))
    idempotent = IdempotentProducer(
        shared, "upserts", places=places, pause_s=pause_s, in_flight=random.choice((1, 2, 5)), values=KeyedValues
    )
    found: list[Client] = [
        idempotent,
        Consumer(shared, "table-reader", places=places, committed_only=random.random() < 0.5),
    ]
    if random.random() < 0.5:
        acks = random.choice((-1, -1, 1))
        found.append(
            PlainProducer(shared, "plain-upserts", places=places, acks=acks, pause_s=pause_s, values=KeyedValues)
        )
    if random.random() < 0.5:
        found.append(
            Transactor(
                shared,
                "table-transactor",
                transactional_id="table",
                group="table",
                inputs=[],
                outputs=places,
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
                shared, "packed-upserts", places=places, pause_s=1.0, in_flight=5, values=LongValues, codec=codec
            )
        )
    return found


def differences(contents: Sequence[bytes]) -> str | None:
    """Where replicas that were compacted apart from each other disagree: on a record that both have, or on a key."""
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
    """Every record by its offset, and the last one of every key as a reader of committed records sees it."""
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
    """Take records over; those of a transaction come with its end, when a later one may stand already."""
    for each in records:
        if each.key is not None and last.get(each.key, (-1, b""))[0] < each.offset:
            last[each.key] = (each.offset, each.value or b"")
