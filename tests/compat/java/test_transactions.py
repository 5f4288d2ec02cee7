"""Tests of the Java client's transactions, with transaction version 2, and of kafka-transactions."""

from __future__ import annotations

import pytest

from tests.compat.conftest import BrokerUnderTest, MakeTopic
from tests.support.eventually import eventually
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


@pytest.mark.parametrize("check", [("outcomes",), ("many", "100"), ("fencing",), ("late",)], ids=lambda check: check[0])
def test_transactions_of_the_java_client(
    tools: JavaTools, bootstrap: str, make_topic: MakeTopic, check: tuple[str, ...]
) -> None:
    topic = make_topic(partitions=2)
    tools.check("TransactionCheck", check[0], bootstrap, topic, f"id-of-{topic}", *check[1:])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_records_are_copied_to_another_topic_exactly_once(
    tools: JavaTools, bootstrap: str, make_topic: MakeTopic, protocol: str
) -> None:
    source, target = make_topic(partitions=2), make_topic()
    tools.check("TransactionCheck", "transform", bootstrap, source, f"id-of-{source}", target, protocol)


def rows(tools: JavaTools, bootstrap: str, *arguments: str) -> list[dict[str, str]]:
    """Return a table of kafka-transactions by column name."""
    lines = tools.check(TRANSACTIONS, "--bootstrap-server", bootstrap, *arguments).splitlines()
    head, *body = [[cell.strip() for cell in line.split("\t")] for line in lines if line.strip()]
    return [dict(zip(head, line, strict=True)) for line in body]


def test_kafka_transactions_lists_and_aborts_an_abandoned_transaction(
    tools: JavaTools, bootstrap: str, make_topic: MakeTopic, broker_under_test: BrokerUnderTest
) -> None:
    topic = make_topic(partitions=2)
    name = f"id-of-{topic}"
    tools.check("TransactionCheck", "leave", bootstrap, topic, name, "600000")
    listed = {row["TransactionalId"]: row["TransactionState"] for row in rows(tools, bootstrap, "list")}
    assert listed[name] == "Ongoing"
    matching = rows(tools, bootstrap, "list", "--transactional-id-pattern", f"{name}.*")
    assert [row["TransactionalId"] for row in matching] == [name]
    (described,) = rows(tools, bootstrap, "describe", "--transactional-id", name)
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Ongoing", f"{topic}-0")
    assert described["TransactionTimeoutMs"] == "600000"
    where = ("--topic", topic, "--partition", "0")
    (producer,) = rows(tools, bootstrap, "describe-producers", *where)
    assert (producer["ProducerId"], producer["CurrentTransactionStartOffset"]) == (described["ProducerId"], "0")
    # Its coordinator knows it, so it is not hanging.
    broker_id = described["CoordinatorId"]
    assert rows(tools, bootstrap, "find-hanging", "--broker-id", broker_id, "--max-transaction-timeout", "0") == []
    tools.check(TRANSACTIONS, "--bootstrap-server", bootstrap, "abort", *where, "--start-offset", "0")
    (producer,) = rows(tools, bootstrap, "describe-producers", *where)
    assert producer["CurrentTransactionStartOffset"] == "None"
    tools.check(TRANSACTIONS, "--bootstrap-server", bootstrap, "forceTerminateTransaction", "--transactionalId", name)
    eventually(
        lambda: rows(tools, bootstrap, "describe", "--transactional-id", name)[0]["TransactionState"] != "Ongoing"
    )
