"""Commits, starts and failures of a single-node quorum on an in-memory disk."""

import asyncio
import errno
import gc
import json
from collections.abc import Sequence
from dataclasses import replace
from unittest import mock

import pytest

from penstock.metadata.change import RECORDS_PER_SLICE
from penstock.metadata.checkpointer import SETTLE_S
from penstock.metadata.delta import Delta
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    decode,
)
from penstock.model.errors import Corruption, NotController, StartupError, StorageError
from penstock.model.ids import LeaderEpoch, Offset, TopicName
from penstock.wire.batch import BatchHeader
from penstock_sim.disk import Crashed, SimDisk
from tests.unit.metadata.samples import after, broker, config, partition, topic, topic_id
from tests.unit.metadata.world import FEATURES, TestClock, open_quorum, settle

FOLDER = "/data/__cluster_metadata-0"
LOG = f"{FOLDER}/00000000000000000000.log"


def facts(image: Image) -> Image:
    """Return the image without its offset, which advances with every start."""
    return replace(image, offset=Offset(0), epoch=LeaderEpoch(0))


def batches(data: bytes) -> list[BatchHeader]:
    found, position = [], 0
    while position < len(data):
        found.append(BatchHeader.at(memoryview(data)[position:]))
        position += found[-1].size
    return found


def checkpoints(disk: SimDisk) -> list[str]:
    return [name for name in disk.list(FOLDER) if name.endswith(".checkpoint")]


def replayed(commits: Sequence[Sequence[MetadataRecord]]) -> Image:
    """Return the image after the commits."""
    image = EMPTY
    first = [FeatureLevelRecord(name=name, feature_level=level) for name, level in FEATURES.items()]
    for records in [first, *commits]:
        _, image = after(image, records)
    return facts(image)


def commits_of_every_kind() -> list[list[MetadataRecord]]:
    """Return commits that change every kind of resource, each with several related records."""
    return [
        [broker(1)],
        [*topic("orders", 1, partitions=2), config("retention.ms", "5", topic="orders")],
        [ProducerIdsRecord(broker_id=1, next_producer_id=1000)],
        [PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), leader=2), partition(1, 2)],
        [RemoveTopicRecord(topic_id=topic_id(1)), *topic("orders", 2), *topic("sales", 3)],
        [config("retention.ms", "9", topic="orders"), config("retention.ms", "8", topic="sales")],
        [ProducerIdsRecord(broker_id=1, next_producer_id=2000)],
    ]


def removing_leaders(parts: int) -> list[list[MetadataRecord]]:
    """Return the parts of a commit after which the partitions of topic 1 have no leader."""
    return [
        [
            PartitionChangeRecord(partition_id=index, topic_id=topic_id(1), leader=-1)
            for index in range(part * RECORDS_PER_SLICE, (part + 1) * RECORDS_PER_SLICE)
        ]
        for part in range(parts)
    ]


def leaderless(image: Image) -> int:
    return sum(each.leader == -1 for made in image.topics.values() for each in made.partitions)


async def test_a_new_single_node_cluster_has_its_features_and_a_leader() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    assert quorum.image.features == FEATURES
    assert quorum.leader == 1 and quorum.epoch == 1
    state = json.loads(disk.read_file(f"{FOLDER}/quorum-state"))
    assert state == {
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": 1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAACQ",
        "data_version": 1,
    }
    await quorum.close()


async def test_a_commit_returns_after_the_subscribers_were_called() -> None:
    quorum = await open_quorum(SimDisk())
    received: list[Delta] = []
    quorum.subscribe(lambda delta, image: received.append(delta))
    await quorum.commit(topic("orders", 1))
    assert [made.name for made in received[-1].topics_created] == ["orders"]
    assert TopicName("orders") in quorum.image.topics
    assert quorum.high_watermark == quorum.image.offset + 1
    await quorum.close()


async def test_nothing_is_committed_before_it_is_durable() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    size = len(disk.read_file(LOG))
    disk.syncs_at_once = False
    commit = asyncio.ensure_future(quorum.commit(topic("orders", 1)))
    await settle()
    assert len(disk.read_file(LOG)) > size
    assert not commit.done() and not quorum.image.topics
    assert disk.finish_sync()
    await commit
    assert TopicName("orders") in quorum.image.topics
    await quorum.close()


async def test_commits_during_a_shutdown_notify_no_subscribers() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    received: list[Image] = []
    quorum.subscribe(lambda delta, image: received.append(image))
    received.clear()
    disk.syncs_at_once = False
    commit = asyncio.ensure_future(quorum.commit(topic("orders", 1)))
    await settle()
    closing = asyncio.ensure_future(quorum.close())
    await settle()
    assert disk.finish_sync()
    disk.syncs_at_once = True
    await asyncio.gather(commit, closing)
    assert received == [] and TopicName("orders") in quorum.image.topics


async def test_commits_made_together_share_syncs_and_keep_their_order() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    order: list[str] = []
    quorum.subscribe(lambda delta, image: order.extend(made.name for made in delta.topics_created))
    disk.syncs_at_once = False
    commits = asyncio.gather(*(quorum.commit(topic(f"t{number}", number)) for number in range(1, 51)))
    await settle()
    assert disk.finish_sync() and disk.finish_sync() and not disk.finish_sync()
    await commits
    assert order == [f"t{number}" for number in range(1, 51)]
    await quorum.close()


async def test_thousands_of_records_are_prepared_in_slices_and_written_as_one_batch() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    size, end = len(disk.read_file(LOG)), quorum.high_watermark
    commit = asyncio.ensure_future(quorum.commit(topic("orders", 1, partitions=5 * RECORDS_PER_SLICE)))
    turns = 0
    while len(disk.read_file(LOG)) == size:
        turns += 1
        await asyncio.sleep(0)
    await commit
    assert turns > 5
    assert quorum.high_watermark == end + 5 * RECORDS_PER_SLICE + 1
    (written,) = batches(disk.read_file(LOG)[size:])
    assert written.record_count == 5 * RECORDS_PER_SLICE + 1
    assert len(quorum.image.topics[TopicName("orders")].partitions) == 5 * RECORDS_PER_SLICE
    await quorum.close()


async def test_parts_of_a_commit_are_batches_that_are_applied_in_turns() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    size = len(disk.read_file(LOG))
    seen: list[int] = []
    await quorum.commit(topic("orders", 1, partitions=3 * RECORDS_PER_SLICE))
    quorum.subscribe(lambda delta, image: seen.append(sum(map(len, delta.partitions_changed.values()))))
    changes = [
        PartitionChangeRecord(partition_id=index, topic_id=topic_id(1), leader=-1)
        for index in range(3 * RECORDS_PER_SLICE)
    ]
    parts = [changes[start : start + RECORDS_PER_SLICE] for start in range(0, len(changes), RECORDS_PER_SLICE)]
    await quorum.commit(*parts)
    assert seen[1:] == [RECORDS_PER_SLICE] * 3
    assert [batch.record_count for batch in batches(disk.read_file(LOG)[size:])][1:] == [RECORDS_PER_SLICE] * 3
    assert all(each.leader == -1 for each in quorum.image.topics[TopicName("orders")].partitions)
    await quorum.close()


async def test_a_shutdown_waits_for_all_parts_of_a_commit() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    await quorum.commit(topic("orders", 1, partitions=3 * RECORDS_PER_SLICE))
    disk.syncs_at_once = False
    commit = asyncio.ensure_future(quorum.commit(*removing_leaders(3)))
    await settle()
    disk.syncs_at_once = True
    assert disk.finish_sync()
    assert leaderless(quorum.image) == RECORDS_PER_SLICE, "the rest is committed, but not applied yet"
    closing = asyncio.ensure_future(quorum.close())
    await settle()
    assert closing.done() and commit.done()
    assert leaderless(quorum.image) == 3 * RECORDS_PER_SLICE


async def test_records_in_preparation_are_not_written_after_a_shutdown() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    size = len(disk.read_file(LOG))
    commit = asyncio.ensure_future(quorum.commit(topic("orders", 1, partitions=2 * RECORDS_PER_SLICE)))
    await asyncio.sleep(0)
    await quorum.close()
    await settle()
    assert commit.done()
    with pytest.raises(NotController):
        await commit
    assert len(disk.read_file(LOG)) == size


async def test_a_failed_commit_returns_after_the_parts_that_were_written_are_applied() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    await quorum.commit(topic("orders", 1, partitions=3 * RECORDS_PER_SLICE))
    disk.syncs_at_once = False
    size = len(disk.read_file(LOG))
    commit = asyncio.ensure_future(quorum.commit(*removing_leaders(3)))
    await asyncio.sleep(0)
    assert len(disk.read_file(LOG)) > size, "the first part is written"
    disk.failing["write"] = errno.ENOSPC
    await settle()
    disk.failing.clear()
    assert not commit.done(), "the next decision would be made on an image without the first part"
    disk.syncs_at_once = True
    assert disk.finish_sync()
    with pytest.raises(StorageError):
        await commit
    assert leaderless(quorum.image) == RECORDS_PER_SLICE
    await quorum.close()


async def test_records_in_preparation_are_applied_to_what_was_written_meanwhile() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    large = asyncio.ensure_future(quorum.commit(topic("large", 1, partitions=2 * RECORDS_PER_SLICE)))
    await asyncio.sleep(0)
    await quorum.commit(topic("small", 2))
    await large
    assert set(quorum.image.topics) == {"small", "large"}
    await quorum.close()
    again = await open_quorum(disk)
    assert set(again.image.topics) == {"small", "large"}
    await again.close()


async def test_records_in_preparation_are_not_written_after_another_controller_is_active() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    size = len(disk.read_file(LOG))
    commit = asyncio.ensure_future(quorum.commit(topic("orders", 1, partitions=2 * RECORDS_PER_SLICE)))
    await asyncio.sleep(0)
    quorum._publish_leadership(False)
    with pytest.raises(NotController):
        await commit
    assert len(disk.read_file(LOG)) == size
    await quorum.close()


async def test_each_start_leads_a_new_epoch_and_restores_all_metadata() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    for records in commits_of_every_kind():
        await quorum.commit(records)
    image = quorum.image
    assert facts(image) == replayed(commits_of_every_kind())
    await quorum.close()
    quorum = await open_quorum(disk)
    assert facts(quorum.image) == facts(image)
    assert quorum.epoch == 2 and quorum.image.offset == image.offset + 1
    await quorum.close()


async def test_a_topic_created_again_has_another_id_after_a_restart_too() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    await quorum.commit([*topic("orders", 1, partitions=3), config("retention.ms", "5", topic="orders")])
    await quorum.commit([RemoveTopicRecord(topic_id=topic_id(1))])
    await quorum.commit(topic("orders", 2))
    await quorum.close()
    quorum = await open_quorum(disk)
    made = quorum.image.topics[TopicName("orders")]
    assert made.id == topic_id(2) and len(made.partitions) == 1
    assert quorum.image.topic_config(made.name) == {} and topic_id(1) not in quorum.image.topics_by_id
    await quorum.close()


async def test_records_that_do_not_fit_are_refused_before_they_are_written() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    size = len(disk.read_file(LOG))
    with pytest.raises(Corruption):
        await quorum.commit([RemoveTopicRecord(topic_id=topic_id(4))])
    assert len(disk.read_file(LOG)) == size
    await quorum.commit(topic("orders", 1))
    await quorum.close()


async def test_a_failed_write_fails_one_commit_and_the_next_one_succeeds() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    disk.failing["write"] = errno.ENOSPC
    with pytest.raises(StorageError):
        await quorum.commit(topic("orders", 1))
    assert not quorum.image.topics
    disk.failing.clear()
    await quorum.commit(topic("orders", 1))
    assert TopicName("orders") in quorum.image.topics
    await quorum.close()


async def test_a_failed_sync_fails_pending_and_later_commits() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    disk.syncs_at_once = False
    commits = asyncio.gather(
        quorum.commit(topic("orders", 1)), quorum.commit(topic("sales", 2)), return_exceptions=True
    )
    await settle()
    assert disk.finish_sync(OSError(errno.EIO, "the disk is broken"))
    results = await commits
    assert [type(result) for result in results] == [StorageError, StorageError]
    disk.failing.clear()
    with pytest.raises(StorageError):
        await quorum.commit(topic("more", 3))
    assert not quorum.image.topics


async def test_a_failed_sync_during_the_start_fails_the_start() -> None:
    disk = SimDisk()
    disk.make_folder("/data")
    disk.sync_folder("/")
    disk.syncs_at_once = False
    opening = asyncio.ensure_future(open_quorum(disk))
    await settle()
    assert disk.finish_sync(OSError(errno.EIO, "the disk is broken"))
    with pytest.raises(StartupError):
        await opening


async def test_a_cancelled_caller_does_not_cancel_its_commit() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    disk.syncs_at_once = False
    commit = asyncio.ensure_future(quorum.commit(topic("orders", 1)))
    await settle()
    commit.cancel()
    await settle()
    assert disk.finish_sync()
    await settle()
    assert TopicName("orders") in quorum.image.topics
    await quorum.close()


async def test_a_checkpoint_and_the_log_after_it_equal_a_full_replay() -> None:
    for after_records in range(1, len(commits_of_every_kind())):
        disk, clock = SimDisk(), TestClock()
        quorum = await open_quorum(disk, clock, metadata_log_max_snapshot_interval_ms="1000")
        for number, records in enumerate(commits_of_every_kind()):
            await quorum.commit(records)
            if number == after_records:
                clock.advance(1.0)
                await settle()
        await quorum.close()
        assert len(checkpoints(disk)) == 1
        quorum = await open_quorum(disk)
        assert facts(quorum.image) == replayed(commits_of_every_kind())
        await quorum.close()


async def test_checkpoints_are_written_by_size_and_old_log_is_deleted() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk, metadata_log_max_record_bytes_between_snapshots="5000")
    for number in range(1, 200):
        await quorum.commit(topic(f"t{number}", number))
        await settle()
    older, _ = checkpoints(disk)
    assert not disk.exists(LOG) and quorum.log.start_offset == int(older.partition("-")[0])
    image = quorum.image
    await quorum.close()
    quorum = await open_quorum(disk)
    assert facts(quorum.image) == facts(image)
    await quorum.close()


async def test_a_start_replays_no_more_records_than_a_few_images_however_many_were_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.metadata.checkpointer.REPLAY_SIZE_LEAST", 1000)
    disk, clock = SimDisk(), TestClock()
    quorum = await open_quorum(disk, clock)
    await quorum.commit(topic("orders", 1, partitions=100))
    for _ in range(20):
        # As if the only broker restarted: its partitions have no leader, then it leads them again.
        for leader in (-1, 1):
            await quorum.commit(
                [PartitionChangeRecord(partition_id=each, topic_id=topic_id(1), leader=leader) for each in range(100)]
            )
            clock.advance(SETTLE_S)
            await settle()
    image = quorum.image
    await quorum.close()
    decoded = mock.Mock(side_effect=decode)
    monkeypatch.setattr("penstock.metadata.replay.decode", decoded)
    quorum = await open_quorum(disk)
    assert facts(quorum.image) == facts(image)
    assert decoded.call_count <= 400
    await quorum.close()


async def test_only_the_current_image_stays_in_memory_after_a_start_and_a_checkpoint() -> None:
    def offsets_in_memory() -> set[int]:
        gc.collect()
        images = [each for each in gc.get_objects() if type(each) is Image]
        return {each.offset for each in images if TopicName("kept-once") in each.topics}

    disk = SimDisk()
    for _ in range(2):
        clock = TestClock()
        quorum = await open_quorum(disk, clock, metadata_log_max_snapshot_interval_ms="1000")
        for _ in range(2):
            if TopicName("kept-once") in quorum.image.topics:
                await quorum.commit([RemoveTopicRecord(topic_id=topic_id(1))])
            await quorum.commit(topic("kept-once", 1))
            await settle()
            assert offsets_in_memory() == {quorum.image.offset}
            clock.advance(1.0)
            await settle()
        assert len(checkpoints(disk)) == 2
        await quorum.close()


async def test_a_burst_of_changes_is_in_one_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.metadata.checkpointer.REPLAY_SIZE_LEAST", 1000)
    disk, clock = SimDisk(), TestClock()
    quorum = await open_quorum(disk, clock)
    for number in range(1, 60):
        await quorum.commit(topic(f"t{number}", number))
        await settle()
    assert not checkpoints(disk)
    clock.advance(SETTLE_S)
    await settle()
    assert [name.partition("-")[0] for name in checkpoints(disk)] == [f"{quorum.image.offset + 1:020d}"]
    await quorum.close()


async def test_a_corrupt_checkpoint_only_causes_a_longer_replay() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk, metadata_log_max_record_bytes_between_snapshots="5000")
    for number in range(1, 200):
        await quorum.commit(topic(f"t{number}", number))
        await settle()
    image = quorum.image
    await quorum.close()
    _, newest = checkpoints(disk)
    disk.flip(f"{FOLDER}/{newest}", 200)
    quorum = await open_quorum(disk)
    assert facts(quorum.image) == facts(image)
    assert f"{newest}.corrupt" in disk.list(FOLDER)
    await quorum.close()


async def test_a_start_without_an_intact_checkpoint_and_the_full_log_fails() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk, metadata_log_max_record_bytes_between_snapshots="5000")
    for number in range(1, 200):
        await quorum.commit(topic(f"t{number}", number))
        await settle()
    await quorum.close()
    for name in checkpoints(disk):
        file = disk.open(f"{FOLDER}/{name}")
        file.truncate(file.size() - 10)
    with pytest.raises(StartupError, match="incomplete"):
        await open_quorum(disk)


async def test_a_checkpoint_that_cannot_be_written_is_skipped() -> None:
    disk, clock = SimDisk(), TestClock()
    quorum = await open_quorum(disk, clock, metadata_log_max_snapshot_interval_ms="1000")
    await quorum.commit(topic("orders", 1))
    disk.failing["rename"] = errno.EIO
    clock.advance(1.0)
    await settle()
    disk.failing.clear()
    assert not checkpoints(disk)
    await quorum.commit(topic("sales", 2))
    clock.advance(1.0)
    await settle()
    assert checkpoints(disk)
    await quorum.close()


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b'{"leaderEpoch":"x"}'])
async def test_a_sole_voter_without_its_state_takes_the_epoch_from_the_log(content: bytes) -> None:
    disk = SimDisk()
    for _ in range(3):
        await (await open_quorum(disk)).close()
    disk.replace_file(f"{FOLDER}/quorum-state", content)
    quorum = await open_quorum(disk)
    assert quorum.epoch == 4
    await quorum.close()


async def test_a_corrupt_log_fails_the_start() -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk)
    for records in commits_of_every_kind():
        await quorum.commit(records)
    await quorum.close()
    disk.flip(LOG, 300)
    with pytest.raises(StartupError):
        await open_quorum(disk)


@pytest.mark.parametrize("power_lost", [False, True])
@pytest.mark.parametrize("slot", [0, -1])
async def test_a_missing_segment_fails_the_start_with_advice(slot: int, power_lost: bool) -> None:
    disk = SimDisk()
    quorum = await open_quorum(disk, metadata_log_max_record_bytes_between_snapshots="5000")
    for number in range(1, 200):
        await quorum.commit(topic(f"t{number}", number))
        await settle()
    segment = f"{FOLDER}/{quorum.log.segments.bases[slot]:020d}.log"
    if power_lost:
        quorum.abandon()
        disk.crash(kept=0.0)
    else:
        await quorum.close()
    disk.lose(segment)
    for _ in range(2):
        with pytest.raises(StartupError, match=r"segment.*Restore the missing files, or, if other voters"):
            await open_quorum(disk)


async def _run_commits(disk: SimDisk) -> int:
    """Run the commits until the node stops; return how many were acknowledged."""
    acknowledged = 0
    try:
        quorum = await open_quorum(disk, metadata_log_max_record_bytes_between_snapshots="300")
        for records in commits_of_every_kind():
            await quorum.commit(records)
            acknowledged += 1
            await settle()
    except Crashed:
        pass
    return acknowledged


@pytest.mark.parametrize("seed", range(3))
async def test_a_crash_at_any_disk_call_keeps_acknowledged_commits_and_splits_none(seed: int) -> None:
    # Callbacks of the event loop write checkpoints, so the loop reports the simulated stop as their error.
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    whole = SimDisk(seed)
    assert await _run_commits(whole) == len(commits_of_every_kind())
    assert len(checkpoints(whole)) == 2
    possible = [replayed(commits_of_every_kind()[:count]) for count in range(len(commits_of_every_kind()) + 1)]
    for stop_at in range(1, whole.calls + 1):
        disk = SimDisk(f"{seed}-{stop_at}")
        disk.fail_at[stop_at] = None
        acknowledged = await _run_commits(disk)
        disk.crash()
        quorum = await open_quorum(disk)
        assert facts(quorum.image) in possible[acknowledged : acknowledged + 2], f"stopped at call {stop_at}"
        await quorum.commit(topic("after", 99))
        await quorum.close()
