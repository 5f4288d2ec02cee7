"""Share groups with librdkafka: restarts and killed nodes lose no record and repeat none that was accepted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.testing import Broker
from penstock.worker import Record, Reject, Worker
from tests.support.eventually import eventually
from tests.support.penstock_cluster import PenstockCluster

GROUP = "workers"
PATIENCE_S = 120.0


def prepare(bootstrap: str, topic: str, *, partitions: int, replicas: int = 1, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result()
    own = {name.replace("_", "."): text for name, text in settings.items()}
    values = {"share.auto.offset.reset": "earliest", **own}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in values.items()]
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result()


def produce(bootstrap: str, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": "1"})
    for number in range(first, first + count):
        producer.produce(topic, str(number).encode())
        if number % 20 == 0:
            producer.flush()
    assert producer.flush(60) == 0


class Member:
    """A share consumer that accepts or rejects each record, and remembers what the broker has confirmed."""

    def __init__(self, bootstrap: str, topic: str, *, rejects: Callable[[int], bool] = lambda number: False) -> None:
        self._rejects = rejects
        self.deliveries: Counter[int] = Counter()
        self.accepted: set[int] = set()
        self.repeated: set[int] = set()
        """Delivered again after the broker had confirmed that they were accepted."""
        self._consumer = ShareConsumer(
            {"bootstrap.servers": bootstrap, "group.id": GROUP, "share.acknowledgement.mode": "explicit"}
        )
        self._consumer.subscribe([topic])

    def work(self) -> None:
        """Poll once, accept what arrives, and commit."""
        waiting: dict[tuple[str, int], set[int]] = {}
        for message in self._consumer.poll(0.5):
            if message.error() is not None:
                continue
            number = int(message.value() or b"")
            self.deliveries[number] += 1
            if number in self.accepted:
                self.repeated.add(number)
            kind = AcknowledgeType.REJECT if self._rejects(number) else AcknowledgeType.ACCEPT
            self._consumer.acknowledge(message, kind)
            waiting.setdefault((str(message.topic()), int(message.partition() or 0)), set()).add(number)
        if not waiting:
            return
        for partition, error in self._consumer.commit_sync(30).items():
            if error is None:
                self.accepted |= waiting.get((partition.topic, partition.partition), set())

    def work_until(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self.accepted) < count:
            assert time.monotonic() < deadline, f"{len(self.accepted)} of {count} accepted"
            self.work()

    def close(self) -> None:
        self._consumer.close()


def dead_letters(bootstrap: str, topic: str, count: int) -> int:
    """Read dead-letter records until there are as many; return the number of records that they point to."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "letters", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: set[tuple[object, object]] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            headers = dict(message.headers() or [])
            found.add((headers["__dlq.errors.partition"], headers["__dlq.errors.offset"]))
    consumer.close()
    return len(found)


def test_accepted_records_stay_accepted_over_a_restart() -> None:
    with Broker() as broker:
        prepare(broker.bootstrap, "jobs", partitions=2)
        produce(broker.bootstrap, "jobs", 0, 200)
        worker = Member(broker.bootstrap, "jobs")
        worker.work_until(200)
        broker.restart()
        produce(broker.bootstrap, "jobs", 200, 200)
        worker.work_until(400)
        worker.close()
        assert worker.repeated == set()
        later = Member(broker.bootstrap, "jobs")
        for _ in range(4):
            later.work()
        later.close()
        assert not later.deliveries, "nothing is delivered again"


def test_a_worker_of_a_queue_accepts_releases_and_rejects() -> None:
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("dlq.jobs", 1)])["dlq.jobs"].result()
        prepare(broker.bootstrap, "jobs", partitions=2, errors_deadletterqueue_topic_name="dlq.jobs")
        produce(broker.bootstrap, "jobs", 0, 100)
        attempts: Counter[int] = Counter()

        def handle(record: Record) -> None:
            number = int(record.value or b"")
            attempts[number] += 1
            if number == 7 and attempts[number] < 3:
                raise OSError("try again")
            if number == 8:
                raise Reject("never")

        worker = Worker(
            handle, topics=["jobs"], group=GROUP, bootstrap=broker.bootstrap, delivery="queue", concurrency=4
        )
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(worker.run, signals=False)
            try:
                eventually(lambda: worker.counts.succeeded >= 99 and worker.counts.dead_lettered >= 1, seconds_max=120)
            finally:
                worker.stop()
            counts = running.result()
        assert (counts.succeeded, counts.retried, counts.dead_lettered) == (99, 2, 1)
        assert attempts[7] == 3 and attempts[8] == 1
        assert dead_letters(broker.bootstrap, "dlq.jobs", 1) == 1


def test_a_killed_node_loses_no_record_and_repeats_none_that_was_accepted() -> None:
    properties = {
        "share.coordinator.state.topic.num.partitions": "6",
        "offsets.topic.num.partitions": "6",
    }
    with PenstockCluster(properties=properties) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("dlq.jobs", 6, 3)])["dlq.jobs"].result()
        settings = {"share_record_lock_duration_ms": "15000", "errors_deadletterqueue_topic_name": "dlq.jobs"}
        prepare(cluster.bootstrap, "jobs", partitions=6, replicas=3, **settings)
        worker = Member(cluster.bootstrap, "jobs", rejects=lambda number: number % 50 == 0)
        produce(cluster.bootstrap, "jobs", 0, 300)
        worker.work_until(100)
        cluster.kill(2)
        produce(cluster.bootstrap, "jobs", 300, 300)
        worker.work_until(600)
        cluster.restart(2)
        produce(cluster.bootstrap, "jobs", 600, 300)
        worker.work_until(900)
        worker.close()
        assert worker.repeated == set()
        assert worker.accepted == set(range(900))
        assert dead_letters(cluster.bootstrap, "dlq.jobs", 18) >= 18
