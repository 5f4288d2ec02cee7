"""DescribeTransactions through its handler."""

from datetime import timedelta
from typing import Any

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest

from penstock.coordinator.errors import NotCoordinator
from penstock.handlers import (
    describe_transactions,
)
from penstock.transactions import commands
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import topic_partition


async def test_transactions_are_described() -> None:
    node = FakeNode()
    node.transactions.replies[commands.DescribeTransaction] = commands.DescribedTransaction(
        transactional_id="tx",
        state="Ongoing",
        timeout_ms=60_000,
        start_ms=1_000,
        producer_id=7,
        epoch=3,
        partitions=(topic_partition("t", 0), topic_partition("t", 2), topic_partition("u", 1)),
    )
    body: Any = DescribeTransactionsRequest(transactional_ids=("tx",))  # type: ignore[arg-type]
    (found,) = (await node.ask(describe_transactions.handle, ApiKey.DESCRIBE_TRANSACTIONS, body)).transaction_states
    assert (found.error_code, found.transaction_state, found.producer_id, found.producer_epoch) == (0, "Ongoing", 7, 3)
    assert found.transaction_start_time.timestamp() == 1.0
    assert found.transaction_timeout == timedelta(minutes=1)
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("t", (0, 2)), ("u", (1,))]
    node.transactions.replies[commands.DescribeTransaction] = NotCoordinator()
    (found,) = (await node.ask(describe_transactions.handle, ApiKey.DESCRIBE_TRANSACTIONS, body)).transaction_states
    assert (found.error_code, found.transactional_id) == (16, "tx")
    assert found.transaction_start_time.timestamp() == 0
