"""The loads on a share group: records that wait, a steady stream, and a queue of work. Each returns figures by name."""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks.groups import wait_for_coordinator
from benchmarks.load import Load, LoadFailed
from benchmarks.measures import Figures, topic_of
from benchmarks.proc import cpu_seconds
from benchmarks.targets import Target
from tests.differential.entities import request_frame
from tests.differential.session import Session
from tests.support.java_tools import compiled_classes, java, java_environment, kafka_jars

TOOL: Final = "org.apache.kafka.tools.ShareConsumerPerformance"
SIZE: Final = 100
TIMEOUT_S: Final = 300
JOIN_S_MAX: Final = 60
WAITING_BATCH: Final = 500
"""The number of records in each batch that waits for the performance tool."""
WORK_BATCH: Final = 10
"""The same for the queue: a response has whole batches, so that each record is sent this many times."""
STREAM_RATE: Final = 1_000
WORKERS: Final = 100
WORK_MS: Final = 5.0
QUEUE_IDEAL: Final = WORKERS * 1000 / WORK_MS
RECORD_LIMIT: Final = 1
EPOCH_MARK: Final = 0x7E0C0A01
"""The places that the load generator replaces in each frame: the epoch of the session, and both offsets."""
OFFSET_MARK: Final = 0x7E0C0A02_7E0C0A03


def waiting(target: Target, *, records: int, consumers: int) -> Figures:
    """Read records that wait, with Kafka's performance tool."""
    with topic_of(target) as topic:
        group = f"group-{topic}"
        _start_at_the_beginning(target, group)
        _fill(target, topic, records, batch=WAITING_BATCH)
        before = cpu_seconds(target.server.pid)
        rate = _run_tool(target, topic, group, records, consumers)
        used = cpu_seconds(target.server.pid) - before
    return {"records/s": rate, "CPU s/M": used / records * 1_000_000}


def stream(target: Target, *, seconds: float) -> Figures:
    """Measure the time from send() to poll() of the Java clients, at a fixed rate."""
    with topic_of(target) as topic:
        group = f"group-{topic}"
        _start_at_the_beginning(target, group)
        numbers = _run_java(target, "latency", topic, group, int(seconds * STREAM_RATE), SIZE, STREAM_RATE)
    return {"p50 ms": numbers["p50_us"] / 1000, "p99 ms": numbers["p99_us"] / 1000}


def queue(load: Load, target: Target, *, seconds: float, batch: int = WORK_BATCH) -> Figures:
    """Work on one record at a time with many members, each on a raw connection."""

    def run(topic: str, group: str) -> dict[str, Any]:
        members, topic_id = _join(target, group, topic)
        frames = b"".join(frame for member in members for frame in share_frames(group, member, topic_id))
        return load.shares(target.server.bootstrap, frames, work_ms=WORK_MS, seconds=seconds)

    return _queue(target, run, seconds=seconds, batch=batch)


def queue_in_java(target: Target, *, seconds: float, batch: int = WORK_BATCH) -> Figures:
    """Do the same with Kafka's share consumers, all in one JVM."""

    def run(topic: str, group: str) -> dict[str, Any]:
        return _run_java(target, "queue", topic, group, seconds, WORKERS, WORK_MS)

    return _queue(target, run, seconds=seconds, batch=batch)


def _queue(target: Target, run: Callable[[str, str], dict[str, Any]], *, seconds: float, batch: int) -> Figures:
    with topic_of(target) as topic:
        group = f"group-{topic}"
        _start_at_the_beginning(target, group)
        _fill(target, topic, int(QUEUE_IDEAL * seconds), batch=batch)
        before = cpu_seconds(target.server.pid)
        numbers = run(topic, group)
        used = cpu_seconds(target.server.pid) - before
    rate = numbers["records"] / numbers["seconds"]
    figures = {
        "records/s": rate,
        "broker CPU us/record": used / (rate * seconds) * 1e6,
        "client cores": numbers["client_cpu_s"] / numbers["seconds"],
    }
    if "p50_us" in numbers:
        figures |= {"p50 ms": numbers["p50_us"] / 1000, "p99 ms": numbers["p99_us"] / 1000}
    return figures


def share_frames(group: str, member: str, topic_id: str) -> list[bytes]:
    """Return a member's ShareFetch requests: the first one, one that accepts a range, and one without a range."""
    accepted = [{"first_offset": OFFSET_MARK, "last_offset": OFFSET_MARK, "acknowledge_types": [1]}]
    return [
        _share_frame(group, member, 0, topic_id, []),
        _share_frame(group, member, EPOCH_MARK, topic_id, accepted),
        _share_frame(group, member, EPOCH_MARK, None, []),
    ]


def _share_frame(group: str, member: str, epoch: int, topic_id: str | None, accepted: list[dict[str, Any]]) -> bytes:
    partitions = [{"partition_index": 0, "acknowledgement_batches": accepted}]
    values = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 50 * 1024 * 1024,
        "max_records": 1,
        "batch_size": 1,
        "share_acquire_mode": RECORD_LIMIT,
        "topics": [] if topic_id is None else [{"topic_id": uuid.UUID(topic_id), "partitions": partitions}],
        "forgotten_topics_data": [],
    }
    return request_frame("share_fetch", 2, values)


def _join(target: Target, group: str, topic: str) -> tuple[list[str], str]:
    """Return the ids of new members that have the topic's partition, and the topic's id."""
    wait_for_coordinator(target, group)
    host, _, port = target.server.bootstrap.rpartition(":")
    session = Session("bench", host, int(port))
    topic_id = session.topic_id(topic)
    members = [str(uuid.uuid4()) for _ in range(WORKERS)]
    epochs = dict.fromkeys(members, 0)
    waits = set(members)
    deadline = time.monotonic() + JOIN_S_MAX
    while waits:
        if time.monotonic() > deadline:
            raise LoadFailed(f"{len(waits)} members of the share group were not assigned the partition")
        for member in sorted(waits):
            topics = [topic] if epochs[member] == 0 else None
            answer = session.ask(
                "share_group_heartbeat", 1,
                group_id=group, member_id=member, member_epoch=epochs[member], subscribed_topic_names=topics,
            )  # fmt: skip
            if not isinstance(answer, dict):
                raise LoadFailed(f"share_group_heartbeat: {answer}")
            if answer["error_code"] == "0 none":
                epochs[member] = answer["member_epoch"]
                if answer["assignment"] and answer["assignment"]["topic_partitions"]:
                    waits.discard(member)
        time.sleep(0.1)
    session.hang_up()
    return members, topic_id


def _start_at_the_beginning(target: Target, group: str) -> None:
    admin = AdminClient({"bootstrap.servers": target.server.bootstrap})
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)


def _fill(target: Target, topic: str, records: int, *, batch: int) -> None:
    producer = Producer({"bootstrap.servers": target.server.bootstrap, "linger.ms": 20, "batch.num.messages": batch})
    value = b"x" * SIZE
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0
    time.sleep(0.5)


def _run_tool(target: Target, topic: str, group: str, records: int, consumers: int) -> float:
    printed = _run([
        "-Xmx1g", "-cp", f"{kafka_jars()}/*", TOOL, "--bootstrap-server", target.server.bootstrap,
        "--topic", topic, "--group", group, "--num-records", str(records), "--threads", str(consumers),
        "--timeout", "60000",
    ])  # fmt: skip
    header, *rows = [line.split(", ") for line in printed.splitlines() if ", " in line]
    names = [name.strip() for name in header]
    row = dict(zip(names, rows[0], strict=False))
    consumed, fetch_ms = float(row["data.consumed.in.nMsg"]), float(row["fetch.time.ms"])
    if consumed < records:
        raise LoadFailed(f"{target.title}: {consumed:.0f} of {records} records were read")
    return consumed / fetch_ms * 1000


def _run_java(target: Target, load: str, topic: str, group: str, *words: object) -> dict[str, Any]:
    classpath = f"{compiled_classes()}{os.pathsep}{kafka_jars()}/*"
    arguments = [load, target.server.bootstrap, topic, group, *map(str, words)]
    printed = _run(["-Xmx1g", "-cp", classpath, "ShareLoad", *arguments])
    numbers: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return numbers


def _run(words: list[str]) -> str:
    done = subprocess.run(
        [java(), *words], capture_output=True, text=True, timeout=TIMEOUT_S, env=java_environment(), check=False
    )
    if done.returncode != 0:
        raise LoadFailed(f"{words[-1]}: {done.stderr.strip()[-500:] or done.stdout.strip()[-500:]}")
    return done.stdout
