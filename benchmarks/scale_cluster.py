"""Three nodes with many partitions of three replicas: the second half of `python -m benchmarks.scale`.

Every node has a replica of each partition and leads a third of them. The node that fails is the active controller of
Penstock, which takes longest. Memory and CPU figures are those of the node with the largest one. Pauses are the most
CPU time that an iteration of a node's event loop has taken, from its start until the end of the step.
"""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from benchmarks.frames import produce_frame
from benchmarks.load import Load, LoadFailed
from benchmarks.proc import cpu_seconds, memory_mb
from tests.support.apache_kafka_cluster import ApacheKafkaCluster
from tests.support.java_tools import JavaMissing
from tests.support.penstock_cluster import PenstockCluster

PARTITIONS_PER_TOPIC = 100
RECORD_S_MAX = 120.0
REPLICAS = 3
IDLE_S = 10.0
SETTLE_S_MAX = 120.0
POLL_S = 0.1
HOT = "hot"
RECORDS = 3000
PAUSE = re.compile(r"^penstock_event_loop_held_cpu_max_ms (\S+)$", re.MULTILINE)
IS_CONTROLLER = re.compile(r"activecontrollercount\S* 1(\.0)?$", re.MULTILINE)

ROWS = {
    "RF 3: create, topics of 100 (s)": 5.0,
    "RF 3: write a record to each (s)": None,
    "RF 3: memory (MB)": 100.0,
    "RF 3: idle CPU (% of a core)": 1.0,
    "RF 3: p99 of a record alone (ms)": None,
    "RF 3: p99 of a record, relative to alone": 1.5,
    "RF 3: pause in creation and writes (ms of CPU)": 10.0,
    "RF 3: kill -9 of a node: all led again (s)": 3.0,
    "RF 3: kill -9 of a node: all written again (s)": None,
    "RF 3: pause in failover (ms of CPU)": 10.0,
    "RF 3: start after kill -9: first answer (s)": 2.0,
    "RF 3: start after kill -9: all in sync (s)": None,
    "RF 3: pause of other nodes in a start (ms of CPU)": 10.0,
    "RF 3: clean stop (s)": 5.0,
    "RF 3: start after a clean stop: first answer (s)": 2.0,
    "RF 3: start after a clean stop: all in sync (s)": None,
    "RF 3: pause of other nodes at the end (ms of CPU)": 10.0,
    "RF 3: delete (s)": 5.0,
}
"""All rows, each with its target at 10,000 partitions."""

Figures = dict[str, float]
Cluster = PenstockCluster | ApacheKafkaCluster


def write_to_all(bootstrap: str, topics: Sequence[str]) -> float:
    """Write a record to each partition; return how long that took."""
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    settings = {"acks": "all", "linger.ms": 5, "message.timeout.ms": int(RECORD_S_MAX * 1000), "log_level": 3}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    began = time.monotonic()
    for topic in topics:
        for partition in range(PARTITIONS_PER_TOPIC):
            producer.produce(topic, b"x" * 100, partition=partition, on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(RECORD_S_MAX)
    if left or failed:
        raise LoadFailed(f"{left} records are not acknowledged, {len(failed)} failed: {failed[:1]}")
    return time.monotonic() - began


class ClusterMeasurement:
    """One cluster with one number of partitions."""

    def __init__(self, cluster: Cluster, load: Load, count: int) -> None:
        self._cluster = cluster
        self._load = load
        self._topics = [f"scale-{number}" for number in range(count // PARTITIONS_PER_TOPIC)]
        self._alone_ms = 0.0
        self.figures: Figures = {}

    def run(self) -> Figures:
        for step in (self._create, self._idle, self._kill, self._restart, self._stop_and_start, self._delete):
            step()
        return self.figures

    def _note(self, row: str, value: float) -> None:
        self.figures[f"RF 3: {row}"] = value

    def _admin(self) -> AdminClient:
        """Return a client that connects to the nodes that run."""
        running = ",".join(self._cluster.address(node_id) for node_id in self._cluster.pids)
        return AdminClient({"bootstrap.servers": running, "log_level": 3})

    def _create(self) -> None:
        admin = self._admin()
        admin.create_topics([NewTopic(HOT, 1, REPLICAS)])[HOT].result(timeout=60)
        self._wait_until(lambda row: set(row.isrs) == set(self._cluster.ids))
        self._alone_ms = self._p99()
        self._note("p99 of a record alone (ms)", self._alone_ms)
        began = time.monotonic()
        for name in self._topics:
            new = NewTopic(name, PARTITIONS_PER_TOPIC, REPLICAS)
            admin.create_topics([new], request_timeout=60)[name].result(timeout=60)
        self._note("create, topics of 100 (s)", time.monotonic() - began)
        self._note("write a record to each (s)", write_to_all(self._cluster.bootstrap, self._topics))
        self._note_pause("pause in creation and writes (ms of CPU)", self._cluster.ids)

    def _idle(self) -> None:
        time.sleep(5.0)
        pids = self._cluster.pids.values()
        self._note("memory (MB)", max(map(memory_mb, pids)))
        before = [cpu_seconds(pid) for pid in pids]
        time.sleep(IDLE_S)
        used = [cpu_seconds(pid) - earlier for pid, earlier in zip(pids, before, strict=True)]
        self._note("idle CPU (% of a core)", 100 * max(used) / IDLE_S)
        self._note("p99 of a record, relative to alone", self._p99() / self._alone_ms)

    def _p99(self) -> float:
        """Return the p99 in milliseconds of a record with acks=all in a request of its own, best of three rounds."""
        leader = self._admin().list_topics(HOT, timeout=30).topics[HOT].partitions[0].leader
        frame = produce_frame(HOT, size=100, acks=-1)
        rounds = [
            self._load.requests(self._cluster.address(leader), frame, connections=1, depth=1, count=RECORDS)
            for _ in range(3)
        ]
        return min(float(numbers["p99_us"]) for numbers in rounds) / 1000

    def _kill(self) -> None:
        self._victim = self._controller()
        began = time.monotonic()
        self._cluster.kill(self._victim)
        self._wait_until(lambda row: row.leader not in (-1, self._victim))
        self._note("kill -9 of a node: all led again (s)", time.monotonic() - began)
        write_to_all(self._cluster.bootstrap, self._topics)
        self._note("kill -9 of a node: all written again (s)", time.monotonic() - began)
        self._note_pause("pause in failover (ms of CPU)", self._cluster.pids)

    def _restart(self) -> None:
        self._start("start after kill -9")
        self._note_pause("pause of other nodes in a start (ms of CPU)", self._others())

    def _stop_and_start(self) -> None:
        write_to_all(self._cluster.bootstrap, self._topics)
        began = time.monotonic()
        self._cluster.stop(self._victim)
        self._note("clean stop (s)", time.monotonic() - began)
        self._start("start after a clean stop")

    def _start(self, row: str) -> None:
        began = time.monotonic()
        self._cluster.restart(self._victim)
        self._note(f"{row}: first answer (s)", time.monotonic() - began)
        self._wait_until(lambda row: len(row.isrs) == REPLICAS)
        self._note(f"{row}: all in sync (s)", time.monotonic() - began)

    def _delete(self) -> None:
        admin = self._admin()
        began = time.monotonic()
        for future in admin.delete_topics(self._topics, operation_timeout=60, request_timeout=100).values():
            future.result(timeout=100)
        self._note("delete (s)", time.monotonic() - began)
        self._note_pause("pause of other nodes at the end (ms of CPU)", self._others())

    def _others(self) -> list[int]:
        return [node_id for node_id in self._cluster.pids if node_id != self._victim]

    def _controller(self) -> int:
        """Return the active controller, or the first node of a cluster without the metric."""
        found = [node_id for node_id in self._cluster.ids if IS_CONTROLLER.search(self._metrics(node_id))]
        return found[0] if found else self._cluster.ids[0]

    def _note_pause(self, row: str, node_ids: Collection[int]) -> None:
        pauses = [float(each) for node_id in node_ids for each in PAUSE.findall(self._metrics(node_id))]
        if pauses:
            self._note(row, max(pauses))

    def _metrics(self, node_id: int) -> str:
        if not isinstance(self._cluster, PenstockCluster):
            return ""
        host, _, port = self._cluster.metrics_address(node_id).rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def _wait_until(self, holds: Callable[[PartitionMetadata], bool]) -> None:
        """Wait until a condition holds for all partitions in the metadata of a node that runs."""
        deadline = time.monotonic() + SETTLE_S_MAX
        admin = self._admin()
        while time.monotonic() < deadline:
            with suppress(KafkaException):
                topics = admin.list_topics(timeout=10).topics.values()
                rows = [row for topic in topics for row in topic.partitions.values()]
                if rows and all(map(holds, rows)):
                    return
            time.sleep(POLL_S)
        raise TimeoutError(f"the partitions have not settled within {SETTLE_S_MAX:.0f} s")


def clusters(*, with_kafka: bool, note: Callable[[str], None]) -> Iterator[Cluster]:
    """Return new clusters, one at a time."""
    with PenstockCluster(properties={"log.retention.check.interval.ms": "5000"}, has_metrics=True) as penstock:
        yield penstock
    if with_kafka:
        try:
            with ApacheKafkaCluster() as kafka:
                yield kafka
        except (JavaMissing, TimeoutError) as error:
            note(f"Apache Kafka is left out: {error}")
