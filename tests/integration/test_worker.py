"""Tests of the worker against a live broker: dead letters, rebalances, back-pressure, stops and kills."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from penstock.testing import Broker, BrokerProcess
from penstock.worker import DeadLetterFailed, DeadLetters, Record, Reject, Retry, Worker, WorkerFailed
from tests.integration.conftest import GROUP_SETTINGS, Fill
from tests.support.command import penstock
from tests.support.eventually import eventually

SCRIPT = Path(__file__).parents[1] / "support" / "worker_process.py"
WAIT_S = 60.0
QUICK = Retry(attempts=3, delay_s=0.01)
QUICK_SESSION: dict[str, Any] = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 300}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": QUICK_SESSION,
    "cooperative": {**QUICK_SESSION, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


def numbered(count: int) -> list[tuple[str | None, str]]:
    return [(f"k{number % 13}", str(number)) for number in range(count)]


def committed(bootstrap: str, group: str) -> dict[int, int]:
    return committed_by(AdminClient({"bootstrap.servers": bootstrap}), group)


def committed_by(admin: AdminClient, group: str) -> dict[int, int]:
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(WAIT_S)
    return {entry.partition: entry.offset for entry in found.topic_partitions}


def letters(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    shown = penstock("dlq", "show", topic, "-n", "100000", "--format", "json", "--bootstrap", bootstrap)
    return [json.loads(line) for line in shown.out.splitlines()]


@contextmanager
def running(worker: Worker) -> Iterator[threading.Thread]:
    """Run a worker on a thread; stop it at the end and wait for it."""
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield thread
    finally:
        worker.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_a_failed_record_is_dead_lettered_with_all_details(group_broker: Broker, fill: Fill) -> None:
    def handle(record: Record) -> None:
        if record.value == b"3":
            raise ValueError("three is too many")
        if record.value == b"5":
            raise Reject("no fives")

    topic = fill(numbered(8))
    worker = Worker(handle, topics=[topic], group=topic, bootstrap=group_broker.bootstrap, retry=QUICK)
    counts = worker.run(idle_stop_s=0.3)
    assert (counts.succeeded, counts.retried, counts.dead_lettered) == (6, 2, 2)
    assert committed(group_broker.bootstrap, topic) == {0: 8}
    three, five = letters(group_broker.bootstrap, topic)
    assert (three["key"], three["value"], three["headers"]) == ("k3", "3", [["n", "3"]])
    death = three["death"]
    assert (death["topic"], death["partition"], death["offset"], death["attempts"]) == (topic, 0, 3, 3)
    assert (death["error_class"], death["error_message"]) == ("ValueError", "three is too many")
    assert death["first_failure_ms"] <= death["last_failure_ms"]
    assert death["timestamp_ms"] > 0
    assert "in handle" in death["trace"]
    assert five["death"]["attempts"] == 1


def test_a_record_of_the_maximum_size_can_be_dead_lettered(group_broker: Broker, fill: Fill) -> None:
    def handle(record: Record) -> None:
        raise Reject("too much")

    size = 900_000
    topic = fill([(None, "x" * size)])
    admin = AdminClient({"bootstrap.servers": group_broker.bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    limit = ConfigEntry("max.message.bytes", str(size + 100), incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(limit)
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    worker = Worker(handle, topics=[topic], group=topic, bootstrap=group_broker.bootstrap)
    assert worker.run(idle_stop_s=0.3).dead_lettered == 1


def test_a_rejected_dead_letter_stops_the_worker_without_loss(group_broker: Broker, fill: Fill) -> None:
    def handle(record: Record) -> None:
        if record.offset == 2:
            raise Reject("no")

    topic = fill(numbered(5))
    admin = AdminClient({"bootstrap.servers": group_broker.bootstrap})
    narrow = NewTopic(f"{topic}.dlq", 1, 1, config={"max.message.bytes": "100"})
    admin.create_topics([narrow])[f"{topic}.dlq"].result(WAIT_S)
    worker = Worker(handle, topics=[topic], group=topic, bootstrap=group_broker.bootstrap)
    with pytest.raises(DeadLetterFailed, match=f"{topic}-0@2 could not be written to the dead-letter topic"):
        worker.run(idle_stop_s=10)
    assert committed(group_broker.bootstrap, topic) == {0: 2}


def test_without_a_dead_letter_topic_a_failure_stops_the_worker(group_broker: Broker, fill: Fill) -> None:
    def handle(record: Record) -> None:
        raise OSError("down")

    topic = fill(numbered(1))
    worker = Worker(
        handle, topics=[topic], group=topic, bootstrap=group_broker.bootstrap, retry=QUICK, dead_letters=None
    )
    with pytest.raises(WorkerFailed, match="after 3 attempts: down"):
        worker.run(idle_stop_s=10)


def test_many_topics_can_share_one_dead_letter_topic(group_broker: Broker, fill: Fill) -> None:
    def handle(record: Record) -> None:
        raise Reject("all of them")

    first, second = fill(numbered(2)), fill(numbered(3))
    shared = DeadLetters(topic=f"graveyard-{first}", settings={"retention.ms": "-1"})
    worker = Worker(handle, topics=[first, second], group=first, bootstrap=group_broker.bootstrap, dead_letters=shared)
    worker.run(idle_stop_s=0.5)
    sources = Counter(letter["death"]["topic"] for letter in letters(group_broker.bootstrap, shared.topic))
    assert sources == {first: 2, second: 3}


def test_dead_letters_that_a_pattern_finds_are_skipped(group_broker: Broker, fill: Fill) -> None:
    def handle(record: Record) -> None:
        raise Reject("each time")

    topic = fill(numbered(1))
    fast = {"topic.metadata.refresh.interval.ms": 100}
    patterns, bootstrap = [rf"^{topic}(\.dlq)*$"], group_broker.bootstrap
    worker = Worker(handle, topics=patterns, group=topic, bootstrap=bootstrap, consumer=fast)
    with running(worker):
        eventually(lambda: worker.counts.succeeded == 1)
    assert worker.counts.dead_lettered == 1
    topics = AdminClient({"bootstrap.servers": group_broker.bootstrap}).list_topics(timeout=WAIT_S).topics
    assert f"{topic}.dlq" in topics and f"{topic}.dlq.dlq" not in topics


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_move_between_workers_without_duplicates(protocol: str, group_broker: Broker, fill: Fill) -> None:
    seen: list[tuple[int, int]] = []
    lock = threading.Lock()
    hold = threading.Event()

    def handle(record: Record) -> None:
        hold.wait(0.002)
        with lock:
            seen.append((record.partition, record.offset))

    def worker() -> Worker:
        return Worker(
            handle, topics=[topic], group=topic, bootstrap=group_broker.bootstrap, concurrency=2, in_flight_max=40,
            consumer=PROTOCOLS[protocol],
        )  # fmt: skip

    def state() -> str:
        with lock:
            handled = sorted(Counter(partition for partition, _ in seen).items())
        group = penstock("group", "describe", topic, "-b", group_broker.bootstrap).out
        return (
            f"{written} and 300 records were written, of each partition {handled} handled and "
            f"{committed(group_broker.bootstrap, topic)} committed; {second.counts}\n{group}"
        )

    topic = fill(partitions=4)
    written = 0
    first, second = worker(), worker()
    with running(second):
        with running(first):
            while min(first.counts.succeeded, second.counts.succeeded) < 50:
                fill(numbered(20), topic=topic)
                written += 20
                assert written < 10_000, "both workers have had enough time"
                hold.wait(0.02)
        fill(numbered(300), topic=topic)
        eventually(lambda: len(seen) >= written + 300, state=state)
    assert Counter(seen).most_common(1)[0][1] == 1
    assert len(seen) == sum(committed(group_broker.bootstrap, topic).values()) == written + 300


def test_a_worker_with_a_slow_handler_stays_in_the_group(group_broker: Broker, fill: Fill) -> None:
    started, go_on = threading.Event(), threading.Event()

    def handle(record: Record) -> None:
        started.set()
        assert go_on.wait(WAIT_S)

    topic = fill(numbered(50))
    worker = Worker(
        handle, topics=[topic], group=topic, bootstrap=group_broker.bootstrap, in_flight_max=5,
        consumer={**QUICK_SESSION, "max.poll.interval.ms": 1500},
    )  # fmt: skip
    with running(worker):
        assert started.wait(WAIT_S)
        # Twice the poll interval; a worker that did not poll would have lost its partition by then.
        threading.Event().wait(3)
        assert worker.counts.taken == 5
        members = penstock("group", "describe", topic, "--format", "json", "-b", group_broker.bootstrap).json()
        assert [row["partitions"] for row in members] == [[f"{topic}-0"]]
        go_on.set()
        eventually(lambda: worker.counts.succeeded == 50)
    assert worker.counts.dropped == 0
    assert committed(group_broker.bootstrap, topic) == {0: 50}


def test_at_most_once_tries_once_and_commits_before_the_work(group_broker: Broker, fill: Fill) -> None:
    positions: list[int] = []

    def handle(record: Record) -> None:
        positions.append(committed(group_broker.bootstrap, topic)[0] - record.offset)
        if record.offset == 1:
            raise ValueError

    topic = fill(numbered(5))
    worker = Worker(
        handle, topics=[topic], group=topic, bootstrap=group_broker.bootstrap, retry=QUICK, delivery="at-most-once"
    )
    counts = worker.run(idle_stop_s=0.3)
    assert min(positions) >= 1
    assert (counts.succeeded, counts.retried, counts.dead_lettered) == (4, 0, 1)


def test_a_coroutine_handles_records_too(group_broker: Broker, fill: Fill) -> None:
    import asyncio

    seen: list[bytes | None] = []

    async def handle(record: Record) -> None:
        await asyncio.sleep(0)
        seen.append(record.value)

    topic = fill(numbered(20))
    worker = Worker(handle, topics=[topic], group=topic, bootstrap=group_broker.bootstrap)
    worker.run(idle_stop_s=0.3)
    assert seen == [str(number).encode() for number in range(20)]


class Process:
    """The worker process and the ledger it writes."""

    def __init__(self, bootstrap: str, topic: str, folder: Path, delivery: str, settings: dict[str, Any]) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._ledger = folder / "ledger"
        self._words = [sys.executable, str(SCRIPT), bootstrap, topic, topic, str(self._ledger), delivery]
        self._words += [f"{name}={value}" for name, value in settings.items()]
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log)

    def signal(self, number: signal.Signals) -> int:
        assert self._process is not None
        os.kill(self._process.pid, number)
        return self._process.wait(WAIT_S)

    def end(self) -> None:
        """Clean up regardless of the test's result."""
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGKILL)

    def finish(self, count: int) -> None:
        """Wait until this many records are committed, and stop it."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        eventually(lambda: sum(committed_by(admin, self._topic).values()) == count, what="a commit of everything")
        assert self.signal(signal.SIGTERM) == 0, self._log.read_text()

    def story(self) -> str:
        """Return everything that is known of its lives."""
        return self._ledger.read_text() + self._log.read_text()

    def handled(self) -> list[tuple[int, int]]:
        """Return (partition, offset) of every line, in order."""
        if not self._ledger.exists():
            return []
        lines = self._ledger.read_text().splitlines()
        return [(int(partition), int(offset)) for _, partition, offset in (line.split() for line in lines)]


MakeProcess = Callable[[str, str, dict[str, Any]], Process]


@pytest.fixture
def make_process(group_broker: Broker, tmp_path: Path) -> Iterator[MakeProcess]:
    made: list[Process] = []

    def make(topic: str, delivery: str, settings: dict[str, Any]) -> Process:
        made.append(Process(group_broker.bootstrap, topic, tmp_path, delivery, settings))
        return made[-1]

    yield make
    for process in made:
        process.end()


RECORDS = 3000
FAILING = RECORDS // 10


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_killed_worker_loses_nothing_and_repeats_only_uncommitted_records(
    protocol: str, group_broker: Broker, fill: Fill, make_process: MakeProcess
) -> None:
    topic = fill(numbered(RECORDS), partitions=3)
    process = make_process(topic, "at-least-once", PROTOCOLS[protocol])
    for kill in range(1, 4):
        before = len(process.handled())
        process.start()
        eventually(lambda before=before, kill=kill: len(process.handled()) > before + 150 * kill)  # type: ignore[misc]
        process.signal(signal.SIGKILL)
        done, marks = len(process.handled()), committed(group_broker.bootstrap, topic)
        # Only handled or dead-lettered records are committed.
        handled = set(process.handled()) | _dead(group_broker.bootstrap, topic)
        for partition, mark in marks.items():
            assert {(partition, offset) for offset in range(mark)} <= handled
        process.start()
        eventually(lambda done=done: len(process.handled()) > done)  # type: ignore[misc]
        assert all(offset >= marks.get(partition, 0) for partition, offset in process.handled()[done:])
        process.signal(signal.SIGTERM)
    process.start()
    process.finish(RECORDS)
    everything = Counter(process.handled())
    dead = _dead(group_broker.bootstrap, topic)
    assert len(everything) == RECORDS - FAILING
    assert len(dead) == FAILING
    assert not dead & everything.keys()
    ends = committed(group_broker.bootstrap, topic)
    assert sum(ends.values()) == RECORDS
    # Each of the three kills repeats at most the records in flight or not yet committed.
    assert sum(everything.values()) - len(everything) < 3 * 200


@pytest.mark.slow
def test_a_killed_at_most_once_worker_repeats_nothing(fill: Fill, make_process: MakeProcess) -> None:
    topic = fill(numbered(RECORDS), partitions=3)
    process = make_process(topic, "at-most-once", QUICK_SESSION)
    for kill in range(1, 3):
        process.start()
        eventually(lambda kill=kill: len(process.handled()) > 200 * kill)  # type: ignore[misc]
        process.signal(signal.SIGKILL)
    process.start()
    process.finish(RECORDS)
    everything = Counter(process.handled())
    assert everything.most_common(1)[0][1] == 1
    # A kill loses at most the records in flight.
    assert len(everything) >= RECORDS - FAILING - 2 * 50


def test_a_stopped_worker_exits_cleanly_and_repeats_nothing(fill: Fill, make_process: MakeProcess) -> None:
    topic = fill(numbered(500), partitions=2)
    process = make_process(topic, "at-least-once", {})
    process.start()
    eventually(lambda: len(process.handled()) > 50)
    assert process.signal(signal.SIGTERM) == 0
    process.start()
    process.finish(500)
    repeated = [place for place, count in Counter(process.handled()).items() if count > 1]
    assert repeated == [], process.story()
    assert len(process.handled()) == 450


def _dead(bootstrap: str, topic: str) -> set[tuple[int, int]]:
    return {(letter["death"]["partition"], letter["death"]["offset"]) for letter in letters(bootstrap, topic)}


@pytest.mark.slow
def test_a_worker_continues_after_its_broker_is_killed_and_restarted() -> None:
    seen: Counter[tuple[int, int]] = Counter()
    lock = threading.Lock()

    def handle(record: Record) -> None:
        if int(record.value or b"0") % 10 == 7:
            raise Reject("ends in 7")
        with lock:
            seen[record.partition, record.offset] += 1

    with BrokerProcess(GROUP_SETTINGS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("kept", 2, 1)])["kept"].result(WAIT_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "enable.idempotence": True})
        worker = Worker(handle, topics=["kept"], group="kept", bootstrap=broker.bootstrap, concurrency=4, order="key")
        with running(worker):
            for _ in range(3):
                for key, value in numbered(500):
                    producer.produce("kept", value, key)
                done = len(seen)
                eventually(lambda done=done: len(seen) > done + 100 and producer.poll(0) >= 0)  # type: ignore[misc]
                broker.kill()
                broker.start()
            assert producer.flush(WAIT_S) == 0
            eventually(lambda: len(seen) == 1350)
            eventually(lambda: len(_dead(broker.bootstrap, "kept")) == 150)
        assert sum(committed(broker.bootstrap, "kept").values()) == 1500
