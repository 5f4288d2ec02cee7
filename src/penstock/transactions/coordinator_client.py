"""Requests to a transaction's coordinator, on this or another node, before records are written (KIP-890).

A write names its transactional id; the coordinator adds the partitions to the transaction or verifies that they are
in it. Calls service.py, or through `Peers` handlers/add_partitions_to_txn.py on the coordinator's node.
Refuses: CoordinatorNotAvailable when that node cannot be reached; clients retry.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from penstock.client.interfaces import Peers, PeerUnavailable
from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.coordinator.keys import partition_of
from penstock.metadata.image import Image
from penstock.model.ids import NO_NODE, NodeId, TopicPartition
from penstock.model.topic import TRANSACTION_STATE
from penstock.transactions.commands import AddPartitions, VerifyPartitions
from penstock.transactions.service import Transactions
from penstock.wire.api import ApiKey

TIMEOUT_S: Final = 10.0
PURPOSE: Final = "verification"

Command = AddPartitions | VerifyPartitions


class TransactionCoordinators:
    def __init__(self, *, node_id: NodeId, image: Callable[[], Image], peers: Peers, here: Transactions) -> None:
        self._node_id = node_id
        self._image = image
        self._peers = peers
        self._here = here

    def submit(self, command: Command) -> "asyncio.Future[Any]":
        """Submit a command; the future has one code for AddPartitions, one per partition for VerifyPartitions."""
        leader = self._coordinator(command.transactional_id)
        if leader in (self._node_id, NO_NODE):
            return self._here.submit(command.transactional_id, command)
        return asyncio.ensure_future(self._ask(leader, command))

    async def add_partitions(self, command: AddPartitions) -> int:
        """Return the code; waits briefly if the previous transaction is still ending."""
        leader = self._coordinator(command.transactional_id)
        if leader in (self._node_id, NO_NODE):
            return await self._here.add_partitions(command)
        code: int = await self._ask(leader, command)
        return code

    def _coordinator(self, transactional_id: str) -> NodeId:
        topic = self._image().topics.get(TRANSACTION_STATE)
        if topic is None:
            return NO_NODE
        return topic.partitions[partition_of(transactional_id, len(topic.partitions))].leader

    async def _ask(self, leader: NodeId, command: Command) -> Any:
        partitions = tuple(sorted(command.partitions)) if isinstance(command, AddPartitions) else command.partitions
        try:
            answer = await self._peers.ask(
                leader,
                ApiKey.ADD_PARTITIONS_TO_TXN,
                _request(command, partitions),
                timeout_s=TIMEOUT_S,
                purpose=PURPOSE,
            )
        except PeerUnavailable:
            raise CoordinatorNotAvailable from None
        if answer.error_code.value:
            raise CoordinatorNotAvailable
        codes = {
            (str(topic.name), int(each.partition_index)): each.partition_error_code.value
            for topic in answer.results_by_transaction[0].topic_results
            for each in topic.results_by_partition
        }
        answered = tuple(
            codes.get((partition.topic, partition.partition), CoordinatorNotAvailable.code) for partition in partitions
        )
        if isinstance(command, VerifyPartitions):
            return answered
        return next((code for code in answered if code), 0)


def _request(command: Command, partitions: tuple[TopicPartition, ...]) -> Any:
    from kio.schema.add_partitions_to_txn.v5.request import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )

    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    return AddPartitionsToTxnRequest(
        transactions=(
            AddPartitionsToTxnTransaction(
                transactional_id=cast(Any, command.transactional_id),
                producer_id=cast(Any, command.producer_id),
                producer_epoch=cast(Any, command.epoch),
                verify_only=isinstance(command, VerifyPartitions),
                topics=tuple(
                    AddPartitionsToTxnTopic(name=cast(Any, name), partitions=cast(Any, tuple(indexes)))
                    for name, indexes in by_topic.items()
                ),
            ),
        )
    )
