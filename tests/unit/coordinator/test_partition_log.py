"""Groups on a real log over the disk in memory: acknowledged commits survive a power failure."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.coordinator.partition_log import PartitionLog
from penstock.coordinator.runtime import Coordinator
from penstock.groups.commands import OffsetCommit, OffsetFetch, OffsetToCommit
from penstock.groups.records import GroupRecord
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.model.ids import NodeId
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.replication.partition import Partition
from penstock.sim.disk import SimDisk
from tests.unit.coordinator.fakes import FakeClock
from tests.unit.storage.support import TOPIC_ID, open_log


class Node:
    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.clock = FakeClock()
        self.partition = Partition(CONSUMER_OFFSETS, TOPIC_ID, 0, NodeId(0), open_log(disk))
        # As the store does for a folder that it makes.
        for folder in ("/", "/data"):
            disk.sync_folder(folder)
        make_shard: Callable[[int], GroupShard] = lambda index: GroupShard(GroupSettings())  # noqa: E731
        self.coordinator: Coordinator[GroupRecord] = Coordinator(make_shard, self.clock)

    async def lead(self) -> None:
        self.coordinator.lead(0, PartitionLog(self.partition, self.clock, lambda: 5_000))
        await self.coordinator.loaded(0)

    def commit(self, offset: int, partition: int = 0) -> Any:
        offsets = (OffsetToCommit(topic="orders", partition=partition, offset=offset, metadata="note" * 20),)
        return self.coordinator.submit(0, OffsetCommit(group_id="g", offsets=offsets))

    async def committed(self) -> dict[int, int]:
        reply = await self.coordinator.run(0, OffsetFetch(group_id="g"))
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


async def test_a_commit_that_never_becomes_durable_is_told_so() -> None:
    node = Node(SimDisk(syncs_at_once=False))
    await node.lead()
    reply = node.commit(1)
    node.clock.advance(6)
    node.partition.expire_produces(node.clock.monotonic())
    with pytest.raises(CoordinatorNotAvailable):
        await reply
