"""Compaction: its throughput on one core, and its effect on request latency.

The log has values of 1 to 7 KB, 4 KB on average, with about twelve records per key. Throughput is measured on the code
of the child process, with generated files. Latency is measured on a live broker while its child compacts.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from benchmarks.frames import produce_frame
from benchmarks.load import Load
from benchmarks.targets import Target
from penstock.ports.real.disk import RealDisk
from penstock.storage.compaction.rewrite import compact
from penstock.storage.compaction.task import CleanedGroup, Extent, Task
from penstock.wire.records import Record, encode_batch
from tests.support.penstock_process import PenstockProcess

LOG_SIZE = 512 * 1024 * 1024
SEGMENT_SIZE = 64 * 1024 * 1024
RECORDS_PER_BATCH = 16
VALUE_SIZES = (1000, 7000)
KEY_REPEATS = 12
TOPIC = "bench-compacted"
REQUESTS_PER_SAMPLE = 100
Figures = dict[str, float]


def throughput(load: Load, target: Target, scale: float) -> Figures:
    """Measure one pass over an uncompacted log, including file I/O."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-compaction-"))
    try:
        task, size = _written_log(folder, int(LOG_SIZE * max(scale, 0.25)))
        began, began_cpu = time.perf_counter(), time.process_time()
        for step in compact(RealDisk(), task):
            if isinstance(step, CleanedGroup):
                # The result is not swapped in here, and the next pass may write beside it.
                continue
        seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    finally:
        shutil.rmtree(folder)
    return {"MB/s": size / 1e6 / seconds, "MB/s of CPU": size / 1e6 / cpu}


def latency_beside(load: Load, target: Target, scale: float) -> Figures:
    """Measure the p99 of acks=all produce requests, one at a time on two connections, with and without compaction.

    The child is stopped and continued alternately.
    """
    server = target.server
    assert isinstance(server, PenstockProcess), "only Penstock's data directory can be watched"
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 3})
    _fill(admin, server.bootstrap, int(LOG_SIZE * max(scale, 0.6)))
    beside = target.new_topic()
    frame = produce_frame(beside, size=1000, acks=-1)

    def sample() -> float:
        numbers = load.requests(server.bootstrap, frame, connections=2, depth=1, count=REQUESTS_PER_SAMPLE)
        return float(numbers["p99_us"]) / 1000

    sample()
    (node_id,) = admin.list_topics(timeout=15).brokers
    _set(admin, ResourceType.BROKER, str(node_id), "log.cleaner.backoff.ms", "100")
    _set(admin, ResourceType.TOPIC, TOPIC, "min.cleanable.dirty.ratio", "0")
    while not (children := _children(server.pid)):
        time.sleep(0.02)
    without: list[float] = []
    during: list[float] = []
    while not (server.data / "cleaner-offset-checkpoint").exists():
        # Alternate, so that other load on the machine affects both.
        os.kill(children[0], signal.SIGSTOP)
        without.append(sample())
        os.kill(children[0], signal.SIGCONT)
        during.append(sample())
    admin.delete_topics([TOPIC, beside])[TOPIC].result(timeout=15)
    # The last sample includes the end of the compaction.
    plain, beside_it = statistics.median(without), statistics.median(during[:-1] or during)
    return {"p99 ms": beside_it, "p99 ms without": plain, "ratio": beside_it / plain, "samples": len(during)}


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _written_log(folder: Path, size_wanted: int) -> tuple[Task, int]:
    """Write segments as a broker does; return the pass over them, and the size of the log."""
    noise, segments, offset, total = random.Random(1), list[Extent](), 0, 0
    key_count = size_wanted // (sum(VALUE_SIZES) // 2) // KEY_REPEATS
    while total < size_wanted:
        base_offset, size = offset, 0
        with (folder / f"{base_offset:020d}.log").open("wb") as file:
            while size < SEGMENT_SIZE and total < size_wanted:
                records = [
                    Record(
                        timestamp=1_700_000_000_000 + offset,
                        key=b"key-%012d" % noise.randrange(key_count),
                        value=noise.randbytes(noise.randrange(*VALUE_SIZES)),
                    )
                    for _ in range(RECORDS_PER_BATCH)
                ]
                batch = encode_batch(records, base_offset=offset, leader_epoch=0)
                file.write(batch)
                size += len(batch)
                total += len(batch)
                offset += RECORDS_PER_BATCH
        segments.append(Extent(base_offset, size))
    task = Task(
        folder=str(folder),
        segments=tuple(segments),
        bound=offset,
        first_dirty=0,
        now_ms=1_800_000_000_000,
        now_lags=False,
        delete_retention_ms=0,
        segment_bytes=1 << 30,
        index_interval=4096,
        index_size_max=10 << 20,
        map_memory=128 << 20,
        map_load_factor=0.9,
        bytes_per_second=float("inf"),
    )
    return task, total


def _fill(admin: AdminClient, bootstrap: str, size: int) -> None:
    """Write an uncompacted log that stays below its dirty ratio."""
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1", "segment.bytes": str(16 * 1024 * 1024)}
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(timeout=15)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 3})
    noise, written = random.Random(2), 0
    key_count = size // (sum(VALUE_SIZES) // 2) // KEY_REPEATS
    while written < size:
        value = noise.randbytes(noise.randrange(*VALUE_SIZES))
        try:
            producer.produce(TOPIC, key=b"key-%012d" % noise.randrange(key_count), value=value)
            written += len(value)
        except BufferError:
            producer.poll(0.1)
    producer.flush()


def _set(admin: AdminClient, kind: ResourceType, name: str, option: str, value: str) -> None:
    change = ConfigEntry(option, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(timeout=15)
