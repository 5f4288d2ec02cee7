"""Tests of compacted topics on a running broker: the child process, real clients, internal topics."""

import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.folder_size import sizes

SETTINGS = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "100"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "1048576",
    "file.delete.delay.ms": "100",
}


def make_topic(broker: Broker, name: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config={**COMPACTED, **config})])[name].result(60)


def read_all(broker: Broker, topic: str, **config: Any) -> list[tuple[int, bytes, bytes | None]]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.partition.eof": False, **config}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
        found: list[tuple[int, bytes, bytes | None]] = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                offset, key = message.offset(), message.key()
                assert offset is not None and isinstance(key, bytes)
                value = message.value()
                found.append((offset, key, value if isinstance(value, bytes) else None))
            (position,) = consumer.position([TopicPartition(topic, 0)])
            if position.offset >= end:
                return found
        raise AssertionError(f"read up to {found[-1:]} of {end}")
    finally:
        consumer.close()


def wait_for_size(folder: Path, *, below: int) -> None:
    def is_small() -> bool:
        found = sizes(folder)
        return found is not None and sum(found) < below

    eventually(is_small, what=f"{folder} below {below} bytes")


def last_values(read: list[tuple[int, bytes, bytes | None]]) -> dict[bytes, bytes]:
    found = {key: value for _, key, value in read}
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_compacted_topic_shrinks_to_its_last_values_and_stays_readable(codec: str, tmp_path: Path) -> None:
    with Broker(data=tmp_path, settings=SETTINGS) as broker:
        make_topic(broker, "table")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 5})
        table: dict[bytes, bytes] = {}
        random = Random(codec)
        for number in range(12_000):
            key, value = b"key-%d" % (number % 200), b"%d " % number + random.randbytes(480)
            producer.produce("table", key=key, value=value)
            table[key] = value
            producer.poll(0)
        for number in range(50):
            producer.produce("table", key=b"key-%d" % number, value=None)
            del table[b"key-%d" % number]
        assert producer.flush(60) == 0
        folder = tmp_path / "table-0"
        wait_for_size(folder, below=1_600_000)
        read = read_all(broker, "table")
        assert len(read) < 6000
        assert [offset for offset, _, _ in read] == sorted({offset for offset, _, _ in read})
        assert last_values(read) == table
        broker.restart()
        # Another pass may have removed more since.
        again = read_all(broker, "table")
        assert set(again) <= set(read)
        assert last_values(again) == table
        # The producer's sequence survived its records.
        producer.produce("table", key=b"key-0", value=b"back")
        assert producer.flush(60) == 0


def test_committed_offsets_survive_the_compaction_of_their_topic(tmp_path: Path) -> None:
    settings = {**SETTINGS, "offsets.topic.segment.bytes": "1048576", "offsets.topic.num.partitions": "1"}
    dirty = {"log.cleaner.min.cleanable.ratio": "0.01"}
    with Broker(data=tmp_path, settings={**settings, **dirty}) as broker:
        make_topic(broker, "orders")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for _ in range(10):
            producer.produce("orders", key=b"k", value=b"v")
        producer.flush(60)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
        filler = "m" * 3500
        for number in range(900):
            place = TopicPartition("orders", 0, number % 10, metadata=f"{number} {filler}")
            consumer.commit(offsets=[place], asynchronous=False)
        consumer.close()
        wait_for_size(tmp_path / "__consumer_offsets-0", below=1_300_000)
        broker.restart()
        again = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        (committed,) = again.committed([TopicPartition("orders", 0)], timeout=60)
        again.close()
        assert committed.offset == 899 % 10
        assert committed.metadata == f"899 {filler}"


def test_transactions_continue_after_the_compaction_of_their_state(tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "transaction.state.log.segment.bytes": "1048576",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "log.cleaner.min.cleanable.ratio": "0.0",
        "log.cleaner.max.compaction.lag.ms": "1500",
    }
    with Broker(data=tmp_path, settings=settings) as broker:
        make_topic(broker, "ledger")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "teller"})
        producer.init_transactions(60)
        for number in range(40):
            producer.begin_transaction()
            producer.produce("ledger", key=b"balance", value=b"%d" % number)
            producer.flush(60)
            if number % 4 == 3:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
        state, folder = tmp_path / "__transaction_state-0", tmp_path / "ledger-0"
        wait_for_size(state, below=1500)
        wait_for_size(folder, below=4000)
        broker.restart()
        late = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "teller"})
        late.init_transactions(60)
        late.begin_transaction()
        late.produce("ledger", key=b"other", value=b"1")
        late.commit_transaction(60)
        with pytest.raises(KafkaException):
            producer.begin_transaction()
            producer.produce("ledger", key=b"balance", value=b"fenced")
            producer.commit_transaction(60)
        read = read_all(broker, "ledger", **{"isolation.level": "read_committed"})
        assert [(key, value) for _, key, value in read] == [(b"balance", b"38"), (b"other", b"1")]
