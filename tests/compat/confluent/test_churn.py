"""Tests of librdkafka's consumers that join and leave at random, in both protocols, and across a kill -9."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.testing.process import BrokerProcess
from tests.compat.churn import GroupTarget, Ledger, Run, check_churn

EXPECTED = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError._NO_OFFSET,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._DESTROY,
}
"""Errors of a commit while the group rebalances or the broker is down. The commit is repeated."""
CLASSIC = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}


def member(settings: dict[str, Any]) -> Run:
    def run(target: GroupTarget, name: str, leaving: threading.Event, ledger: Ledger) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": target.bootstrap,
                "group.id": target.group,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "log_level": 2,
                **settings,
            }
        )
        reached: dict[int, int] = {}

        def given(_: Consumer, places: list[TopicPartition]) -> None:
            ledger.given(name, [one.partition for one in places])

        def taken(_: Consumer, places: list[TopicPartition]) -> None:
            for one in places:
                reached.pop(one.partition, None)
            ledger.taken(name, [one.partition for one in places])

        def lost(_: Consumer, places: list[TopicPartition]) -> None:
            for one in places:
                reached.pop(one.partition, None)
            ledger.lost(name, [one.partition for one in places])

        consumer.subscribe([target.topic], on_assign=given, on_revoke=taken, on_lost=lost)
        try:
            while not leaving.is_set():
                records = [one for one in consumer.consume(50, timeout=0.1) if one.error() is None]
                ledger.saw(int(one.value() or b"") for one in records)
                reached |= {one.partition() or 0: (one.offset() or 0) + 1 for one in records}
                if reached:
                    commit(consumer, target.topic, reached, ledger)
        finally:
            consumer.close()

    return run


def commit(consumer: Consumer, topic: str, reached: dict[int, int], ledger: Ledger) -> None:
    try:
        answers = consumer.commit(
            offsets=[TopicPartition(topic, index, offset) for index, offset in reached.items()], asynchronous=False
        )
        for one in answers or []:
            if one.error is None:
                reached.pop(one.partition, None)
            elif one.error.code() not in EXPECTED:
                ledger.fault(f"commit: {one.error}")
    except KafkaException as error:
        if error.args[0].code() not in EXPECTED:
            ledger.fault(f"commit: {error}")


@pytest.mark.parametrize(
    "assignor", ["range", pytest.param("roundrobin", marks=pytest.mark.slow), "cooperative-sticky"]
)
def test_members_of_the_classic_protocol_join_and_leave(churn_broker: BrokerProcess, assignor: str) -> None:
    settings = {"partition.assignment.strategy": assignor, **CLASSIC}
    check_churn(churn_broker.bootstrap, member(settings), seed=11, seconds=5)


def test_members_of_the_consumer_protocol_join_and_leave(churn_broker: BrokerProcess) -> None:
    check_churn(churn_broker.bootstrap, member({"group.protocol": "consumer"}), seed=12, seconds=5)


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.slow), "consumer"])
def test_members_join_and_leave_while_the_broker_is_killed(churn_broker: BrokerProcess, protocol: str) -> None:
    cooperative = {"partition.assignment.strategy": "cooperative-sticky", **CLASSIC}
    settings = {"group.protocol": "consumer"} if protocol == "consumer" else cooperative

    def kill_and_start() -> None:
        churn_broker.kill()
        churn_broker.start()

    check_churn(churn_broker.bootstrap, member(settings), seed=13, seconds=6, in_the_middle=kill_and_start)
