"""The partitions of one node that has no other replicas: opening, failing and deleting their logs."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random
from unittest import mock
from uuid import UUID

import pytest

from penstock.config.settings import BrokerSettings
from penstock.metadata.delta import Builder
from penstock.metadata.image import EMPTY
from penstock.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.model.errors import NotLeaderOrFollower, StorageError, UnknownTopicOrPartition
from penstock.model.ids import LeaderEpoch, NodeId, Offset, TopicName, TopicPartition
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.replication.partition import ALL_REPLICAS
from penstock.replication.replicas import (
    CHORES_PER_SLICE,
    REOPEN_S,
    REOPEN_S_MAX,
    SLICE_S,
    SWEEP_S,
    UNREADABLE_S,
    Replicas,
)
from penstock.replication.waiting import WaitingProduce
from penstock.storage.store import LogStore
from penstock.wire.records import Record, encode_batch
from penstock_sim.disk import SimDisk
from tests.support.stepped_clock import SteppedClock

ME, OTHER = NodeId(1), NodeId(2)
ORDERS = TopicName("orders")
FIRST, SECOND = UUID(int=42), UUID(int=43)


class Ids:
    def __init__(self) -> None:
        self._random = Random(1)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(127) + 3)

    def stream(self, name: str) -> Random:
        return Random(name)


class OneNode:
    """Replicas without peers on an in-memory disk, and the metadata that they follow."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.clock = SteppedClock()
        self._image = EMPTY
        self._count = 0
        self.late: list[tuple[str, int]] = []
        self.start()

    def start(self) -> None:
        self.store = LogStore.load(
            self.disk, "/data", cluster_id=None, node_id=ME, clock=self.clock, entropy=Ids(), journal_group_least=8
        )
        settings = BrokerSettings({})
        self.replicas = Replicas(ME, self.store, self.clock, lambda: settings)
        self.replicas.on_late_open.append(lambda name, index: self.late.append((name, index)))
        self.replicas.start()

    def stop(self) -> None:
        self.replicas.stop()
        self.store.close()

    def publish(self, *records: MetadataRecord) -> None:
        builder = Builder(self._image)
        for record in records:
            builder.replay(record)
        self._count += 1
        delta, self._image = builder.build(offset=Offset(self._count), epoch=LeaderEpoch(1))
        self.replicas.image_changed(delta, self._image)

    def publish_again(self, replicas: tuple[NodeId, ...] = (ME,)) -> None:
        """Publish the whole image, as to a node that has just started."""
        topics, self._image = self._image.topics, EMPTY
        self.publish(
            *(
                record
                for topic in topics.values()
                for record in created(topic.name, topic.id, len(topic.partitions), replicas)
            )
        )

    def append(self, name: TopicName = ORDERS, index: int = 0) -> None:
        partition = self.replicas.find(name, index)
        assert partition is not None
        sealed = encode_batch([Record(timestamp=1, value=b"v")])
        partition.append(memoryview(bytearray(sealed)), acks=ALL_REPLICAS, now_ms=1)

    def is_open(self, name: TopicName = ORDERS, index: int = 0) -> bool:
        return self.replicas.find(name, index) is not None


def created(
    name: TopicName = ORDERS, topic_id: UUID = FIRST, count: int = 1, replicas: tuple[NodeId, ...] = (ME,)
) -> list[MetadataRecord]:
    partitions = [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            removing_replicas=(),
            adding_replicas=(),
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(UUID(int=9) for _ in replicas),
        )
        for index in range(count)
    ]
    return [TopicRecord(name=name, topic_id=topic_id), *partitions]


def moved(*replicas: NodeId, topic_id: UUID = FIRST, index: int = 0) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        directories=tuple(UUID(int=9) for _ in replicas),
    )


def run(story: Callable[[OneNode], Awaitable[None]]) -> None:
    async def run_on_new_node() -> None:
        node = OneNode()
        await story(node)
        node.stop()

    asyncio.run(run_on_new_node())


def test_a_large_topic_is_opened_in_slices_and_settled_waits_for_the_last() -> None:
    async def story(node: OneNode) -> None:
        count = CHORES_PER_SLICE + 3
        node.publish(*created(count=count))
        assert node.is_open(index=CHORES_PER_SLICE - 1) and not node.is_open(index=CHORES_PER_SLICE)
        assert node.replicas.is_opening(ORDERS, count - 1)
        assert not node.replicas.is_opening(ORDERS, count), "it does not exist"
        await node.replicas.settled()
        assert node.is_open(index=count - 1)
        assert not node.replicas.is_opening(ORDERS, count - 1)

    run(story)


def test_slices_continue_on_a_timer() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created(count=2 * CHORES_PER_SLICE + 1))
        await node.clock.advance(0)
        assert node.is_open(index=2 * CHORES_PER_SLICE)

    run(story)


def test_a_request_that_waits_runs_slices_instead_of_the_timer() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created(count=3 * CHORES_PER_SLICE))
        (timer,) = (each for _, _, each in node.clock._timers if each.callback == node.replicas._run_slice)
        waiting = asyncio.ensure_future(node.replicas.settled())
        await asyncio.sleep(0)
        assert node.is_open(index=2 * CHORES_PER_SLICE - 1)
        assert timer.callback is None, "the same turn of the loop would run another slice"
        await waiting

    run(story)


def test_a_slice_ends_when_its_time_is_over() -> None:
    async def story(node: OneNode) -> None:
        opened = node.store.opening

        def open_slowly(*given: object) -> object:
            node.clock.skip(SLICE_S)
            return opened(*given)  # type: ignore[arg-type]

        node.store.opening = open_slowly  # type: ignore[method-assign, assignment]
        node.publish(*created(count=2))
        assert node.is_open(index=0) and not node.is_open(index=1)
        await node.clock.advance(0)
        assert node.is_open(index=1)

    run(story)


def test_a_log_that_fails_unexpectedly_does_not_keep_the_others_from_being_opened() -> None:
    async def story(node: OneNode) -> None:
        failing, opened = CHORES_PER_SLICE, node.store.opening

        def open_or_fail(topic_partition: TopicPartition, *given: object) -> object:
            assert topic_partition.partition != failing, "a bug"
            return opened(topic_partition, *given)  # type: ignore[arg-type]

        node.store.opening = open_or_fail  # type: ignore[method-assign, assignment]
        node.publish(*created(count=CHORES_PER_SLICE + 2))
        with pytest.raises(AssertionError, match="a bug"):
            await node.clock.advance(0)
        await node.clock.advance(0)
        assert node.is_open(index=failing + 1)

    run(story)


def test_late_opens_of_internal_topics_are_reported_to_subscribers() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created(CONSUMER_OFFSETS, count=CHORES_PER_SLICE + 1))
        assert node.late == [], "subscribers of the image find those that are open by then"
        await node.clock.advance(0)
        assert node.late == [(CONSUMER_OFFSETS, CHORES_PER_SLICE)]

    run(story)


def test_a_late_open_is_reported_although_another_image_arrives_first() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created(CONSUMER_OFFSETS, count=CHORES_PER_SLICE + 1))
        node.publish(*created(ORDERS, SECOND))
        assert node.is_open(CONSUMER_OFFSETS, CHORES_PER_SLICE)
        assert node.late == [], "subscribers have not seen this image yet"
        await node.clock.advance(0)
        assert node.late == [(CONSUMER_OFFSETS, CHORES_PER_SLICE)]

    run(story)


def test_a_topic_that_is_deleted_before_its_logs_are_opened_leaves_no_files() -> None:
    async def story(node: OneNode) -> None:
        last = CHORES_PER_SLICE
        node.publish(*created(count=last + 1))
        node.publish(RemoveTopicRecord(topic_id=FIRST))
        await node.replicas.settled()
        assert not any(name.startswith("orders-") and name.count("-") == 1 for name in node.disk.list("/data"))
        assert not any(True for _ in node.replicas.all())

    run(story)


def test_waiting_produces_are_answered_when_their_topic_is_deleted_or_moves_away() -> None:
    async def story(node: OneNode) -> None:
        codes: list[int] = []
        for change, expected in (
            (RemoveTopicRecord(topic_id=FIRST), UnknownTopicOrPartition.code),
            (moved(OTHER, topic_id=SECOND), NotLeaderOrFollower.code),
        ):
            topic_id = FIRST if expected == UnknownTopicOrPartition.code else SECOND
            node.publish(*created(topic_id=topic_id))
            partition = node.replicas.find(ORDERS, 0)
            assert partition is not None
            partition.wait_durable(WaitingProduce(1, node.clock.monotonic() + 1000, codes.append))
            node.publish(change)
            assert codes.pop() == expected
            assert not node.is_open() and node.store.get(partition.log.topic_partition) is None
            assert not node.replicas.by_id and not node.replicas.by_name

    run(story)


def test_a_replica_that_returns_before_its_removal_has_begun_keeps_its_records() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created())
        node.append()
        many = created(TopicName("others"), SECOND, CHORES_PER_SLICE)
        # The creation of the other topic comes first and fills the slice.
        node.publish(*many, moved(OTHER))
        assert node.is_open()
        node.publish(moved(ME))
        await node.replicas.settled()
        partition = node.replicas.find(ORDERS, 0)
        assert partition is not None and partition.log.end_offset == 1

    run(story)


def test_a_topic_of_which_one_partition_arrives_while_the_only_other_one_leaves_is_found() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created(count=2), moved(OTHER, index=1))
        assert node.is_open() and not node.is_open(index=1)
        node.publish(moved(OTHER), moved(ME, index=1))
        await node.replicas.settled()
        assert node.is_open(index=1) and not node.is_open()
        node.publish(moved(OTHER, index=1))
        await node.replicas.settled()
        assert not node.replicas.by_id and not node.replicas.by_name
        assert not node.disk.exists("/data/orders-0") and not node.disk.exists("/data/orders-1")

    run(story)


def test_a_replica_that_leaves_and_returns_before_its_log_is_opened_is_opened_once() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created(count=2), moved(OTHER, index=1))
        # The other topic fills the first slice, and the second except for the removal of partition 0.
        others = created(TopicName("others"), SECOND, 2 * CHORES_PER_SLICE - 1)
        node.publish(*others, moved(OTHER), moved(ME, index=1))
        node.publish(moved(OTHER, index=1))
        assert FIRST.bytes not in node.replicas.by_id
        node.disk.failing = {"make_folder": errno.EMFILE}
        node.publish(moved(ME, index=1))
        node.publish(moved(OTHER, index=1))
        await node.replicas.settled()
        assert not node.replicas._unopened
        node.disk.failing = {}

    run(story)


def test_a_topic_that_is_created_again_under_its_name_is_found_while_the_old_one_is_removed() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created())
        node.append()
        node.publish(RemoveTopicRecord(topic_id=FIRST), *created(topic_id=SECOND))
        assert node.replicas.by_name[b"orders"].id == SECOND
        assert list(node.replicas.by_id) == [SECOND.bytes]
        partition = node.replicas.find(ORDERS, 0)
        assert partition is not None and partition.log.end_offset == 0

    run(story)


def test_the_deletion_of_a_topic_without_replicas_here_changes_nothing() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created(), *created(TopicName("elsewhere"), SECOND, replicas=(OTHER,)))
        node.publish(RemoveTopicRecord(topic_id=SECOND))
        assert node.is_open()
        assert list(node.replicas.by_id) == [FIRST.bytes]

    run(story)


def test_totals_of_a_topic_never_decrease_when_a_partition_leaves() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created(count=2))
        hosted = node.replicas.by_name[b"orders"]
        for index, partition in hosted.partitions.items():
            partition.messages_in, partition.bytes_in = 2 + index, 100
        node.publish(moved(OTHER))
        assert list(hosted.partitions) == [1]
        assert (hosted.messages_in, hosted.bytes_in) == (5, 200)
        assert hosted.drop(0) is None
        assert hosted.messages_in == 5, "a partition that has left is not counted twice"

    run(story)


def test_settings_of_a_topic_and_of_all_brokers_reach_the_open_logs() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created())
        partition = node.replicas.find(ORDERS, 0)
        assert partition is not None
        node.publish(ConfigRecord(resource_type=2, resource_name=ORDERS, name="segment.bytes", value="2000000"))
        assert partition.log.settings.segment_bytes == 2_000_000
        node.publish(ConfigRecord(resource_type=2, resource_name="unknown", name="segment.bytes", value="3000000"))
        node.publish(ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="7000"))
        assert partition.log.settings.segment_bytes == 2_000_000, "still its own"

    run(story)


def test_a_log_that_a_full_disk_refuses_is_opened_when_there_is_room() -> None:
    async def story(node: OneNode) -> None:
        node.disk.failing = {"make_folder": errno.ENOSPC}
        node.publish(*created())
        assert not node.is_open()
        assert node.store.is_read_only, "no log of the folder takes records now"
        # Nothing is tried while the folder takes no writes.
        calls = node.disk.calls
        node.replicas._sweep()
        assert not [kind for kind, _ in node.disk.trace[calls:] if kind == "make_folder"]
        node.disk.failing = {}
        await node.clock.advance(5)
        assert node.is_open()
        assert node.late == [(ORDERS, 0)]

    run(story)


def test_a_log_that_could_not_be_opened_is_found_later_although_another_partition_changes_meanwhile() -> None:
    async def story(node: OneNode) -> None:
        node.disk.failing = {"make_folder": errno.EMFILE}
        node.publish(*created(count=2), moved(OTHER, index=1))
        assert not node.is_open()
        node.publish(moved(NodeId(3), index=1))
        node.disk.failing = {}
        await node.clock.advance(2 * SWEEP_S)
        assert node.is_open()

    run(story)


def test_settled_does_not_wait_for_a_full_disk() -> None:
    async def story(node: OneNode) -> None:
        node.disk.failing = {"make_folder": errno.ENOSPC}
        node.publish(*created())
        await asyncio.wait_for(node.replicas.settled(), 10)
        assert not node.is_open()
        node.disk.failing = {}

    run(story)


def test_a_topic_that_is_deleted_while_its_log_cannot_be_opened_is_not_tried_again() -> None:
    async def story(node: OneNode) -> None:
        node.disk.failing = {"make_folder": errno.EMFILE}
        node.publish(*created())
        node.publish(RemoveTopicRecord(topic_id=FIRST))
        node.disk.failing = {}
        await node.clock.advance(2 * SWEEP_S)
        assert not node.is_open() and node.late == []
        assert not node.disk.exists("/data/orders-0")

    run(story)


def test_an_empty_log_on_a_failing_disk_is_created_later_and_never_damaged() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created())
        node.replicas.stop()
        node.disk.end_process()
        node.disk.lose("/data/orders-0/00000000000000000000.log")
        node.start()
        node.disk.failing = {"open": errno.EIO}
        node.publish_again()
        await node.clock.advance(UNREADABLE_S + 2 * SWEEP_S)
        assert not node.is_open(), "it had no records, so there is no damage to report"
        node.disk.failing = {}
        await node.clock.advance(2 * SWEEP_S)
        partition = node.replicas.find(ORDERS, 0)
        assert partition is not None and partition.log.damage is None

    run(story)


def test_an_empty_replica_that_has_left_and_returned_is_not_lost_after_a_power_failure() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created())
        node.append()
        node.publish(moved(OTHER))
        node.publish(moved(ME))
        await node.replicas.settled()
        node.replicas.stop()
        node.disk.crash(Random(1), kept=0.0)
        node.start()
        node.publish_again()
        await node.replicas.settled()
        partition = node.replicas.find(ORDERS, 0)
        assert partition is not None and partition.log.damage is None

    run(story)


async def restart_with_unreadable_log(node: OneNode, *, count: int = 1) -> "asyncio.Future[None]":
    """Fill a log, kill the node, and start it while the segment cannot be opened."""
    node.publish(*created(count=count))
    for _ in range(3):
        node.append()
    node.replicas.stop()
    node.disk.end_process()
    node.start()
    segment = "/data/orders-0/" + next(name for name in node.disk.list("/data/orders-0") if name.endswith(".log"))
    node.disk.make_unreadable(segment, -1, 0)
    node.publish_again()
    return asyncio.ensure_future(node.replicas.opened_at_start(lambda: None))


async def unreadable_after_restart(node: OneNode) -> None:
    """Wait until the log counts as damaged."""
    settled = await restart_with_unreadable_log(node)
    await node.clock.advance(UNREADABLE_S - SWEEP_S)
    assert not settled.done() and not node.is_open(), "the disk may fail for a moment"
    await node.clock.advance(2 * SWEEP_S)
    assert settled.done()


@pytest.mark.parametrize("change", [moved(OTHER), RemoveTopicRecord(topic_id=FIRST)])
def test_a_start_does_not_wait_for_an_unreadable_log_that_was_moved_or_deleted_meanwhile(
    change: MetadataRecord,
) -> None:
    async def story(node: OneNode) -> None:
        settled = await restart_with_unreadable_log(node)
        await node.clock.advance(SWEEP_S)
        assert not settled.done()
        node.publish(change)
        await node.clock.advance(2 * SWEEP_S)
        assert settled.done()
        assert not node.disk.exists("/data/orders-0")

    run(story)


def test_a_start_does_not_wait_for_an_unreadable_log_that_is_moved_after_the_other_partitions_of_its_topic() -> None:
    async def story(node: OneNode) -> None:
        settled = await restart_with_unreadable_log(node, count=2)
        await node.clock.advance(SWEEP_S)
        assert node.is_open(index=1)
        node.publish(moved(OTHER, index=1))
        assert not settled.done()
        node.publish(moved(OTHER))
        await node.clock.advance(2 * SWEEP_S)
        assert settled.done()
        assert not node.disk.exists("/data/orders-0")
        assert not node.replicas.by_id and not node.replicas.by_name

    run(story)


def test_a_start_does_not_wait_for_an_unreadable_log_that_leaves_returns_and_leaves_again() -> None:
    async def story(node: OneNode) -> None:
        settled = await restart_with_unreadable_log(node, count=2)
        await node.clock.advance(SWEEP_S)
        # The other topic fills the first slice, and the second except for the removal of partition 1.
        node.publish(*created(TopicName("others"), SECOND, 2 * CHORES_PER_SLICE - 1), moved(OTHER, index=1))
        node.publish(moved(OTHER))
        assert node.disk.exists("/data/orders-0") and not node.disk.exists("/data/orders-1")
        node.publish(moved(ME))
        node.publish(moved(OTHER))
        await node.clock.advance(2 * SWEEP_S)
        assert settled.done()
        assert not node.disk.exists("/data/orders-0")

    run(story)


def test_a_log_that_stays_unreadable_is_damaged_until_it_can_be_read_again() -> None:
    async def story(node: OneNode) -> None:
        await unreadable_after_restart(node)
        damaged = node.replicas.find(ORDERS, 0)
        assert damaged is not None and damaged.log.damage is not None
        assert node.late == [], "a damaged log is not online"
        with pytest.raises(StorageError):
            node.append()
        await node.clock.advance(REOPEN_S)
        assert node.replicas.find(ORDERS, 0) is damaged
        node.disk.read_well()
        await node.clock.advance(2 * REOPEN_S + SWEEP_S)
        partition = node.replicas.find(ORDERS, 0)
        assert partition is not None and partition is not damaged
        assert (partition.log.damage, partition.log.end_offset) == (None, 3)
        node.append()

    run(story)


def test_an_unreadable_log_is_tried_less_and_less_often() -> None:
    async def story(node: OneNode) -> None:
        await unreadable_after_restart(node)
        start = node.clock.monotonic()
        attempts: list[float] = []
        opened = node.store.opening

        def count(*given: object) -> object:
            attempts.append(node.clock.monotonic() - start)
            return opened(*given)  # type: ignore[arg-type]

        node.store.opening = count  # type: ignore[method-assign, assignment]
        await node.clock.advance(3 * REOPEN_S_MAX)
        pauses = [later - sooner for sooner, later in pairwise(attempts)]
        assert pauses[:3] == pytest.approx([2 * REOPEN_S, 4 * REOPEN_S, 8 * REOPEN_S], abs=SWEEP_S)
        assert max(pauses) <= REOPEN_S_MAX + SWEEP_S

    run(story)


def test_an_unreadable_log_is_not_tried_again_after_its_topic_is_deleted() -> None:
    async def story(node: OneNode) -> None:
        await unreadable_after_restart(node)
        node.publish(RemoveTopicRecord(topic_id=FIRST))
        node.disk.read_well()
        await node.clock.advance(2 * REOPEN_S)
        assert not node.is_open()
        assert not node.replicas._provisional

    run(story)


def test_a_partition_that_was_replaced_meanwhile_is_not_reopened() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created())
        gone = node.replicas.find(ORDERS, 0)
        assert gone is not None
        node.publish(RemoveTopicRecord(topic_id=FIRST), *created(topic_id=SECOND))
        current = node.replicas.find(ORDERS, 0)
        node.replicas.reopen(gone)
        assert node.replicas.find(ORDERS, 0) is current

    run(story)


def test_a_sweep_skips_partitions_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created(count=5))
        await node.replicas.settled()
        visited = mock.Mock()
        monkeypatch.setattr("penstock.replication.waiting.Waiters.expire_produces", visited)
        node.replicas._sweep()
        assert not visited.called
        partition = node.replicas.find(ORDERS, 3)
        assert partition is not None
        partition.wait_durable(WaitingProduce(1, node.clock.monotonic(), lambda code: None))
        node.replicas._sweep()
        assert visited.call_count == 1

    run(story)


def test_a_failed_folder_answers_waiting_produces_and_gets_no_checkpoint() -> None:
    async def story(node: OneNode) -> None:
        node.publish(*created())
        partition = node.replicas.find(ORDERS, 0)
        assert partition is not None
        codes: list[int] = []
        partition.wait_durable(WaitingProduce(1, node.clock.monotonic() + 1000, codes.append))
        node.store.directory.fail(OSError(errno.EIO, "gone"))
        node.replicas.directory_failed()
        assert codes == [StorageError.code]
        calls = node.disk.calls
        node.replicas.stop()
        assert node.disk.calls == calls

    run(story)


MANY = 2 * CHORES_PER_SLICE


def restarted(node: OneNode, *, cleanly: bool = True) -> None:
    """Restart a node with many partitions, each with a record, and publish its metadata again."""
    if cleanly:
        node.stop()
    else:
        node.replicas.stop()
        node.store.close(clean=False)
        node.disk.end_process()
    node.start()
    node.publish_again()


async def with_many_partitions(node: OneNode, *, cleanly: bool = True) -> None:
    await node.replicas.opened_at_start(lambda: None)
    node.publish(*created(count=MANY))
    await node.replicas.settled()
    for index in range(MANY):
        node.append(index=index)
    restarted(node, cleanly=cleanly)


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a start wait for no log without other replicas."""
    monkeypatch.setattr("penstock.replication.replicas.START_OPEN_S", 0.0)


@pytest.mark.usefixtures("no_patience")
def test_logs_are_opened_on_first_use_and_in_the_background_after_a_start() -> None:
    async def story(node: OneNode) -> None:
        await with_many_partitions(node)
        opened: list[bool] = []
        await node.replicas.opened_at_start(lambda: opened.append(True))
        assert not opened and not any(True for _ in node.replicas.all())
        node.append(index=MANY - 1)
        partition = node.replicas.by_id[FIRST.bytes].partitions.get(MANY - 1)
        assert partition is not None and partition.log.end_offset == 2
        assert len(list(node.replicas.all())) == 1
        for _ in range(MANY):
            await node.clock.advance(SLICE_S)
        assert opened
        assert [each.log.end_offset for each in node.replicas.all()].count(1) == MANY - 1
        assert type(node.replicas.by_id[FIRST.bytes].partitions) is dict

    run(story)


def test_a_start_with_few_logs_opens_all_of_them_before_it_ends() -> None:
    async def story(node: OneNode) -> None:
        await with_many_partitions(node)
        opened: list[bool] = []
        await node.replicas.opened_at_start(lambda: opened.append(True))
        assert opened and len(list(node.replicas.all())) == MANY

    run(story)


@pytest.mark.usefixtures("no_patience")
@pytest.mark.parametrize("cleanly", [True, False])
def test_a_node_that_stops_before_all_logs_are_open_loses_nothing(cleanly: bool) -> None:
    async def story(node: OneNode) -> None:
        await with_many_partitions(node, cleanly=cleanly)
        await node.replicas.opened_at_start(lambda: None)
        node.append(index=3)
        restarted(node)
        # Logs that were not recovered must be scanned by the next start.
        assert node.store.was_clean is cleanly
        await node.replicas.opened_at_start(lambda: None)
        for index in range(MANY):
            partition = node.replicas.find(ORDERS, index)
            assert partition is not None and partition.log.damage is None
            assert partition.log.end_offset == (2 if index == 3 else 1)

    run(story)


@pytest.mark.usefixtures("no_patience")
def test_the_deletion_of_a_topic_removes_the_logs_that_are_not_open_yet() -> None:
    async def story(node: OneNode) -> None:
        await with_many_partitions(node)
        await node.replicas.opened_at_start(lambda: None)
        node.append(index=1)
        node.publish(RemoveTopicRecord(topic_id=FIRST), *created(topic_id=SECOND, count=2))
        await node.replicas.settled()
        assert {name for name in node.disk.list("/data") if name in {f"orders-{n}" for n in range(MANY)}} == {
            "orders-0", "orders-1",
        }  # fmt: skip
        for index in range(2):
            partition = node.replicas.find(ORDERS, index)
            assert partition is not None and partition.log.end_offset == 0

    run(story)


@pytest.mark.usefixtures("no_patience")
def test_a_replica_that_moves_away_before_its_log_is_open_is_removed() -> None:
    async def story(node: OneNode) -> None:
        await with_many_partitions(node)
        await node.replicas.opened_at_start(lambda: None)
        node.publish(moved(OTHER))
        await node.replicas.settled()
        assert not node.disk.exists("/data/orders-0") and node.disk.exists("/data/orders-1")

    run(story)


@pytest.mark.usefixtures("no_patience")
def test_logs_of_internal_topics_and_with_other_replicas_are_open_before_the_start_ends() -> None:
    async def story(node: OneNode) -> None:
        await node.replicas.opened_at_start(lambda: None)
        node.publish(*created(CONSUMER_OFFSETS, SECOND, 3), *created(replicas=(ME, OTHER), count=2))
        await node.replicas.settled()
        node.stop()
        node.start()
        node._image = EMPTY
        node.publish(*created(CONSUMER_OFFSETS, SECOND, 3), *created(replicas=(ME, OTHER), count=2))
        await node.replicas.opened_at_start(lambda: None)
        assert len(list(node.replicas.all())) == 5

    run(story)


@pytest.mark.usefixtures("no_patience")
def test_without_the_table_of_partitions_all_logs_are_opened_before_the_start_ends() -> None:
    async def story(node: OneNode) -> None:
        await node.replicas.opened_at_start(lambda: None)
        node.publish(*created(count=MANY))
        await node.replicas.settled()
        node.stop()
        node.disk.lose("/data/held-partitions")
        node.start()
        node.publish_again()
        await node.replicas.opened_at_start(lambda: None)
        assert len(list(node.replicas.all())) == MANY

    run(story)


@pytest.mark.usefixtures("no_patience")
def test_a_late_log_that_has_lost_records_is_damaged_when_it_is_opened() -> None:
    async def story(node: OneNode) -> None:
        await with_many_partitions(node)
        node.disk.lose("/data/orders-5/00000000000000000000.log")
        await node.replicas.opened_at_start(lambda: None)
        partition = node.replicas.find(ORDERS, 5)
        assert partition is not None and partition.log.damage is not None

    run(story)
