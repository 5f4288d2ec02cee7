"""Test of kafka-python's consumers that join and leave at random while a producer runs."""

from __future__ import annotations

import threading
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import CommitFailedError, KafkaError

from penstock.testing.process import BrokerProcess
from tests.compat.churn import SESSION_MS, GroupTarget, Ledger, check_churn


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, name: str, ledger: Ledger, reached: dict[int, int]) -> None:
        self._name, self._ledger, self._reached = name, ledger, reached

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._ledger.given(self._name, [one.partition for one in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        for one in revoked:
            self._reached.pop(one.partition, None)
        self._ledger.taken(self._name, [one.partition for one in revoked])


def member(target: GroupTarget, name: str, leaving: threading.Event, ledger: Ledger) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=target.bootstrap, group_id=target.group, client_id=name, auto_offset_reset="earliest",
        enable_auto_commit=False, heartbeat_interval_ms=200, session_timeout_ms=SESSION_MS, fetch_max_wait_ms=100,
    )  # fmt: skip
    reached: dict[int, int] = {}
    consumer.subscribe([target.topic], listener=Listener(name, ledger, reached))
    consumer.partitions_for_topic(target.topic)  # see consumer() in test_groups.py
    try:
        while not leaving.is_set():
            for where, records in consumer.poll(timeout_ms=100, max_records=50).items():
                ledger.saw(int(one.value) for one in records)
                reached[where.partition] = records[-1].offset + 1
            if reached:
                commit(consumer, target.topic, reached)
    finally:
        consumer.close()


def commit(consumer: KafkaConsumer, topic: str, reached: dict[int, int]) -> None:
    """Commit, or leave it to the next attempt: a rebalance may be in progress."""
    offsets = {TopicPartition(topic, index): OffsetAndMetadata(offset, "", -1) for index, offset in reached.items()}
    try:
        consumer.commit(offsets)
        reached.clear()
    except CommitFailedError:
        reached.clear()  # the partitions belong to another member by now
    except KafkaError:
        pass


def test_members_join_and_leave(churn_broker: BrokerProcess) -> None:
    check_churn(churn_broker.bootstrap, member, seed=21, seconds=6)
