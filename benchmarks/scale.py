"""`python -m benchmarks.scale`: what a node costs with many partitions, at 100, 1,000 and 10,000 of them.

Topics of 100 partitions with one record in each, with one replica on one node, then with three replicas on three nodes
(scale_cluster.py). Apache Kafka runs beside it if Java is installed. Figures of CPU time are those of the server. Other
programs disturb times more than CPU figures: the load of the machine is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.frames import produce_frame
from benchmarks.load import Load, LoadFailed
from benchmarks.proc import cpu_seconds, memory_mb
from benchmarks.scale_cluster import PARTITIONS_PER_TOPIC, ClusterMeasurement, clusters, write_to_all
from benchmarks.scale_cluster import ROWS as CLUSTER_ROWS
from benchmarks.targets import Server
from tests.differential.entities import read_response, request_frame
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import JavaMissing
from tests.support.penstock_process import PenstockProcess

COUNTS = (100, 1000, 10_000)
SESSION_MAX = 1000
"""Partitions in the consumer's fetch session, as far as there are so many."""
IDLE_S = 10.0
START_S_MAX = 120.0
API_VERSIONS = bytes.fromhex("0000000a0012000000000001ffff")
HOT = "hot"
NO_NEWS_OFFSET = 1
"""Where the fetches of the other partitions begin: after their only record."""

ROWS = {
    "create, topics of 100 (s)": 5.0,
    "write a record to each (s)": None,
    "memory (MB)": 100.0,
    "descriptors": None,
    "idle CPU (% of a core)": 1.0,
    "slowest of 10,000 answers while idle (ms)": 10.0,
    "CPU of a record (us)": None,
    "p99 of a record (ms)": None,
    "CPU of a record, large session, relative": 1.2,
    "p99 of a record, large session (ms)": None,
    "clean stop (s)": 5.0,
    "start after a clean stop: first answer (s)": 2.0,
    "start after a clean stop: all served (s)": None,
    "start after a clean stop: CPU (s)": None,
    "start after kill -9: first answer (s)": 2.0,
    "start after kill -9: all served (s)": None,
    "start after kill -9: CPU (s)": None,
    "delete (s)": 5.0,
}
"""All rows, each with its target at 10,000 partitions."""

Figures = dict[str, float]


class Measurement:
    """One server with one number of partitions."""

    def __init__(self, server: Server, load: Load, count: int) -> None:
        self._server = server
        self._load = load
        self._count = count
        self._topics = [f"scale-{number}" for number in range(count // PARTITIONS_PER_TOPIC)]
        self.figures: Figures = {}

    def run(self) -> Figures:
        for step in (
            self._create,
            self._write_each,
            self._idle,
            self._record_costs,
            self._stop_and_start,
            self._kill_and_start,
            self._delete,
        ):
            step()
        return self.figures

    @property
    def _address(self) -> str:
        return self._server.bootstrap

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._address, "log_level": 3})

    def _create(self) -> None:
        admin = self._admin()
        began = time.monotonic()
        for name in self._topics:
            new = NewTopic(name, PARTITIONS_PER_TOPIC, 1)
            admin.create_topics([new], request_timeout=60)[name].result(timeout=60)
        self.figures["create, topics of 100 (s)"] = time.monotonic() - began
        admin.create_topics([NewTopic(HOT, 1, 1)])[HOT].result(timeout=30)

    def _write_each(self) -> None:
        self.figures["write a record to each (s)"] = write_to_all(self._address, self._topics)
        time.sleep(3.0)
        self.figures["memory (MB)"] = memory_mb(self._server.pid)
        self.figures["descriptors"] = len(os.listdir(f"/proc/{self._server.pid}/fd"))

    def _idle(self) -> None:
        time.sleep(1.0)
        before = cpu_seconds(self._server.pid)
        time.sleep(IDLE_S)
        share = (cpu_seconds(self._server.pid) - before) / IDLE_S
        self.figures["idle CPU (% of a core)"] = 100 * share
        self.figures["slowest of 10,000 answers while idle (ms)"] = self._slowest_answer()

    def _slowest_answer(self) -> float:
        host, _, port = self._address.rpartition(":")
        slowest = 0.0
        with (
            socket.create_connection((host, int(port)), timeout=30) as connection,
            connection.makefile("rb") as answers,
        ):
            for _ in range(10_000):
                began = time.monotonic()
                connection.sendall(API_VERSIONS)
                receive(answers)
                slowest = max(slowest, time.monotonic() - began)
                time.sleep(0.001)
        return 1000 * slowest

    def _record_costs(self) -> None:
        with self._consumer([(HOT, 0)]):
            cost, p99 = self._record_cost()
        self.figures |= {"CPU of a record (us)": cost, "p99 of a record (ms)": p99}
        session = [
            (topic, partition)
            for topic in self._topics[: SESSION_MAX // PARTITIONS_PER_TOPIC]
            for partition in range(PARTITIONS_PER_TOPIC)
        ]
        with self._consumer([(HOT, 0), *session]):
            large, p99 = self._record_cost()
        self.figures |= {"CPU of a record, large session, relative": large / cost}
        self.figures |= {"p99 of a record, large session (ms)": p99}

    def _record_cost(self) -> tuple[float, float]:
        """Return CPU microseconds and p99 in milliseconds of a record in a request of its own, best of three rounds."""
        frame = produce_frame(HOT, size=100)
        costs: list[float] = []
        p99s: list[float] = []
        for _ in range(3):
            before = cpu_seconds(self._server.pid)
            numbers = self._load.requests(self._address, frame, connections=1, depth=1, count=3000)
            costs.append((cpu_seconds(self._server.pid) - before) / 3000 * 1e6)
            p99s.append(float(numbers["p99_us"]) / 1000)
        return min(costs), min(p99s)

    @contextmanager
    def _consumer(self, partitions: Sequence[tuple[str, int]]) -> Iterator[None]:
        """Run a consumer that reads new records of some partitions in one fetch session, which librdkafka has not."""
        stopping = threading.Event()
        ready = threading.Event()
        reader = threading.Thread(target=fetch_in_session, args=(self._address, partitions, ready, stopping))
        reader.start()
        is_ready = ready.wait(60)
        try:
            yield
            if not is_ready or not reader.is_alive():
                raise LoadFailed("the consumer has ended: the costs of records are those without it")
        finally:
            stopping.set()
            reader.join()

    def _stop_and_start(self) -> None:
        began = time.monotonic()
        self._server.stop()
        self.figures["clean stop (s)"] = time.monotonic() - began
        self._start("start after a clean stop")

    def _kill_and_start(self) -> None:
        write_to_all(self._address, self._topics)
        self._server.kill()
        self._start("start after kill -9")

    def _start(self, row: str) -> None:
        began = time.monotonic()
        self._server.start()
        self.figures[f"{row}: first answer (s)"] = time.monotonic() - began
        write_to_all(self._address, self._topics)
        self.figures[f"{row}: all served (s)"] = time.monotonic() - began
        self.figures[f"{row}: CPU (s)"] = cpu_seconds(self._server.pid)

    def _delete(self) -> None:
        admin = self._admin()
        began = time.monotonic()
        for future in admin.delete_topics(self._topics, operation_timeout=60, request_timeout=100).values():
            future.result(timeout=100)
        self.figures["delete (s)"] = time.monotonic() - began


def receive(answers: BinaryIO) -> bytes:
    """Read one response, without its size."""
    return answers.read(int.from_bytes(answers.read(4), "big"))


def fetch_in_session(
    address: str, partitions: Sequence[tuple[str, int]], ready: threading.Event, stopping: threading.Event
) -> None:
    """Fetch new records of the partitions in one session until `stopping`; set `ready` when the session has begun."""
    host, _, port = address.rpartition(":")
    session_id = epoch = 0
    asked = [(topic, index, 0 if number == 0 else NO_NEWS_OFFSET) for number, (topic, index) in enumerate(partitions)]
    with socket.create_connection((host, int(port)), timeout=30) as connection, connection.makefile("rb") as answers:
        while not stopping.is_set():
            topics: dict[str, list[dict[str, int]]] = {}
            for topic, index, offset in asked:
                row = {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
                topics.setdefault(topic, []).append(row)
            rows = [{"topic": topic, "partitions": each} for topic, each in topics.items()]
            values = {"replica_id": -1, "max_wait": 200, "min_bytes": 1, "max_bytes": 1 << 20, "topics": rows}
            connection.sendall(request_frame("fetch", 7, {**values, "session_id": session_id, "session_epoch": epoch}))
            answer = read_response("fetch", 7, receive(answers))
            session_id, epoch = answer["session_id"], epoch + 1
            asked = [
                (each["topic"], row["partition_index"], row["high_watermark"])
                for each in answer["responses"]
                for row in each["partitions"]
            ]
            if answer["error_code"] != "0 none":
                raise LoadFailed(f"the fetch session failed: {answer['error_code']}")
            if epoch > 2:
                ready.set()


def servers(*, with_kafka: bool, note: Callable[[str], None]) -> Iterator[Server]:
    """Return new servers, one at a time."""
    with PenstockProcess(properties={"log.retention.check.interval.ms": "5000"}, start_s_max=START_S_MAX) as penstock:
        yield penstock
    if with_kafka:
        try:
            with ApacheKafka(quick=False) as kafka:
                yield kafka
        except (JavaMissing, TimeoutError) as error:
            note(f"Apache Kafka is left out: {error}")


@contextmanager
def folders_kept() -> Iterator[Callable[[], None]]:
    """Keep the folders of the servers until the end, each from the call of the yielded function on.

    For minutes after many files were removed, ext4 takes up to a millisecond to create another one: it looks for an
    inode that was not in use recently.
    """
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="penstock-scale-") as root:
        tempfile.tempdir = root

        def keep() -> None:
            # A server removes its folder by its name.
            for folder in Path(root).iterdir():
                folder.rename(folder.with_name(f"kept-{folder.name.removeprefix('kept-')}"))

        try:
            yield keep
        finally:
            tempfile.tempdir = before


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="numbers of partitions, in hundreds")
    parser.add_argument("--no-kafka", action="store_true", help="only Penstock")
    parser.add_argument("--nodes", type=int, choices=(1, 3), help="only the rows of one node, or only those of three")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    console = Console(width=150)
    load = Load()
    results: dict[str, Figures] = {}
    with folders_kept() as keep_folder:
        for count in options.counts:
            if options.nodes != 3:
                for server in servers(with_kafka=not options.no_kafka, note=console.print):
                    _measure(Measurement(server, load, count), server.name, count, results, console)
                    keep_folder()
            if options.nodes != 1:
                for cluster in clusters(with_kafka=not options.no_kafka, note=console.print):
                    _measure(ClusterMeasurement(cluster, load, count), cluster.name, count, results, console)
                    keep_folder()
    table = Table("at partitions", *results, "target at 10,000")
    for row, target in {**ROWS, **CLUSTER_ROWS}.items():
        if any(row in figures for figures in results.values()):
            cells = [f"{figures[row]:.2f}" if row in figures else "-" for figures in results.values()]
            table.add_row(row, *cells, "" if target is None else f"<= {target:g}")
    console.print(table)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


def _measure(
    measurement: Measurement | ClusterMeasurement, name: str, count: int, results: dict[str, Figures], console: Console
) -> None:
    """Add the figures of a measurement to the results; a measurement that fails leaves the rest of its rows out."""
    title = f"{name} {count:,}"
    console.print(f"[dim]{title}, load {os.getloadavg()[0]:.1f}[/dim]")
    try:
        measurement.run()
    except (LoadFailed, TimeoutError, KafkaException) as error:
        console.print(f"{title} stopped: {error}")
    results.setdefault(title, {}).update(measurement.figures)


if __name__ == "__main__":
    sys.exit(main())
