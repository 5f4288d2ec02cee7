"""The last stable offset: how far read_committed consumers may read, and when waiting fetches are notified."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from penstock.config.settings import default_topic_settings
from penstock.metadata.image import PartitionImage
from penstock.model.errors import NotEnoughReplicas, NotLeaderOrFollower
from penstock.model.ids import LeaderEpoch, NodeId, PartitionIndex, TopicId, TopicName, TopicPartition
from penstock.model.job import finish
from penstock.replication.partition import ALL_REPLICAS, Partition
from penstock.storage.directory import LogDirectory
from penstock.storage.log import Log
from penstock.wire.records import Record, encode_batch
from penstock_sim.disk import SimDisk

NOW_MS = 1_700_000_000_000
ME = NodeId(1)


class Reader:
    """A parked fetch."""

    def __init__(self) -> None:
        self.gained = 0

    def more_bytes(self, size: int) -> None:
        self.gained += size

    def changed(self) -> None:
        raise AssertionError("nothing changed hands")

    def expired(self) -> None:
        raise AssertionError("nobody waits so long")


def partition(disk: SimDisk | None = None) -> Partition:
    opening = Log.opening(
        LogDirectory(disk or SimDisk(), "/data"),
        "/data/a-0",
        TopicPartition(TopicName("a"), PartitionIndex(0)),
        TopicId(UUID(int=1)),
        default_topic_settings(),
        clock_wall_ms=lambda: NOW_MS,
        clean=False,
    )
    log = finish(opening)
    return Partition(TopicName("a"), UUID(int=1), 0, ME, log)


def write(held: Partition, **header: Any) -> int:
    sealed = encode_batch([Record(timestamp=NOW_MS, value=b"v")], **header)
    records = memoryview(bytearray(sealed))
    return held.append(records, acks=ALL_REPLICAS, now_ms=NOW_MS, transaction_verified=True).base_offset


def write_in_transaction(held: Partition, producer_id: int, sequence: int = 0) -> int:
    return write(held, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def end(held: Partition, producer_id: int, *, commit: bool = True) -> int:
    return held.append_marker(
        producer_id=producer_id, producer_epoch=0, commit=commit, coordinator_epoch=0, now_ms=NOW_MS
    ).base_offset


def test_without_transactions_the_last_stable_offset_is_the_high_watermark() -> None:
    held = partition()
    write(held)
    assert (held.high_watermark, held.last_stable_offset) == (1, 1)


def test_an_open_transaction_holds_read_committed_consumers_back() -> None:
    held = partition()
    write(held)
    write_in_transaction(held, 7)
    write(held)
    assert (held.high_watermark, held.last_stable_offset) == (3, 1)
    assert held.read(1, max_bytes=1000, committed_only=True, at_least_one=True) is None
    assert held.read(1, max_bytes=1000, committed_only=False, at_least_one=True) is not None
    end(held, 7)
    assert (held.high_watermark, held.last_stable_offset) == (4, 4)


def test_the_oldest_open_transaction_bounds_the_last_stable_offset_which_never_moves_back() -> None:
    held = partition()
    seen = [held.last_stable_offset]
    steps: tuple[Callable[[], object], ...] = (
        lambda: write_in_transaction(held, 7),
        lambda: write_in_transaction(held, 8),
        lambda: end(held, 8, commit=False),
        lambda: write_in_transaction(held, 8, 1),
        lambda: end(held, 7),
        lambda: write_in_transaction(held, 7, 1),
        lambda: end(held, 8),
        lambda: end(held, 7, commit=False),
    )
    for step in steps:
        step()
        seen.append(held.last_stable_offset)
    assert seen == [0, 0, 0, 0, 0, 3, 3, 5, 8]


def test_a_marker_takes_effect_once_it_is_durable() -> None:
    disk = SimDisk(syncs_at_once=False)
    held = partition(disk)
    write_in_transaction(held, 7)
    end(held, 7)
    disk.finish_sync()
    assert held.last_stable_offset == 0
    while held.high_watermark < 2:
        disk.finish_sync()
    assert held.last_stable_offset == 2


def test_a_waiting_fetch_is_notified_of_all_bytes_that_a_marker_releases() -> None:
    held = partition()
    write_in_transaction(held, 7)
    size = held.log.size
    for _ in range(3):
        write(held)
    reader = Reader()
    held.waiters.add_watcher(reader)
    end(held, 7)
    assert reader.gained >= 3 * size
    reader.gained = 0
    write(held)
    assert 0 < reader.gained < 100


def test_the_last_stable_offset_survives_a_restart() -> None:
    disk = SimDisk()
    held = partition(disk)
    write_in_transaction(held, 7)
    write_in_transaction(held, 8)
    end(held, 7)
    again = partition(disk)
    assert (again.high_watermark, again.last_stable_offset) == (3, 1)
    end(again, 8)
    assert again.last_stable_offset == 4


def test_deleted_records_of_an_open_transaction_do_not_hold_readers_back() -> None:
    held = partition()
    write_in_transaction(held, 7)
    write(held)
    held.log.advance_start(2)
    assert held.last_stable_offset == 2


def role(leader: NodeId, isr: tuple[NodeId, ...], partition_epoch: int) -> PartitionImage:
    return PartitionImage(
        leader=leader,
        leader_epoch=LeaderEpoch(partition_epoch),
        replicas=(ME, NodeId(2)),
        isr=isr,
        partition_epoch=partition_epoch,
    )


def test_a_marker_is_rejected_like_an_append_by_a_follower_and_below_min_isr() -> None:
    held = partition()
    held.take_role(role(ME, (), 1))
    with pytest.raises(NotEnoughReplicas):
        end(held, 7)
    held.take_role(role(NodeId(2), (NodeId(2),), 2))
    with pytest.raises(NotLeaderOrFollower):
        end(held, 7)
