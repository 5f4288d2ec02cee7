"""Tests of offsets committed in transactions by librdkafka: visible only after the commit, also after kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from penstock.testing.process import BrokerProcess

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
TOPIC, GROUP = "orders", "g"
PATIENCE_S = 60.0


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(PATIENCE_S)


def consumer(bootstrap: str, **settings: Any) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False, **settings})


def producer(bootstrap: str) -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "transaction.timeout.ms": 60_000})
    made.init_transactions(PATIENCE_S)
    return made


def place(offset: int = -1001) -> list[TopicPartition]:
    return [TopicPartition(TOPIC, 0, offset)]


def committed(reader: Consumer, patience_s: float = PATIENCE_S) -> int:
    (found,) = reader.committed(place(), patience_s)
    return int(found.offset)


def is_unstable(bootstrap: str) -> bool:
    """Return whether a reader of stable offsets gets none in time, with retries."""
    reader = consumer(bootstrap, **{"isolation.level": "read_committed"})
    try:
        committed(reader, 0.7)
    except KafkaException as refusal:
        assert refusal.args[0].code() in (KafkaError._TIMED_OUT, KafkaError.UNSTABLE_OFFSET_COMMIT)
        return True
    finally:
        reader.close()
    return False


def test_offsets_are_unstable_until_their_transaction_is_committed() -> None:
    with Broker(SETTINGS) as broker:
        make_topic(broker.bootstrap)
        reader = consumer(broker.bootstrap, **{"isolation.level": "read_uncommitted"})
        writer = producer(broker.bootstrap)
        for offset, is_commit, expected in ((1, True, 1), (2, False, 1), (3, True, 3)):
            before = committed(reader)
            writer.begin_transaction()
            writer.send_offsets_to_transaction(place(offset), reader.consumer_group_metadata(), PATIENCE_S)
            assert committed(reader) == before
            assert is_unstable(broker.bootstrap)
            if is_commit:
                writer.commit_transaction(PATIENCE_S)
            else:
                writer.abort_transaction(PATIENCE_S)
            stable = consumer(broker.bootstrap, **{"isolation.level": "read_committed"})
            assert committed(stable) == expected
            stable.close()
        reader.close()


def test_a_producer_with_a_replaced_consumer_cannot_commit_for_the_group() -> None:
    with Broker(SETTINGS) as broker:
        make_topic(broker.bootstrap)
        older = consumer(broker.bootstrap)
        older.subscribe([TOPIC])
        while not older.assignment():
            older.poll(0.1)
        metadata = older.consumer_group_metadata()
        older.close()
        newer = consumer(broker.bootstrap)
        newer.subscribe([TOPIC])
        while not newer.assignment():
            newer.poll(0.1)
        writer = producer(broker.bootstrap)
        writer.begin_transaction()
        with pytest.raises(KafkaException) as refused:
            writer.send_offsets_to_transaction(place(5), metadata, PATIENCE_S)
        assert refused.value.args[0].code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
        assert refused.value.args[0].txn_requires_abort()
        writer.abort_transaction(PATIENCE_S)
        writer.begin_transaction()
        writer.send_offsets_to_transaction(place(6), newer.consumer_group_metadata(), PATIENCE_S)
        writer.commit_transaction(PATIENCE_S)
        assert committed(newer) == 6
        newer.close()


@pytest.mark.slow
def test_a_kill_keeps_open_and_committed_transactions_as_they_were(tmp_path: Path) -> None:
    broker = BrokerProcess(SETTINGS, data=tmp_path / "data")
    broker.start()
    try:
        make_topic(broker.bootstrap)
        expected = -1001
        for offset in range(1, 9, 2):
            writer = producer(broker.bootstrap)
            reader = consumer(broker.bootstrap, **{"isolation.level": "read_committed"})
            assert committed(reader) == expected
            writer.begin_transaction()
            writer.send_offsets_to_transaction(place(offset), reader.consumer_group_metadata(), PATIENCE_S)
            writer.commit_transaction(PATIENCE_S)
            expected = offset
            writer.begin_transaction()
            writer.send_offsets_to_transaction(place(offset + 1), reader.consumer_group_metadata(), PATIENCE_S)
            reader.close()
            broker.kill()
            broker.start()
            # The next process with this id, at the top, aborts the open transaction.
            assert is_unstable(broker.bootstrap)
            del writer
    finally:
        broker.stop()
