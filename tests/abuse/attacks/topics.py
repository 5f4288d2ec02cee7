"""Topics and partitions: lists that are too long, values that are too large, too many responses."""

from __future__ import annotations

import contextlib
import struct
import time
from collections import Counter
from random import Random

from tests.abuse import records, wire
from tests.abuse.attack import Attack, Bounds, Counts, Gate, Target
from tests.abuse.parallel import in_threads, repeat
from tests.differential.entities import API_KEYS

FAMILY = "topics"
CREATED = 100_000
CREATED_GOOD = 5_000
CREATE_BATCH = 500
TOPICS, METADATA_REQUESTS = 10_000, 1_000
PARTITIONS = 1_000
ROWS = 50_000
SESSIONS, SESSION_PARTITIONS = 5_000, 100
VALUE_SIZE = 32_000
WIDE, CONFIGURED = "wide", "configured"
TOPIC_TYPE, BROKER_TYPE = 2, 4


def _loop(frames: list[bytes], target: Target, gate: Gate, *, clients: int = 1) -> Counts:
    return in_threads(clients, lambda _, counts: repeat(target, gate, frames, counts), gate)


def _prepare_wide(target: Target) -> None:
    wire.create_topics(target, [WIDE], partitions=target.of(PARTITIONS))


def _create(target: Target, gate: Gate) -> Counts:
    """Send a hundred thousand topics in one request: validated only, then with bad names, then without partitions."""

    count = target.of(CREATED)
    frames = [
        _created("dry-", count, is_dry=True),
        _created("bad name ", count),
        _created("many-", count, partitions=0),
    ]
    return _loop(frames, target, gate)


def _created(name: str, count: int, *, partitions: int = 1, is_dry: bool = False) -> bytes:
    """Encode CreateTopics version 4 directly: encoding so many by their schema would take longer than the attack."""
    rows = []
    for number in range(count):
        text = f"{name}{number}".encode()
        # Partitions, one replica, and neither assignments nor configs.
        rows.append(struct.pack(f">h{len(text)}sihii", len(text), text, partitions, 1, 0, 0))
    head = struct.pack(">hhihi", API_KEYS["create_topics"], 4, 1, -1, count)
    return wire.framed(head + b"".join(rows) + struct.pack(">i?", 30_000, is_dry))


def _create_good(target: Target, gate: Gate) -> Counts:
    """Create topics, five thousand per request, for the duration of the attack."""
    frames = [_created(f"round{number}-", target.of(CREATED_GOOD)) for number in range(4)]
    return _loop(frames, target, gate)


def _create_wide(target: Target, gate: Gate) -> Counts:
    """Create and delete topics with a thousand partitions."""
    name = [{"name": "short-lived", "num_partitions": target.of(PARTITIONS), "replication_factor": 1}]
    frames = [
        wire.request_frame("create_topics", 5, {"topics": name, "timeout": 30_000}),
        wire.request_frame("delete_topics", 5, {"topic_names": ["short-lived"], "timeout": 30_000}),
    ]
    return _loop(frames, target, gate)


def _delete(target: Target, gate: Gate) -> Counts:
    names = [f"nothing-{number}" for number in range(target.of(CREATED))]
    resources = [{"resource_type": TOPIC_TYPE, "resource_name": name, "configuration_keys": None} for name in names]
    frames = [
        wire.request_frame("delete_topics", 5, {"topic_names": names, "timeout": 30_000}),
        wire.request_frame("describe_configs", 1, {"resources": resources[: target.of(ROWS)]}),
        wire.request_frame("metadata", 8, {"topics": [{"name": name} for name in names],
                                           "allow_auto_topic_creation": False}),
    ]  # fmt: skip
    return _loop(frames, target, gate)


def _prepare_configured(target: Target) -> None:
    wire.create_topics(target, [CONFIGURED])


def _configs(target: Target, gate: Gate) -> Counts:
    """Set values of 32 KB for options of type text, list or number, by the hundred."""
    value, listed = "v" * VALUE_SIZE, ",".join(["1:1"] * (VALUE_SIZE // 4))

    def frame(resource_type: int, name: str, configs: list[tuple[str, str]]) -> bytes:
        rows = [{"name": key, "config_operation": 0, "value": text} for key, text in configs]
        resources = [{"resource_type": resource_type, "resource_name": name, "configs": rows}]
        return wire.request_frame("incremental_alter_configs", 1, {"resources": resources})

    frames = [
        frame(TOPIC_TYPE, CONFIGURED, [("retention.ms", value)]),
        frame(TOPIC_TYPE, CONFIGURED, [("leader.replication.throttled.replicas", listed)]),
        frame(TOPIC_TYPE, CONFIGURED, [("compression.type", value), ("cleanup.policy", value)]),
        frame(TOPIC_TYPE, CONFIGURED, [(f"unknown-{number}", value) for number in range(400)]),
        frame(BROKER_TYPE, "", [("max.connections.per.ip.overrides", value)]),
        frame(BROKER_TYPE, "1", [(f"unknown-{number}", value) for number in range(400)]),
    ]
    return _loop(frames, target, gate)


def _prepare_many(target: Target) -> None:
    names = [f"topic-{number}" for number in range(target.of(TOPICS))]
    for first in range(0, len(names), CREATE_BATCH):
        wire.create_topics(target, names[first : first + CREATE_BATCH])


def _metadata(target: Target, gate: Gate) -> Counts:
    """Request all topics from four clients."""
    frame = wire.request_frame("metadata", 8, {"topics": None})

    def work(_: int, counts: Counter[str]) -> None:
        with contextlib.suppress(OSError), wire.Client(target) as client:
            while counts["answered"] < METADATA_REQUESTS // 4 and not gate.is_over():
                client.exchange(frame)
                counts["answered"] += 1

    return in_threads(4, work, gate)


def _partition_numbers(target: Target) -> list[int]:
    return [number % target.of(PARTITIONS) for number in range(target.of(ROWS))]


def _partitions(target: Target, gate: Gate) -> Counts:
    """Name each partition fifty times in one request."""
    by_time = int(time.time() * 1000) - 60_000
    numbers = _partition_numbers(target)

    def rows(**values: int) -> list[dict[str, int]]:
        return [{"partition_index": number, **values} for number in numbers]

    frames = [
        wire.request_frame("list_offsets", 5, {"replica_id": -1, "topics": [
            {"name": WIDE, "partitions": rows(timestamp=timestamp)}]})
        for timestamp in (-1, -2, by_time)
    ] + [
        wire.request_frame("delete_records", 1, {"timeout": 1_000, "topics": [
            {"name": WIDE, "partitions": rows(offset=0)}]}),
        wire.request_frame("offset_for_leader_epoch", 2, {"topics": [
            {"topic": WIDE, "partitions": [{"partition": number, "leader_epoch": 0} for number in numbers]}]}),
        wire.request_frame("elect_leaders", 1, {"election_type": 0, "timeout": 1_000, "topic_partitions": [
            {"topic": WIDE, "partitions": numbers}]}),
        wire.request_frame("create_partitions", 1, {"timeout": 1_000, "validate_only": True, "topics": [
            {"name": f"{WIDE}-{number}", "count": 1} for number in range(target.of(ROWS))]}),
    ]  # fmt: skip
    return _loop(frames, target, gate)


def _fetches(target: Target, gate: Gate) -> Counts:
    """Build a Fetch that names each partition fifty times."""
    frame = wire.fetch_many([(WIDE, number, 0) for number in _partition_numbers(target)])
    return _loop([frame], target, gate)


def _produces(target: Target, gate: Gate) -> Counts:
    """Build a Produce that names each partition fifty times, including unknown partitions."""
    batch = records.plain(1, Random(target.seed))
    numbers = _partition_numbers(target)
    frames = [wire.produce([(topic, number, batch) for number in numbers]) for topic in (WIDE, "nowhere")]
    return _loop(frames, target, gate)


def _sessions(target: Target, gate: Gate) -> Counts:
    """Open fetch sessions that are never used again, each with a hundred partitions."""
    rows = [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1_000, "log_start_offset": -1}
        for index in range(target.of(SESSION_PARTITIONS))
    ]
    values = {
        "replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1_000, "session_epoch": 0, "rack_id": "",
        "topics": [{"topic": WIDE, "partitions": rows}],
    }  # fmt: skip
    frame = wire.request_frame("fetch", wire.FETCH_VERSION, values)

    def work(_: int, counts: Counter[str]) -> None:
        with wire.Client(target) as client:
            while counts["sessions"] < target.of(SESSIONS) and not gate.is_over():
                client.exchange(frame)
                counts["sessions"] += 1

    return in_threads(2, work, gate)


WIDE_BOUNDS = Bounds(files_kept=3 * PARTITIONS)

ATTACKS = (
    Attack(
        name="create-topics", family=FAMILY, run=_create, bounds=Bounds(memory_mb=400.0, memory_after_mb=300.0),
        what=f"CreateTopics with {CREATED:,} topics in one request, none of which is made",
    ),
    Attack(
        name="create-good-topics", family=FAMILY, run=_create_good,
        bounds=Bounds(memory_mb=400.0, memory_after_mb=300.0, files_kept=300),
        what=f"CreateTopics with {CREATED_GOOD:,} topics in one request, all of which are made",
    ),
    Attack(
        name="wide-topics", family=FAMILY, run=_create_wide, bounds=WIDE_BOUNDS,
        what=f"topics of {PARTITIONS:,} partitions are made and deleted again",
    ),
    Attack(
        name="delete-topics", family=FAMILY, run=_delete, bounds=Bounds(memory_mb=400.0, memory_after_mb=300.0),
        what=f"DeleteTopics, DescribeConfigs and Metadata for {CREATED:,} names",
    ),
    Attack(
        name="large-configs", family=FAMILY, run=_configs, prepare=_prepare_configured,
        what="IncrementalAlterConfigs with values of 32 KB, one and hundreds in a request",
    ),
    Attack(
        name="metadata-storm", family=FAMILY, run=_metadata, prepare=_prepare_many,
        bounds=Bounds(memory_mb=300.0, files_kept=3 * TOPICS),
        what=f"4 clients ask for all of {TOPICS:,} topics, {METADATA_REQUESTS:,} times",
    ),
    Attack(
        name="long-partition-lists", family=FAMILY, run=_partitions, prepare=_prepare_wide, bounds=WIDE_BOUNDS,
        what=f"ListOffsets, DeleteRecords and their like with {ROWS:,} partitions in one request",
    ),
    Attack(
        name="wide-fetch", family=FAMILY, run=_fetches, prepare=_prepare_wide, bounds=WIDE_BOUNDS,
        what=f"Fetch with {ROWS:,} partitions in one request",
    ),
    Attack(
        name="wide-produce", family=FAMILY, run=_produces, prepare=_prepare_wide, bounds=WIDE_BOUNDS,
        what=f"Produce with {ROWS:,} partitions in one request",
    ),
    Attack(
        name="fetch-sessions", family=FAMILY, run=_sessions, prepare=_prepare_wide, bounds=WIDE_BOUNDS,
        what=f"2 clients open {SESSIONS:,} fetch sessions of {SESSION_PARTITIONS} partitions each",
    ),
)  # fmt: skip
