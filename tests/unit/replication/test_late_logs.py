"""The logs that a start leaves for later: those with much to scan are recovered in slices."""

import errno
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from penstock.metadata.records import ConfigRecord, PartitionChangeRecord, RemoveTopicRecord
from penstock.model.ids import NodeId, TopicName
from penstock.model.job import Job
from penstock.replication.late_logs import RECOVERING_MAX
from penstock.replication.replicas import CHORES_PER_SLICE, SWEEP_S
from penstock.scheduling.scheduler import Scheduler
from penstock.storage.directory import SYNCED_ALONE_MAX
from tests.unit.replication.test_replicas import (
    FIRST,
    ME,
    ORDERS,
    OTHER,
    SECOND,
    OneNode,
    created,
    moved,
    run,
    unreadable_after_restart,
)

LONG = 0
"""The partition with more batches than one slice of a recovery verifies."""
BATCHES = 20


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.recovery.HEADERS_PER_SLICE", 4)


class Jobs:
    """Jobs of a data folder, whose steps the test runs."""

    def __init__(self, node: OneNode) -> None:
        self.waiting: list[tuple[Job[Any], Callable[[Any, BaseException | None], None]]] = []
        node.store.directory.run = lambda job, done: self.waiting.append((job, done))

    def step(self) -> None:
        """Run one step of each job."""
        waiting, self.waiting = self.waiting, []
        for job, done in waiting:
            try:
                next(job)
            except StopIteration as end:
                done(end.value, None)
            except OSError as error:
                done(None, error)
            else:
                self.waiting.append((job, done))

    def finish(self) -> None:
        while self.waiting:
            self.step()


async def killed(node: OneNode, *, long: tuple[int, ...] = (LONG,), count: int = 3) -> Jobs:
    """Write to some partitions, to the long ones more than one slice, kill the node and start it again."""
    await node.replicas.opened_at_start(lambda: None)
    node.publish(*created(count=count))
    await node.replicas.settled()
    for index in range(count):
        for _ in range(BATCHES if index in long else 1):
            node.append(index=index)
    return restarted(node)


def restarted(node: OneNode, *, replicas: tuple[NodeId, ...] = (ME,)) -> Jobs:
    node.replicas.stop()
    node.store.close(clean=False)
    node.disk.end_process()
    node.start()
    jobs = Jobs(node)
    node.publish_again(replicas)
    return jobs


def failing_job() -> Job[None]:
    yield None
    raise OSError(errno.EIO, "the disk fails")


def end_of(node: OneNode, index: int) -> int:
    partition = node.replicas.find(ORDERS, index)
    assert partition is not None and partition.log.damage is None
    return partition.log.end_offset


async def check_next_start_recovers(node: OneNode) -> None:
    """Stop the node and check that the stop does not count as clean, and that the next start recovers the log."""
    node.stop()
    node.start()
    assert not node.store.was_clean, "the log is not verified"
    jobs = Jobs(node)
    node.publish_again()
    await node.replicas.opened_at_start(lambda: None)
    jobs.finish()
    assert end_of(node, LONG) == BATCHES


def test_a_start_serves_other_partitions_while_a_log_with_much_to_scan_is_recovered() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        opened: list[bool] = []
        await node.replicas.opened_at_start(lambda: opened.append(True))
        assert end_of(node, 1) == end_of(node, 2) == 1
        assert not node.is_open(index=LONG) and node.replicas.is_opening(ORDERS, LONG)
        assert not opened, "a log is missing"
        jobs.finish()
        assert end_of(node, LONG) == BATCHES and not node.replicas.is_opening(ORDERS, LONG)
        assert opened
        assert type(node.replicas.by_id[FIRST.bytes].partitions) is dict

    run(story)


def test_a_log_with_much_to_scan_is_recovered_once_however_often_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.replication.replicas.START_OPEN_S", 0.0)

    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        await node.replicas.opened_at_start(lambda: None)
        for _ in range(3):
            assert not node.is_open(index=LONG)
        assert len(jobs.waiting) == 1
        assert end_of(node, 1) == 1, "a short one is opened when it is used"
        jobs.finish()
        assert end_of(node, LONG) == BATCHES

    run(story)


def test_few_logs_are_recovered_in_slices_at_a_time() -> None:
    async def story(node: OneNode) -> None:
        count = RECOVERING_MAX + 2
        jobs = await killed(node, long=tuple(range(count)), count=count)
        opened: list[bool] = []
        await node.replicas.opened_at_start(lambda: opened.append(True))
        assert not node.is_open(index=count - 1)
        assert len(jobs.waiting) == RECOVERING_MAX
        while not opened:
            assert 0 < len(jobs.waiting) <= RECOVERING_MAX
            jobs.step()
        assert [end_of(node, index) for index in range(count)] == [BATCHES] * count

    run(story)


def test_the_scheduler_recovers_a_log_in_several_turns() -> None:
    async def story(node: OneNode) -> None:
        await killed(node)
        scheduler = Scheduler(node.clock)
        node.store.directory.run = partial(scheduler.run, is_wanted=lambda: True)
        await node.replicas.opened_at_start(lambda: None)
        assert not node.is_open(index=LONG)
        await node.clock.advance(0.01)
        assert end_of(node, LONG) == BATCHES

    run(story)


def test_a_node_that_stops_while_it_recovers_a_log_recovers_it_at_the_next_start() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        await node.replicas.opened_at_start(lambda: None)
        jobs.step()
        await check_next_start_recovers(node)

    run(story)


def test_a_topic_that_is_deleted_during_a_recovery_leaves_nothing_behind() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        opened: list[bool] = []
        await node.replicas.opened_at_start(lambda: opened.append(True))
        node.publish(RemoveTopicRecord(topic_id=FIRST))
        await node.replicas.settled()
        jobs.finish()
        assert not node.disk.exists(f"/data/{ORDERS}-{LONG}") and not list(node.store)
        assert opened

    run(story)


def test_a_replica_that_moves_away_during_its_recovery_is_removed() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        await node.replicas.opened_at_start(lambda: None)
        node.publish(moved(OTHER, index=LONG))
        await node.replicas.settled()
        jobs.finish()
        assert not node.disk.exists(f"/data/{ORDERS}-{LONG}") and not node.is_open(index=LONG)

    run(story)


def test_a_log_that_cannot_be_read_to_its_end_is_tried_again() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        await node.replicas.opened_at_start(lambda: None)
        assert node.replicas.is_opening(ORDERS, LONG)
        jobs.waiting[:] = [(failing_job(), done) for _, done in jobs.waiting]
        jobs.finish()
        assert not node.is_open(index=LONG) and not node.replicas.is_opening(ORDERS, LONG)
        await node.clock.advance(2 * SWEEP_S)
        assert end_of(node, LONG) == BATCHES

    run(story)


def test_a_start_leaves_logs_that_a_newer_image_allows_to_be_late() -> None:
    async def story(node: OneNode) -> None:
        count = 2 * CHORES_PER_SLICE
        both = (ME, OTHER)
        await node.replicas.opened_at_start(lambda: None)
        node.publish(*created(count=count, replicas=both))
        await node.replicas.settled()
        for index in range(count):
            node.append(index=index)
        jobs = restarted(node, replicas=both)
        # Meanwhile the other broker leads, and this one is no longer in sync.
        node.publish(
            *(
                PartitionChangeRecord(partition_id=index, topic_id=FIRST, isr=(OTHER,), leader=OTHER)
                for index in range(count)
            )
        )
        await node.replicas.settled()
        opened = len(list(node.replicas.all()))
        assert 0 < opened < count
        assert len(node.replicas.late) == count - opened
        await node.replicas.opened_at_start(lambda: None)
        jobs.finish()
        assert [end_of(node, index) for index in range(count)] == [1] * count

    run(story)


def test_settings_that_change_during_a_recovery_are_used() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        await node.replicas.opened_at_start(lambda: None)
        node.publish(ConfigRecord(resource_type=2, resource_name=ORDERS, name="segment.bytes", value="2000000"))
        jobs.finish()
        partition = node.replicas.find(ORDERS, LONG)
        assert partition is not None and partition.log.settings.segment_bytes == 2_000_000

    run(story)


def test_a_node_that_stops_during_a_recovery_never_reports_that_all_logs_are_open() -> None:
    async def story(node: OneNode) -> None:
        await killed(node)
        opened: list[bool] = []
        await node.replicas.opened_at_start(lambda: opened.append(True))
        node.replicas.stop()
        # The metadata may change while the quorum is being closed.
        node.publish(*created(TopicName("others"), SECOND, 2 * CHORES_PER_SLICE))
        await node.clock.advance(0.1)
        assert not opened

    run(story)


def test_a_log_that_is_left_by_a_stop_is_opened_by_no_request() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        await node.replicas.opened_at_start(lambda: None)
        node.stop()
        calls = node.disk.calls
        assert not node.is_open(index=LONG)
        jobs.finish()
        assert node.disk.calls == calls, "another process may use the folder"
        node.start()

    run(story)


def test_a_folder_that_fails_during_a_recovery_does_not_count_as_opened() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        opened: list[bool] = []
        await node.replicas.opened_at_start(lambda: opened.append(True))
        node.store.directory.fail(OSError(errno.EIO, "gone"))
        jobs.finish()
        assert not opened and not node.is_open(index=LONG)

    run(story)


def test_a_log_that_waits_for_other_recoveries_is_not_taken_for_a_failed_one() -> None:
    async def story(node: OneNode) -> None:
        count = RECOVERING_MAX + 2
        jobs = await killed(node, long=tuple(range(count)), count=count)
        await node.replicas.opened_at_start(lambda: None)
        assert not node.is_open(index=count - 1)
        assert node.replicas.is_opening(ORDERS, count - 1)
        jobs.finish()
        assert not node.replicas.is_opening(ORDERS, count - 1)

    run(story)


def test_a_topic_that_is_deleted_during_a_recovery_keeps_no_file_open() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        await node.replicas.opened_at_start(lambda: None)
        node.publish(RemoveTopicRecord(topic_id=FIRST))
        await node.replicas.settled()
        jobs.finish()
        assert not node.store.directory.open_files._files, "an open file occupies the disk"

    run(story)


def test_a_topic_that_is_created_again_during_a_recovery_gets_new_logs() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        await node.replicas.opened_at_start(lambda: None)
        jobs.step()
        node.publish(RemoveTopicRecord(topic_id=FIRST), *created(topic_id=SECOND, count=3))
        await node.replicas.settled()
        jobs.finish()
        assert [end_of(node, index) for index in range(3)] == [0, 0, 0]
        node.append(index=LONG)
        restarted(node).finish()
        await node.replicas.opened_at_start(lambda: None)
        assert [end_of(node, index) for index in range(3)] == [1, 0, 0]

    run(story)


def test_a_log_that_could_not_be_opened_and_may_be_late_now_is_opened_once() -> None:
    async def story(node: OneNode) -> None:
        await killed(node, count=1)
        node.replicas.stop()
        node.store.close(clean=False)
        node.disk.end_process()
        node.start()
        jobs = Jobs(node)
        # An older image has another replica, so the log may not be late, and cannot be opened.
        node.disk.failing = {"make_folder": errno.EMFILE}
        node.publish_again((ME, OTHER))
        await node.replicas.settled()
        node.disk.failing = {}
        node.publish(moved(ME))
        await node.replicas.opened_at_start(lambda: None)
        assert not node.is_open()
        await node.clock.advance(2 * SWEEP_S)
        assert not node.is_open(), "another log in the same folder would lose the records of this one"
        jobs.finish()
        assert end_of(node, LONG) == BATCHES

    run(story)


def test_a_stop_is_not_clean_while_a_log_could_not_be_opened() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        await node.replicas.opened_at_start(lambda: None)
        jobs.waiting[:] = [(failing_job(), done) for _, done in jobs.waiting]
        jobs.finish()
        assert not node.is_open(index=LONG)
        await check_next_start_recovers(node)

    run(story)


def test_short_logs_are_served_while_as_many_long_ones_as_possible_are_recovered() -> None:
    async def story(node: OneNode) -> None:
        count = RECOVERING_MAX + 3
        jobs = await killed(node, long=tuple(range(RECOVERING_MAX + 1)), count=count)
        await node.replicas.opened_at_start(lambda: None)
        assert end_of(node, count - 1) == end_of(node, count - 2) == 1
        assert len(jobs.waiting) == RECOVERING_MAX
        jobs.finish()
        assert end_of(node, RECOVERING_MAX) == BATCHES

    run(story)


def test_a_log_that_waits_for_a_recovery_is_not_read_by_every_request() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node, long=tuple(range(RECOVERING_MAX + 1)), count=RECOVERING_MAX + 1)
        await node.replicas.opened_at_start(lambda: None)
        calls = node.disk.calls
        assert not node.is_open(index=RECOVERING_MAX)
        assert node.disk.calls == calls
        node.publish(RemoveTopicRecord(topic_id=FIRST))
        await node.replicas.settled()
        jobs.finish()
        assert not list(node.store) and not node.replicas.late

    run(story)


def test_a_replica_that_leaves_and_returns_while_it_is_recovered_during_a_start_is_empty() -> None:
    async def story(node: OneNode) -> None:
        jobs = await killed(node)
        assert not node.is_open(index=LONG), "another broker has asked for it"
        node.publish(moved(OTHER, index=LONG))
        await node.replicas.settled()
        node.publish(moved(ME, index=LONG))
        await node.replicas.opened_at_start(lambda: None)
        jobs.finish()
        assert end_of(node, LONG) == 0

    run(story)


def test_logs_that_lack_a_resource_do_not_count_as_opened() -> None:
    async def story(node: OneNode) -> None:
        await killed(node)
        opened: list[bool] = []
        node.disk.failing = {"make_folder": errno.EMFILE}
        await node.replicas.opened_at_start(lambda: opened.append(True))
        assert not opened and not node.is_open()
        node.disk.failing = {}
        await node.clock.advance(2 * SWEEP_S)
        assert opened and end_of(node, LONG) == BATCHES

    run(story)


def test_what_an_interrupted_recovery_has_removed_stays_removed_after_a_power_failure() -> None:
    async def story(node: OneNode) -> None:
        # The short ones come first: with the last of them, the volume is synced.
        short = SYNCED_ALONE_MAX + 1
        count = short + RECOVERING_MAX + 1
        await killed(node, long=tuple(range(short, count)), count=count)
        leftover = f"/data/orders-{count - 1}/{0:020d}.log.deleted"
        node.disk.open(leftover, create=True)
        node.disk.sync_volume("/data")
        jobs = restarted(node)
        await node.replicas.opened_at_start(lambda: None)
        jobs.finish()
        assert end_of(node, count - 1) == BATCHES
        node.disk.crash(kept=0.0)
        assert not node.disk.exists(leftover)
        node.start()

    run(story)


def test_a_stop_is_not_clean_while_a_log_is_open_only_as_an_unreadable_one() -> None:
    async def story(node: OneNode) -> None:
        await unreadable_after_restart(node)
        node.stop()
        node.start()
        assert not node.store.was_clean, "the log is not verified"

    run(story)
