"""Decompression bombs: a node that decompresses them on its event loop serves no other client meanwhile.

A broker must decompress a batch if its maximum timestamp is too far ahead, on compacted topics, and to find an offset
by time. Otherwise batches stay compressed.
"""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import Any

from tests.abuse import records, wire
from tests.abuse.attack import MB, Attack, Bounds, Counts, Gate, Target
from tests.abuse.parallel import in_threads, repeat

FAMILY = "decompression"
CLIENTS, VOLLEY = 40, 4
PARTITIONS = 100
TIMED_PARTITIONS = 50
SIZE = 60 * MB
# Snappy's best ratio is 21 to 1, and a batch has at most 1 MB.
SIZES = {"snappy": 20 * MB}
CROWD = 1_000_000
ANY, COMPACTED, TIMED = "bombs", "bombs-compacted", "bombs-timed"
# Decompression takes CPU: the limit is a fair share of two cores, not zero.
BOUNDS = Bounds(p99_ms=1_000.0, p99_ratio=30.0, max_ms=4_000.0, large_max_ms=8_000.0, memory_mb=600.0)


def _prepare(target: Target) -> None:
    wire.create_topics(target, [ANY], partitions=target.of(PARTITIONS))


def _prepare_compacted(target: Target) -> None:
    wire.create_topics(target, [COMPACTED], partitions=target.of(CLIENTS), cleanup_policy="compact")


def _volleys(frame_of: Any, target: Target, gate: Gate) -> Counter[str]:
    """Run forty clients with four requests in flight each."""
    frames = [frame_of(index) for index in range(target.of(CLIENTS))]

    def work(index: int, counts: Counter[str]) -> None:
        repeat(target, gate, [frames[index]], counts, pipelined=VOLLEY)

    return in_threads(len(frames), work, gate)


def _bombs(codec: str, target: Target, gate: Gate) -> Counts:
    bomb = records.bomb(codec, SIZES.get(codec, SIZE))
    return _volleys(lambda index: wire.produce([(ANY, index, bomb)]), target, gate)


def _compacted_bombs(target: Target, gate: Gate) -> Counts:
    bomb = records.bomb("zstd", SIZE, ahead_ms=0)
    return _volleys(lambda index: wire.produce([(COMPACTED, index, bomb)]), target, gate)


def _one_request(target: Target, gate: Gate) -> Counts:
    bomb = records.bomb("zstd", SIZE)
    frame = wire.produce([(ANY, index, bomb) for index in range(target.of(PARTITIONS))])
    return in_threads(1, lambda _, counts: repeat(target, gate, [frame], counts), gate)


def _crowd(target: Target, gate: Gate) -> Counts:
    frame = wire.produce([(ANY, 0, records.crowd("zstd", target.of(CROWD)))])
    return in_threads(1, lambda _, counts: repeat(target, gate, [frame], counts), gate)


def _prepare_timed(target: Target) -> None:
    wire.create_topics(target, [TIMED], partitions=target.of(TIMED_PARTITIONS))
    bomb = records.bomb("zstd", SIZE, ahead_ms=0)
    with wire.Client(target) as client:
        for index in range(target.of(TIMED_PARTITIONS)):
            error, _ = wire.produced(client.exchange(wire.produce([(TIMED, index, bomb)])))
            assert error == "0 none", error


def _by_time(target: Target, gate: Gate) -> Counts:
    earlier = int(time.time() * 1000) - 600_000
    rows = [{"partition_index": index, "timestamp": earlier} for index in range(target.of(TIMED_PARTITIONS))]
    values = {"replica_id": -1, "topics": [{"name": TIMED, "partitions": rows}]}
    frame = wire.request_frame("list_offsets", 5, values)
    return in_threads(1, lambda _, counts: repeat(target, gate, [frame], counts), gate)


def _attack(name: str, what: str, run: Any, **more: Any) -> Attack:
    return Attack(name=name, family=FAMILY, what=what, run=run, **{"prepare": _prepare, "bounds": BOUNDS, **more})


ATTACKS = (
    *(
        _attack(
            f"bomb-{codec}",
            f"{CLIENTS} clients with {VOLLEY} requests each under way: {SIZES.get(codec, SIZE) // MB} MB in {codec}, "
            "timestamps two hours ahead",
            partial(_bombs, codec),
            compared=codec == "zstd",
        )
        for codec in records.CODECS
    ),
    _attack(
        "bomb-compacted", f"the same in zstd on a compacted topic: {SIZE // MB} MB in 2 KB, accepted",
        _compacted_bombs, prepare=_prepare_compacted, compared=True,
    ),
    _attack(
        "bomb-request", f"one client: requests of 200 KB, a bomb for each of {PARTITIONS} partitions",
        _one_request, compared=True,
    ),
    _attack("bomb-crowd", f"one client: batches of 1 MB with {CROWD:,} records", _crowd, compared=True),
    _attack(
        "bomb-by-time", f"one client: ListOffsets by time over {TIMED_PARTITIONS} partitions that hold a bomb each",
        _by_time, prepare=_prepare_timed, compared=True,
    ),
)  # fmt: skip
