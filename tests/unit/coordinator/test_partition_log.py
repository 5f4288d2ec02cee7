"""Groups on a real log with an in-memory disk: acknowledged commits survive a power failure."""

from typing import Any

import pytest

from penstock.coordinator.decision import InTransaction, TransactionEnd
from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.coordinator.partition_log import PartitionLog
from penstock.groups.commands import OffsetCommit, OffsetFetch, OffsetToCommit, TxnOffsetCommit
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.model.errors import InvalidProducerEpoch, InvalidTxnState
from penstock.model.ids import NodeId
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.replication.partition import Partition
from penstock_sim.disk import SimDisk
from tests.unit.coordinator.fakes import FakeClock, runtime
from tests.unit.storage.support import TOPIC_ID, open_log

PRODUCER = 7


class Node:
    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.clock = FakeClock()
        self.partition = Partition(CONSUMER_OFFSETS, TOPIC_ID, 0, NodeId(0), open_log(disk))
        # As the store does for a folder that it creates.
        for folder in ("/", "/data"):
            disk.sync_folder(folder)
        self.coordinator = runtime(lambda: GroupShard(GroupSettings()), self.clock)

    async def lead(self) -> None:
        self.coordinator.lead(0, PartitionLog(self.partition, self.clock, lambda: 5_000))
        await self.coordinator.partition_loaded(0)

    def commit(self, offset: int, partition: int = 0) -> Any:
        offsets = (OffsetToCommit(topic="orders", partition=partition, offset=offset, metadata="note" * 20),)
        return self.coordinator.submit_to(0, OffsetCommit(group_id="g", offsets=offsets))

    def stage(self, offset: int, *, epoch: int = 0, verified: bool = True) -> Any:
        """Commit in a transaction as the handler does."""
        verification = self.coordinator.begin_verification(0, PRODUCER, epoch)
        transaction = InTransaction(PRODUCER, epoch, (verification or False) if verified else False)
        offsets = (OffsetToCommit(topic="orders", partition=0, offset=offset),)
        return self.coordinator.submit_to(0, TxnOffsetCommit(group_id="g", transaction=transaction, offsets=offsets))

    def end(self, epoch: int, *, is_commit: bool = True, transaction_version: int = 2) -> Any:
        end = TransactionEnd(
            producer_id=PRODUCER,
            producer_epoch=epoch,
            is_commit=is_commit,
            coordinator_epoch=0,
            transaction_version=transaction_version,
        )
        return self.coordinator.end_transaction(0, end)

    async def committed(self) -> dict[int, int]:
        reply = await self.coordinator.submit_to(0, OffsetFetch(group_id="g"))
        return {index: value.offset for _, found in reply.topics for index, value in found}

    def finish_syncs(self) -> None:
        while self.disk.finish_sync():
            pass


async def test_a_commit_is_acknowledged_when_it_is_durable_and_then_survives_a_power_failure() -> None:
    disk = SimDisk(syncs_at_once=False)
    node = Node(disk)
    await node.lead()
    reply = node.commit(1)
    assert not reply.done()
    node.finish_syncs()
    assert (await reply).errors == (0,)
    unacknowledged = node.commit(2)
    assert not unacknowledged.done()
    disk.crash(kept=0.0)
    again = Node(disk)
    await again.lead()
    again.finish_syncs()
    assert await again.committed() == {0: 1}


async def test_a_log_of_many_segments_is_loaded_whole() -> None:
    disk = SimDisk()
    node = Node(disk)
    await node.lead()
    for offset in range(300):
        assert (await node.commit(offset, partition=offset % 7)).errors == (0,)
    expected = await node.committed()
    node.partition.log.close()
    again = Node(disk)
    await again.lead()
    assert await again.committed() == expected == {index: max(range(index, 300, 7)) for index in range(7)}


async def test_a_commit_that_never_becomes_durable_fails() -> None:
    node = Node(SimDisk(syncs_at_once=False))
    await node.lead()
    reply = node.commit(1)
    node.clock.advance(6)
    node.partition.waiters.expire_produces(node.clock.monotonic())
    with pytest.raises(CoordinatorNotAvailable):
        await reply


# -- transactions --------------------------------------------------------------------------


async def test_markers_decide_about_transactional_offsets_after_a_restart_too() -> None:
    disk = SimDisk()
    node = Node(disk)
    await node.lead()
    for offset, is_commit in ((1, True), (2, False), (3, True)):
        assert (await node.stage(offset, epoch=offset)).errors == (0,)
        assert (await node.stage(offset * 10, epoch=offset)).errors == (0,)
        assert node.coordinator.begin_verification(0, PRODUCER, offset) is None
        await node.end(offset + 1, is_commit=is_commit)
        await node.end(offset + 1, is_commit=is_commit)
    assert await node.committed() == {0: 30}
    await node.stage(4, epoch=4)
    assert node.partition.last_stable_offset < node.partition.high_watermark
    node.partition.log.close()
    again = Node(disk)
    await again.lead()
    assert await again.committed() == {0: 30}
    assert (await again.stage(5, epoch=4)).errors == (0,)
    await again.end(5)
    assert await again.committed() == {0: 5}
    assert again.partition.last_stable_offset == again.partition.high_watermark


async def test_offsets_become_visible_when_the_marker_is_durable() -> None:
    disk = SimDisk(syncs_at_once=False)
    node = Node(disk)
    await node.lead()
    staged, ended = node.stage(1), node.end(1)
    fetched = node.coordinator.submit_to(0, OffsetFetch(group_id="g"))
    assert not staged.done() and not ended.done() and not fetched.done()
    node.finish_syncs()
    assert (await staged).errors == (0,)
    await ended
    assert [name for name, _ in (await fetched).topics] == ["orders"]


async def test_an_unverified_commit_is_not_written() -> None:
    node = Node(SimDisk())
    await node.lead()
    with pytest.raises(InvalidTxnState):
        await node.stage(1, verified=False)
    assert node.partition.log.end_offset == 0


async def test_a_commit_verified_before_the_marker_is_not_written_after_it() -> None:
    node = Node(SimDisk())
    await node.lead()
    verification = node.coordinator.begin_verification(0, PRODUCER, 0)
    assert verification is not None
    await node.stage(1)
    # Before version 2 all transactions of a producer have the same epoch, so the commit may belong to any of them.
    await node.end(0, transaction_version=1)
    late = TxnOffsetCommit(
        group_id="g",
        transaction=InTransaction(PRODUCER, 0, verification),
        offsets=(OffsetToCommit(topic="orders", partition=0, offset=9),),
    )
    with pytest.raises(InvalidTxnState):
        await node.coordinator.submit_to(0, late)
    assert await node.committed() == {0: 1}


async def test_a_commit_of_the_next_transaction_is_accepted_after_the_previous_marker() -> None:
    node = Node(SimDisk())
    await node.lead()
    await node.stage(1)
    verification = node.coordinator.begin_verification(0, PRODUCER, 1)
    assert verification is not None
    await node.end(1)
    early = TxnOffsetCommit(
        group_id="g",
        transaction=InTransaction(PRODUCER, 1, verification),
        offsets=(OffsetToCommit(topic="orders", partition=0, offset=9),),
    )
    await node.coordinator.submit_to(0, early)
    assert await node.committed() == {0: 1}
    await node.end(2)
    assert await node.committed() == {0: 9}


async def test_a_fenced_producer_can_neither_commit_nor_end_anything() -> None:
    node = Node(SimDisk())
    await node.lead()
    await node.stage(1, epoch=3)
    await node.end(4, is_commit=False)
    with pytest.raises(InvalidProducerEpoch):
        await node.stage(2, epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        await node.end(3)
    assert await node.committed() == {}
