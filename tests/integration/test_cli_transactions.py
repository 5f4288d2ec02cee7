"""Tests of penstock txn against a live broker."""

from __future__ import annotations

import itertools

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from tests.support.command import Outcome, penstock
from tests.support.transaction_wire import Wire

_numbers = itertools.count(1)


@pytest.fixture
def at(group_broker: Broker) -> tuple[str, str]:
    return ("--bootstrap", group_broker.bootstrap)


@pytest.fixture
def topic(group_broker: Broker) -> str:
    name = f"transactional-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": group_broker.bootstrap})
    admin.create_topics([NewTopic(name, 2)])[name].result(60)
    return name


def done(*words: str) -> Outcome:
    outcome = penstock(*words)
    assert outcome.code == 0, outcome.err
    return outcome


def refused(*words: str) -> str:
    outcome = penstock(*words)
    assert outcome.code == 1, outcome.out
    return outcome.err


def test_an_open_transaction_is_listed_described_and_aborted(
    group_broker: Broker, topic: str, at: tuple[str, str]
) -> None:
    with Wire(group_broker.bootstrap) as wire:
        producer = wire.begin(topic)
        assert "Empty" in done("txn", "list", "--pattern", f"{topic}", *at).out
        assert "no open transaction" in refused("txn", "abort", topic, "--yes", *at)
        assert wire.produce(producer, topic, 0, "x") == 0
        assert wire.produce(producer, topic, 1, "x") == 0
        (row,) = done("txn", "list", "--state", "Ongoing", "--format", "json", *at).json()
        assert row == {
            "transactional_id": topic,
            "coordinator": 1,
            "producer_id": producer.producer_id,
            "state": "Ongoing",
        }
        assert topic in done("txn", "list", "--producer-id", str(producer.producer_id), *at).out
        assert topic not in done("txn", "list", "--running-for", "1h", *at).out
        (row,) = done("txn", "describe", topic, "--format", "json", *at).json()
        assert (row["state"], row["epoch"], row["timeout_ms"]) == ("Ongoing", producer.epoch, 60_000)
        assert row["partitions"] == [f"{topic}-0", f"{topic}-1"]
        assert 0 <= row["running_ms"] < 60_000
        assert done("txn", "find-hanging", "--idle-for", "0s", "--format", "json", *at).json() == []
        assert done("txn", "abort", topic, "--yes", *at).out == f"aborted {topic}\n"
        assert wire.end(producer, commit=True).error_code == 90
    (row,) = done("txn", "describe", topic, "--format", "json", *at).json()
    assert (row["state"], row["partitions"], row["running_ms"]) == ("Empty", [], None)


def test_a_hanging_transaction_is_found_and_aborted() -> None:
    # Without verification a write can arrive that belongs to no transaction: this is how transactions hang.
    settings = {"transaction.partition.verification.enable": "false", "transaction.state.log.num.partitions": "1"}
    with Broker(settings) as broker, Wire(broker.bootstrap) as wire:
        at = ("--bootstrap", broker.bootstrap)
        done("topic", "create", "t", "--partitions", "2", *at)
        producer = wire.begin("id")
        assert wire.produce(producer, "t", 1, "x", version=11) == 0
        (row,) = done("txn", "find-hanging", "--format", "json", *at).json()
        assert (row["topic"], row["partition"], row["start_offset"]) == ("t", 1, 0)
        assert (row["producer_id"], row["epoch"]) == (producer.producer_id, producer.epoch)
        place = ("--topic", "t", "--partition", "1")
        assert "find-hanging" in refused("txn", "abort", *place, "--start-offset", "7", "--yes", *at)
        said = done("txn", "abort", *place, "--start-offset", "0", "--yes", *at).out
        assert said == f"aborted the transaction of producer {producer.producer_id} in t-1\n"
        assert done("txn", "find-hanging", "--format", "json", *at).json() == []
        assert "has no partition 5" in refused("txn", "find-hanging", "--topic", "t", "--partition", "5", *at)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("describe", "no-such-id"), "Run 'penstock txn list'"),
        (("abort", "no-such-id", "--yes"), "Run 'penstock txn list'"),
        (("abort",), "Pass either a transactional id"),
        (("abort", "--topic", "t"), "Pass either a transactional id"),
        (("list", "--state", "Sleeping"), "Invalid transaction state 'Sleeping'"),
        (("list", "--running-for", "soon"), "Invalid duration 'soon'"),
        (("list", "--pattern", "("), "invalid regular expression"),
        (("find-hanging", "--topic", "no-such-topic"), "Topic 'no-such-topic' does not exist"),
    ],
)
def test_errors_are_reported_in_one_line(at: tuple[str, str], words: tuple[str, ...], said: str) -> None:
    assert said in refused("txn", *words, *at)
