"""AddOffsetsToTxn through its handler."""

from typing import Any

import pytest
from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest

from penstock.handlers import (
    add_offsets_to_txn,
)
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.transactions import commands
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import topic_partition


async def test_adding_offsets_adds_the_partition_of_the_group() -> None:
    node = FakeNode()
    node.transactions.replies[commands.AddPartitions] = 0
    body: Any = AddOffsetsToTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, group_id="g")  # type: ignore[arg-type]
    for version in range(5):
        reply = await node.ask(add_offsets_to_txn.handle, ApiKey.ADD_OFFSETS_TO_TXN, body, version=version)
        assert reply.error_code == 0
    # The hash of "g" in Java is 103.
    assert node.transactions.commands[0].partitions == frozenset({topic_partition(CONSUMER_OFFSETS, 103 % 50)})
    node.transactions.replies[commands.AddPartitions] = 51
    assert (await node.ask(add_offsets_to_txn.handle, ApiKey.ADD_OFFSETS_TO_TXN, body)).error_code == 51


async def test_offsets_cannot_be_added_without_an_offsets_topic() -> None:
    node = FakeNode({"offsets.topic.replication.factor": "3"})
    body: Any = AddOffsetsToTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, group_id="g")  # type: ignore[arg-type]
    assert (await node.ask(add_offsets_to_txn.handle, ApiKey.ADD_OFFSETS_TO_TXN, body)).error_code == 15


@pytest.mark.parametrize(("version", "code"), [(0, 47), (1, 47), (2, 90), (4, 90)])
async def test_a_fenced_producer_gets_the_error_of_its_version(version: int, code: int) -> None:
    node = FakeNode()
    node.transactions.replies[commands.AddPartitions] = 90
    body: Any = AddOffsetsToTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=3, group_id="g")  # type: ignore[arg-type]
    reply = await node.ask(add_offsets_to_txn.handle, ApiKey.ADD_OFFSETS_TO_TXN, body, version=version)
    assert reply.error_code == code
