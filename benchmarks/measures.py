"""The measurements, one function per row: each takes a target and returns figures by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import compaction, groups, sql, transactions
from benchmarks.frames import fetch_frame, produce_frame
from benchmarks.load import Load
from benchmarks.proc import cpu_seconds
from benchmarks.targets import Target

Figures = dict[str, float]
GB = 1e9
CLIENT_BUSY = "% of a core (client)"
"""How busy the busiest thread of the client was: near 100, the client is the limit and not the broker."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A row of the table. `better` selects the best of several rounds."""

    name: str
    run: Callable[[Load, Target, float], Figures]
    best_by: str
    higher_is_better: bool = True
    only: str = ""
    """The only target to measure, for a row that takes long and is not compared with Kafka. Measured once."""
    connections: int = 0
    depth: int = 0
    """The shape of a row of small requests; an echo server is measured with it, too."""


def is_better(found: Figures, known: Figures | None, figure: str, *, higher_is_better: bool) -> bool:
    """Return whether a round is the first one, or better than the best one before it."""
    return known is None or (found[figure] > known[figure]) == higher_is_better


@contextmanager
def topic_of(target: Target, partitions: int = 1) -> Iterator[str]:
    topic = target.new_topic(partitions)
    try:
        yield topic
    finally:
        target.delete_topic(topic)


def with_cpu(target: Target, run: Callable[[], dict[str, float]], *, amount: str) -> Figures:
    """Return the rates of a load and the CPU time that the broker spent on it; `amount` names the number of bytes."""
    before = cpu_seconds(target.server.pid)
    numbers = run()
    used = cpu_seconds(target.server.pid) - before
    size = numbers[amount]
    return {
        "MB/s": size / 1e6 / numbers["seconds"],
        "CPU s/GB": used / (size / GB),
        **({"records/s": numbers["records"] / numbers["seconds"]} if "records" in numbers else {}),
        **({"requests/s": numbers["requests"] / numbers["seconds"], "CPU us/request": used / numbers["requests"] * 1e6}
           if "requests" in numbers else {}),
        **({CLIENT_BUSY: 100 * numbers["busiest_thread_s"] / numbers["seconds"]}
           if "busiest_thread_s" in numbers else {}),
        **{name: numbers[name] for name in ("p50_us", "p99_us") if name in numbers},
    }  # fmt: skip


def produce(size: int, codec: str, count: int) -> Callable[[Load, Target, float], Figures]:
    def run(load: Load, target: Target, scale: float) -> Figures:
        settings = () if codec == "none" else (f"compression.type={codec}",)
        with topic_of(target) as topic:
            many = int(count * scale)
            return with_cpu(
                target,
                lambda: load.produce(target.server.bootstrap, topic, count=many, size=size, settings=settings),
                amount="bytes",
            )

    return run


def consume(size: int, count: int) -> Callable[[Load, Target, float], Figures]:
    def run(load: Load, target: Target, scale: float) -> Figures:
        many = int(count * scale)
        with topic_of(target) as topic:
            load.produce(target.server.bootstrap, topic, count=many, size=size)
            return with_cpu(target, lambda: load.consume(target.server.bootstrap, topic, count=many), amount="bytes")

    return run


def raw_produce(
    size: int, *, connections: int, depth: int, count: int, acks: int = 1, partitions: int = 1
) -> Callable[[Load, Target, float], Figures]:
    """Write from each connection to one partition; there are as many partitions as connections, or one."""

    def run(load: Load, target: Target, scale: float) -> Figures:
        with topic_of(target, partitions) as topic:
            frames = b"".join(produce_frame(topic, size=size, acks=acks, partition=each) for each in range(partitions))
            many = max(connections, int(count * scale))
            return with_cpu(
                target,
                lambda: load.requests(
                    target.server.bootstrap, frames, connections=connections, depth=depth, count=many
                ),
                amount="sent_bytes",
            )

    return run


def raw_fetch(size: int, *, connections: int, depth: int, count: int) -> Callable[[Load, Target, float], Figures]:
    def run(load: Load, target: Target, scale: float) -> Figures:
        with topic_of(target) as topic:
            filling = produce_frame(topic, size=64_000, acks=-1)
            load.requests(target.server.bootstrap, filling, connections=1, depth=4, count=64)
            frame = fetch_frame(topic, size=size)
            many = max(connections, int(count * scale))
            return with_cpu(
                target,
                lambda: load.requests(target.server.bootstrap, frame, connections=connections, depth=depth, count=many),
                amount="answer_bytes",
            )

    return run


def end_to_end(size: int, *, rate: int, seconds: float) -> Callable[[Load, Target, float], Figures]:
    def run(load: Load, target: Target, scale: float) -> Figures:
        with topic_of(target) as topic:
            numbers = load.latency(
                target.server.bootstrap, topic, count=int(rate * max(2.0, seconds * scale)), size=size, rate=rate
            )
            return {
                "p50 ms": numbers["p50_us"] / 1000,
                "p99 ms": numbers["p99_us"] / 1000,
                "p99.9 ms": numbers["p999_us"] / 1000,
                "max ms": numbers["max_us"] / 1000,
            }

    return run


END_TO_END_RATE = 50_000
"""Records of 1 KB per second: about half of Apache Kafka's maximum on two cores shared with a client."""

OURS = "Penstock (fsync)"
SMALL = "100 B requests, 4 connections x 16 deep, acks=1"
PRODUCE_100 = "produce 100 B"
PRODUCE_1K = "produce 1 KB"
CONSUME_1K = "consume 1 KB"
END_TO_END = f"end to end, 1 KB, {END_TO_END_RATE:,}/s"
RAW_16K, RAW_256K, FETCH_1M = "produce 16 KB batches", "produce 256 KB batches", "fetch 1 MB"
CLASSIC_BEATS = f"heartbeats, {groups.GROUPS:,} groups x {groups.MEMBERS_EACH}, classic"
CONSUMER_BEATS = f"heartbeats, {groups.GROUPS:,} groups x {groups.MEMBERS_EACH}, consumer"
REBALANCE = f"rebalance of {groups.LARGE} members"
COMMITS_ONE = "commits, one consumer, one at a time"
COMMITS = "commits, 4 groups x 16 deep"
COMMITS_MANY = "commits, 64 groups, one at a time"
TRANSACTIONS = "transactions: one small record, offsets, commit"
STREAM = "stream of 1 KB records"
STREAM_IN_TRANSACTIONS = "the same in transactions of 100 ms"
SQL = "SQL over 1 M JSON records"
COMPACTION = "compaction, 4 KB values"
COMPACTION_BESIDE = "beside a compaction: 1 KB requests, acks=all"
DEPTH_1 = "100 B request, one at a time, acks=1"

MEASURES = (
    Measure(PRODUCE_100, produce(100, "none", 10_000_000), "records/s"),
    Measure(f"{PRODUCE_100}, lz4", produce(100, "lz4", 10_000_000), "records/s"),
    Measure(PRODUCE_1K, produce(1000, "none", 1_000_000), "records/s"),
    Measure(f"{PRODUCE_1K}, lz4", produce(1000, "lz4", 1_000_000), "records/s"),
    Measure(CONSUME_1K, consume(1000, 3_000_000), "records/s"),
    Measure(SMALL, raw_produce(100, connections=4, depth=16, count=200_000), "requests/s", connections=4, depth=16),
    Measure(
        f"{SMALL.replace('acks=1', 'acks=all')}",
        raw_produce(100, connections=4, depth=16, count=40_000, acks=-1),
        "requests/s",
        connections=4,
        depth=16,
    ),
    Measure(
        "100 B requests, 64 partitions, one at a time, acks=all",
        raw_produce(100, connections=64, depth=1, count=100_000, acks=-1, partitions=64),
        "requests/s",
        connections=64,
        depth=1,
    ),
    Measure(
        DEPTH_1,
        raw_produce(100, connections=1, depth=1, count=20_000),
        "p50_us",
        higher_is_better=False,
        connections=1,
        depth=1,
    ),
    Measure(RAW_16K, raw_produce(16_000, connections=4, depth=8, count=60_000), "CPU s/GB", higher_is_better=False),
    Measure(RAW_256K, raw_produce(256_000, connections=4, depth=4, count=4_000), "CPU s/GB", higher_is_better=False),
    Measure(FETCH_1M, raw_fetch(1_000_000, connections=4, depth=4, count=4_000), "CPU s/GB", higher_is_better=False),
    Measure(COMMITS_ONE, groups.commits(1, depth=1), "commits/s", connections=1, depth=1),
    Measure(COMMITS, groups.commits(4, depth=16), "commits/s", connections=4, depth=16),
    Measure(COMMITS_MANY, groups.commits(64, depth=1), "commits/s", connections=64, depth=1),
    Measure(TRANSACTIONS, transactions.small_transactions, "transactions/s"),
    Measure(STREAM, transactions.stream(transactional=False), "records/s"),
    Measure(STREAM_IN_TRANSACTIONS, transactions.stream(transactional=True), "records/s"),
    Measure(REBALANCE, groups.rebalance, "s", higher_is_better=False),
    Measure(CLASSIC_BEATS, groups.classic_heartbeats, "% of a core", higher_is_better=False, only=OURS),
    Measure(CONSUMER_BEATS, groups.consumer_heartbeats, "% of a core", higher_is_better=False, only=OURS),
    Measure(COMPACTION, compaction.throughput, "MB/s of CPU", only=OURS),
    Measure(COMPACTION_BESIDE, compaction.latency_beside, "ratio", higher_is_better=False, only=OURS),
    Measure(SQL, sql.json_records, "s", higher_is_better=False, only=OURS),
    Measure(END_TO_END, end_to_end(1000, rate=END_TO_END_RATE, seconds=6), "p99 ms", higher_is_better=False),
)
