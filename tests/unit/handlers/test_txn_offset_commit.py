"""TxnOffsetCommit between the wire and the two coordinators, and OffsetFetch of unstable offsets."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.offset_fetch.v10.request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from penstock.coordinator.decision import InTransaction
from penstock.coordinator.errors import CoordinatorLoadInProgress, NotCoordinator
from penstock.groups.commands import (
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetToCommit,
    TxnOffsetCommit,
)
from penstock.groups.records import OffsetCommitValue
from penstock.handlers import offset_fetch, txn_offset_commit
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.model.errors import InvalidProducerEpoch, InvalidTxnState, ProducerFenced, Refusal
from penstock.model.ids import PartitionIndex, TopicPartition
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.storage.verification_guard import VerificationGuard
from penstock.transactions.commands import AddPartitions, VerifyPartitions
from penstock.transactions.errors import ConcurrentTransactions, TransactionAbortable
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeGroups, FakeNode

ORDERS_ID = UUID(int=7)
PLACE = TopicPartition(CONSUMER_OFFSETS, PartitionIndex(4))
VERIFICATION = VerificationGuard(3, -1, starts_at_zero=False)
UNKNOWN_TOPIC_OR_PARTITION, INVALID_GROUP_ID, UNSTABLE_OFFSET_COMMIT = 3, 24, 88


class Groups(FakeGroups):
    """One group, whose partition is the fourth."""

    def __init__(self) -> None:
        super().__init__()
        self.replies[TxnOffsetCommit] = OffsetCommitReply((0,))
        self.verification: VerificationGuard | None = VERIFICATION
        self.refusal: Refusal | None = None

    def begin_verification(self, group_id: str, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        assert (group_id, producer_id, producer_epoch) == ("g", 9, 3)
        if self.refusal is not None:
            raise self.refusal
        return self.verification

    def offsets_partition(self, group_id: str) -> TopicPartition:
        return PLACE


@pytest.fixture
def groups() -> Groups:
    return Groups()


@pytest.fixture
def node(groups: Groups) -> FakeNode:
    node = FakeNode()
    node.context.groups = groups  # type: ignore[assignment]
    node.transactions.replies = {AddPartitions: 0, VerifyPartitions: (0,)}
    node.quorum.put(
        [
            TopicRecord(name="orders", topic_id=ORDERS_ID),
            *(
                PartitionRecord(
                    partition_id=index, topic_id=ORDERS_ID, replicas=(1,), isr=(1,), leader=1, leader_epoch=0,
                    partition_epoch=0,
                )
                for index in range(2)
            ),
        ]
    )  # fmt: skip
    return node


async def commit(
    node: FakeNode, *committed: tuple[str, int], version: int = 5, group_id: str = "g", **more: Any
) -> dict[str, dict[int, int]]:
    partitions: dict[str, list[Any]] = {}
    for name, index in committed or (("orders", 1),):
        partition: Any = TxnOffsetCommitRequestPartition
        partitions.setdefault(name, []).append(
            partition(partition_index=index, committed_offset=40, committed_leader_epoch=2, committed_metadata="note")
        )
    topic: Any = TxnOffsetCommitRequestTopic
    fields: dict[str, Any] = {"transactional_id": "t", "group_id": group_id, "producer_id": 9, "producer_epoch": 3}
    if version >= 3:
        fields |= {"generation_id": 5, "member_id": "m", "group_instance_id": "i"}
    body = TxnOffsetCommitRequest(
        **(fields | more), topics=tuple(topic(name=name, partitions=tuple(each)) for name, each in partitions.items())
    )
    reply = await node.ask(txn_offset_commit.handle, ApiKey.TXN_OFFSET_COMMIT, body, version=version)
    return {
        topic.name: {each.partition_index: int(each.error_code) for each in topic.partitions} for topic in reply.topics
    }


async def test_version_5_adds_the_partition_of_the_group_and_then_commits(node: FakeNode, groups: Groups) -> None:
    assert await commit(node) == {"orders": {1: 0}}
    assert node.transactions.commands == [
        AddPartitions(transactional_id="t", producer_id=9, epoch=3, partitions=frozenset({PLACE}), client_version=2)
    ]
    assert groups.commands == [
        TxnOffsetCommit(
            group_id="g",
            transaction=InTransaction(9, 3, VERIFICATION),
            generation=5,
            member_id="m",
            instance_id="i",
            offsets=(
                OffsetToCommit(
                    topic="orders", topic_id=ORDERS_ID, partition=1, offset=40, leader_epoch=2, metadata="note"
                ),
            ),
        )
    ]


@pytest.mark.parametrize("version", range(5))
async def test_earlier_versions_verify_that_the_partition_was_added(
    node: FakeNode, groups: Groups, version: int
) -> None:
    assert await commit(node, version=version) == {"orders": {1: 0}}
    assert node.transactions.commands == [
        VerifyPartitions(transactional_id="t", producer_id=9, epoch=3, partitions=(PLACE,))
    ]
    (command,) = groups.commands
    assert command.transaction == InTransaction(9, 3, VERIFICATION)
    assert command.offsets[0].leader_epoch == (2 if version >= 2 else -1)
    expected = (5, "m", "i") if version >= 3 else (-1, "", None)
    assert (command.generation, command.member_id, command.instance_id) == expected


@pytest.mark.parametrize("version", [0, 4, 5])
async def test_a_transaction_that_is_open_in_the_partition_is_not_verified(
    node: FakeNode, groups: Groups, version: int
) -> None:
    groups.verification = None
    assert await commit(node, version=version) == {"orders": {1: 0}}
    assert node.transactions.commands == []
    assert groups.commands[0].transaction == InTransaction(9, 3, False)


async def test_verification_can_be_disabled_for_the_old_protocol(groups: Groups, node: FakeNode) -> None:
    node.context.settings = FakeNode({"transaction.partition.verification.enable": "false"}).context.settings
    assert await commit(node, version=4) == {"orders": {1: 0}}
    assert node.transactions.commands == []
    await commit(node, version=5)
    assert len(node.transactions.commands) == 1


@pytest.mark.parametrize(
    ("version", "error", "returned"),
    [
        (3, TransactionAbortable.code, InvalidTxnState.code),
        (4, TransactionAbortable.code, TransactionAbortable.code),
        (4, ProducerFenced.code, InvalidProducerEpoch.code),
        (5, ProducerFenced.code, InvalidProducerEpoch.code),
        (5, ConcurrentTransactions.code, ConcurrentTransactions.code),
    ],
)
async def test_offsets_are_not_written_if_the_transaction_coordinator_refuses(
    node: FakeNode, groups: Groups, version: int, error: int, returned: int
) -> None:
    node.transactions.replies = {AddPartitions: error, VerifyPartitions: (error,)}
    assert await commit(node, ("orders", 0), ("orders", 1), version=version) == {"orders": {0: returned, 1: returned}}
    assert groups.commands == []


async def test_a_transaction_coordinator_on_another_node_is_an_error(node: FakeNode, groups: Groups) -> None:
    node.transactions.replies = {AddPartitions: NotCoordinator()}
    assert await commit(node) == {"orders": {1: NotCoordinator.code}}
    assert groups.commands == []


@pytest.mark.parametrize(("version", "returned"), [(1, 15), (2, 14), (5, 14)])
async def test_old_producers_do_not_get_the_loading_error(
    node: FakeNode, groups: Groups, version: int, returned: int
) -> None:
    groups.refusal = CoordinatorLoadInProgress()
    assert await commit(node, version=version) == {"orders": {1: returned}}
    assert node.transactions.commands == []


async def test_the_log_refuses_a_batch_that_arrives_too_late(node: FakeNode, groups: Groups) -> None:
    groups.replies[TxnOffsetCommit] = InvalidTxnState()
    assert await commit(node) == {"orders": {1: InvalidTxnState.code}}


async def test_the_empty_group_id_is_invalid(node: FakeNode, groups: Groups) -> None:
    assert await commit(node, group_id="") == {"orders": {1: INVALID_GROUP_ID}}
    assert node.transactions.commands == groups.commands == []


async def test_only_partitions_that_do_not_exist_are_refused(node: FakeNode, groups: Groups) -> None:
    unknown = UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(node, ("orders", 2), ("orders", 0), ("nope", 0)) == {
        "orders": {2: unknown, 0: 0},
        "nope": {0: unknown},
    }
    groups.commands.clear()
    assert await commit(node, ("nope", 0)) == {"nope": {0: unknown}}
    assert groups.commands == []


# -- OffsetFetch ---------------------------------------------------------------------------


@pytest.mark.parametrize("require_stable", [True, False])
async def test_unstable_offsets_are_refused_one_by_one(node: FakeNode, groups: Groups, require_stable: bool) -> None:
    value = OffsetCommitValue(offset=4, metadata="note", commit_timestamp=0, topic_id=ORDERS_ID)
    groups.replies[OffsetFetch] = OffsetFetchReply(
        topics=(("orders", ((0, value), (1, value))),), unstable=frozenset({("orders", 1)})
    )
    topic: Any = OffsetFetchRequestTopics
    group: Any = OffsetFetchRequestGroup
    body = OffsetFetchRequest(
        groups=(group(group_id="g", topics=(topic(topic_id=ORDERS_ID, partition_indexes=(0, 1)),)),),
        require_stable=require_stable,
    )
    reply = await node.ask(offset_fetch.handle, ApiKey.OFFSET_FETCH, body)
    assert groups.commands[0].require_stable is require_stable
    assert [
        (each.partition_index, int(each.error_code), each.committed_offset, each.metadata)
        for each in reply.groups[0].topics[0].partitions
    ] == [(0, 0, 4, "note"), (1, UNSTABLE_OFFSET_COMMIT, -1, "")]
