"""Files that cannot be read any more, under a running node and when it starts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.process import BrokerProcess
from tests.abuse.preload import NoCompiler, read_faults

RECORDS = 400
WAIT_S = 90


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(data=tmp_path / "data") as started:
        yield started


@pytest.fixture
def trigger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that says which reads of the broker fail with EIO, as `POSITION:PATH`; ask for it before the broker."""
    path = tmp_path / "trigger"
    with ExitStack() as stack:
        try:
            environment = read_faults(path, stack)
        except NoCompiler as problem:
            pytest.skip(str(problem))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield path


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def offsets_read(broker: BrokerProcess, count: int, partitions: tuple[int, ...] = (0, 1)) -> dict[int, set[int]]:
    """What a consumer gets from the beginning on, until it has `count` records of each of the partitions."""
    found: dict[int, set[int]] = {0: set(), 1: set()}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition("t", 0, 0), TopicPartition("t", 1, 0)])
        deadline = time.monotonic() + WAIT_S
        while any(len(found[each]) < count for each in partitions):
            assert time.monotonic() < deadline, f"got {[len(each) for each in found.values()]} records"
            for message in consumer.consume(500, timeout=0.5):
                if message.error() is None:
                    found[message.partition()].add(message.offset())
    finally:
        consumer.close()
    return found


def produce(broker: BrokerProcess, partition: int, count: int) -> list[KafkaError | None]:
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "delivery.timeout.ms": 3000, "linger.ms": 5})
    for _ in range(count):
        producer.produce(
            "t", os.urandom(1000), partition=partition, on_delivery=lambda error, _: outcomes.append(error)
        )
    producer.flush(60)
    return outcomes


@pytest.mark.parametrize("kept", [100_000, 10_000], ids=["sent by sendfile", "sent by copy"])
def test_a_segment_that_is_cut_under_the_node_costs_only_its_own_partition(broker: BrokerProcess, kept: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(30)
    # Less than one batch more than what is kept, so that it is sent in one slice of the size that is meant.
    lost = RECORDS if kept > 65_536 else kept // 1000 + 15
    assert produce(broker, 0, lost) == [None] * lost
    assert produce(broker, 1, RECORDS) == [None] * RECORDS
    (segment,) = (broker.data / "t-0").glob("*.log")
    os.truncate(segment, kept)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition("t", 0, 0), TopicPartition("t", 1, 0)])
        healthy = 0
        deadline = time.monotonic() + 60
        while healthy < RECORDS and time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=0.5):
                healthy += message.error() is None and message.partition() == 1
        assert healthy == RECORDS
    finally:
        consumer.close()
    said = broker.log_path.read_text()
    assert f"{segment} ends at position {kept}" in said
    assert "t-0 is quarantined from offset" in said
    assert "Traceback" not in said
    # The client tries again for as long as it may, so the error that it reports at last is its own.
    (refused,) = produce(broker, 0, 1)
    assert refused is not None
    assert produce(broker, 1, 1) == [None]


def filled(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(30)
    for partition in (0, 1):
        assert produce(broker, partition, RECORDS) == [None] * RECORDS


def test_an_io_error_in_sendfile_costs_only_its_own_partition_and_passes(trigger: Path, broker: BrokerProcess) -> None:
    filled(broker)
    # In the middle of the segment: the head of the answer has left when the read fails.
    trigger.write_text("150000:/t-0/")
    found = offsets_read(broker, RECORDS, partitions=(1,))
    assert len(found[0]) < RECORDS
    until(lambda: "could not be sent: [Errno 5]" in broker.log_path.read_text(), "the failure is logged")
    trigger.unlink()
    found = offsets_read(broker, RECORDS)
    assert found[0] == found[1] == set(range(RECORDS))
    until(lambda: produce(broker, 0, 1) == [None], "the partition takes records again")
    assert "Traceback" not in broker.log_path.read_text()


def test_a_log_that_cannot_be_read_at_a_start_is_served_up_to_the_error_and_comes_back_with_the_disk(
    trigger: Path, broker: BrokerProcess
) -> None:
    filled(broker)
    broker.kill()
    trigger.write_text("150000:/t-0/")
    broker.start()
    said = broker.log_path.read_text()
    assert "t-0 is damaged: offsets" in said and "Input/output error" in said and "accept-loss" in said
    found = offsets_read(broker, RECORDS, partitions=(1,))
    assert len(found[0]) < RECORDS
    assert produce(broker, 1, 1) == [None]
    trigger.unlink()
    until(lambda: "partition t-0 can be read again" in broker.log_path.read_text(), "the log is opened again")
    assert offsets_read(broker, RECORDS)[0] == set(range(RECORDS))
    assert produce(broker, 0, 1) == [None]
    assert "Traceback" not in broker.log_path.read_text()
