"""The timed operations: reads, writes and triggers through Spark, with our source and with the JVM connector."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.wire.records import Record, decode_batch, encode_batch
from penstock_client.protocol.connection import PAD
from penstock_client.records.batches import scan
from penstock_client.records.decode import decode

# Settings recommended by the connector's guide: larger fetches, larger polls.
TUNED = {
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "50000",
    "kafka.receive.buffer.bytes": str(1 << 20),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Elapsed seconds, and CPU seconds of all Spark processes."""

    seconds: float
    cpu: float


@contextmanager
def measured(into: list[Cost]) -> Iterator[None]:
    cpu, started = spark_cpu_seconds(), time.perf_counter()
    yield
    into.append(Cost(time.perf_counter() - started, spark_cpu_seconds() - cpu))


def spark_cpu_seconds() -> float:
    """Return the CPU time of the JVM that this process started and of all its children, alive or dead."""
    parents: dict[int, list[int]] = {}
    times: dict[int, float] = {}
    ticks = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents.setdefault(int(fields[1]), []).append(pid)
        times[pid] = sum(int(fields[index]) for index in (11, 12, 13, 14)) / ticks
    total, todo = 0.0, [child for child in parents.get(os.getpid(), []) if _is_jvm(child)]
    while todo:
        pid = todo.pop()
        total += times.get(pid, 0.0)
        todo += parents.get(pid, [])
    return total


def _is_jvm(pid: int) -> bool:
    try:
        return "java" in Path(f"/proc/{pid}/comm").read_text() or "java" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


class Bench:
    """One session and one broker; every method runs one operation once and returns its cost."""

    def __init__(self, spark: SparkSession, bootstrap: str, data: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.data = data

    def rows(self, count: int, size: int, *, alike: bool = False) -> DataFrame:
        """Cache incompressible rows in memory. With `alike`, each is mostly the previous one, shifted."""
        pad = size // 32 + 1
        seed = "id + i" if alike else f"id * {pad} + i"
        text = f"substring(concat_ws('', transform(sequence(1, {pad}), i -> md5(cast({seed} as string)))), 1, {size})"
        made = self.spark.range(0, count, 1, 4).selectExpr(
            "cast(id as string) as key", f"cast({text} as binary) as value"
        )
        cached = made.selectExpr("cast(key as binary) key", "value").cache()
        cached.count()
        return cached

    def write(self, frame: DataFrame, form: str, topic: str, **options: str) -> Cost:
        costs: list[Cost] = []
        with measured(costs):
            writer = frame.write.format(form).option("kafka.bootstrap.servers", self.bootstrap)
            writer.option("topic", topic).options(**options).mode("append").save()
        return costs[0]

    def read(self, form: str, topic: str, options: Mapping[str, str]) -> Cost:
        costs: list[Cost] = []
        with measured(costs):
            reader = self.spark.read.format(form).option("kafka.bootstrap.servers", self.bootstrap)
            frame = reader.option("subscribe", topic).options(**options).load()
            frame.write.format("noop").mode("overwrite").save()
        return costs[0]

    def parquet(self, topic: str) -> Path:
        """Write the same rows, with all columns, as a table of files."""
        folder = Path(tempfile.mkdtemp(prefix="bench-parquet-")) / "rows"
        reader = self.spark.read.format("penstock").option("kafka.bootstrap.servers", self.bootstrap)
        reader.option("subscribe", topic).load().write.parquet(str(folder))
        return folder

    def read_parquet(self, folder: Path) -> Cost:
        costs: list[Cost] = []
        with measured(costs):
            self.spark.read.parquet(str(folder)).write.format("noop").mode("overwrite").save()
        return costs[0]

    def trigger(self, form: str, source: str, target: str) -> float:
        """Return the median milliseconds of triggers of ten rows each, from topic to topic."""
        with tempfile.TemporaryDirectory() as folder:
            reader = self.spark.readStream.format(form).option("kafka.bootstrap.servers", self.bootstrap)
            frame = reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="10").load()
            writer = frame.select("key", "value").writeStream.format(form)
            writer = writer.option("kafka.bootstrap.servers", self.bootstrap)
            query = writer.options(topic=target, checkpointLocation=folder).trigger(availableNow=True).start()
            query.awaitTermination()
            times = [one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"]]
        return float(statistics.median(times[2:]))


def decode_ratio(size: int, records_per_batch: int) -> float:
    """Return the speedup of numpy over record-by-record decoding, on one core."""
    count = 40_000
    batches = [
        encode_batch(
            [
                Record(timestamp=at, key=b"%d" % at, value=os.urandom(size))
                for at in range(first, first + records_per_batch)
            ],
            base_offset=first,
        )
        for first in range(0, count, records_per_batch)
    ]
    data = b"".join(batches)
    padded = bytearray(data + bytes(PAD))

    def together() -> None:
        records = decode(padded, list(scan(memoryview(padded), 0, len(data))))
        pa.record_batch(
            [records.keys(), records.values(), pa.array(records.offsets), pa.array(records.timestamps)], "kvot"
        )

    def one_by_one() -> None:
        rows = [record for batch in batches for record in decode_batch(batch)]
        pa.record_batch(
            [
                pa.array([row.key for row in rows], pa.binary()),
                pa.array([row.value for row in rows], pa.binary()),
                pa.array([row.offset for row in rows]),
                pa.array([row.timestamp for row in rows]),
            ],
            "kvot",
        )

    return best(one_by_one) / best(together)


def best(run: Callable[[], None], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)
