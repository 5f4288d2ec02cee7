"""Test of aiokafka's consumers that join and leave at random while a producer runs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

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
    asyncio.run(_member(target, name, leaving, ledger))


async def _member(target: GroupTarget, name: str, leaving: threading.Event, ledger: Ledger) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=target.bootstrap, group_id=target.group, client_id=name, auto_offset_reset="earliest",
        enable_auto_commit=False, heartbeat_interval_ms=200, session_timeout_ms=SESSION_MS, fetch_max_wait_ms=100,
    )  # fmt: skip
    reached: dict[int, int] = {}
    consumer.subscribe([target.topic], listener=Listener(name, ledger, reached))
    await consumer.start()
    try:
        while not leaving.is_set():
            for where, records in (await consumer.getmany(timeout_ms=100, max_records=50)).items():
                ledger.saw(int(one.value) for one in records)
                reached[where.partition] = records[-1].offset + 1
            if reached:
                await commit(consumer, target.topic, reached)
    finally:
        ledger.left(name)  # stop() may still call on_partitions_assigned, and never calls on_partitions_revoked
        await consumer.stop()


async def commit(consumer: Any, topic: str, reached: dict[int, int]) -> None:
    """Commit, or leave it to the next attempt: a rebalance may be in progress."""
    try:
        await consumer.commit({TopicPartition(topic, index): offset for index, offset in dict(reached).items()})
        reached.clear()
    except (CommitFailedError, IllegalStateError):
        reached.clear()  # the partitions belong to another member by now
    except KafkaError:
        pass


def test_members_join_and_leave(churn_broker: BrokerProcess) -> None:
    check_churn(churn_broker.bootstrap, member, seed=31, seconds=4)
