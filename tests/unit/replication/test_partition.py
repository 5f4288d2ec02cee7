import errno
import gc
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from penstock.config.settings import TopicSettings
from penstock.metadata.image import PartitionImage
from penstock.model.errors import OffsetOutOfRange, StorageError
from penstock.model.ids import LeaderEpoch, NodeId, TopicName
from penstock.replication.isr import Leadership, Proposal
from penstock.replication.partition import Partition
from penstock.storage.directory import LogDirectory
from penstock.storage.flush import DurabilityListener
from penstock.storage.log_offsets import LogOffsets
from penstock.wire.records import Record, encode_batch
from penstock_sim.disk import SimDisk, SimFile
from tests.unit.storage.support import append, open_log

ME = NodeId(1)


class WrittenLog:
    """A log that is written and synced on demand."""

    first_unstable_offset = None
    producer_state = SimpleNamespace(first_unstable_offset=None)

    def __init__(self, *, end: int, durable: int) -> None:
        self.offsets = LogOffsets(start=0, flushed=durable, end=durable)
        self.directory = SimpleNamespace(failure=None)
        self.reader = SimpleNamespace(last_batch=None)
        self.flusher = SimpleNamespace(notify_durable=self.notify_durable)
        self.listener: DurabilityListener | None = None
        if end > durable:
            self.offsets.extend(end)

    @property
    def end_offset(self) -> int:
        return self.offsets.end

    def notify_durable(self, listener: DurabilityListener | None) -> None:
        self.listener = listener

    def high_watermark_moved(self, mark: int) -> None:
        pass

    def sync(self, offset: int) -> None:
        self.offsets.flush_to(offset)
        if self.listener is not None:
            self.listener.advance()


def partition(*, end: int, durable: int) -> tuple[Partition, WrittenLog]:
    log: Any = WrittenLog(end=end, durable=durable)
    return Partition(TopicName("a"), UUID(int=1), 0, ME, log), log


def test_wait_committed_ends_when_the_high_watermark_reaches_the_log_end() -> None:
    held, log = partition(end=3, durable=1)
    codes: list[int] = []
    assert held.wait_committed(10.0, codes.append)
    log.offsets.extend(5)
    log.sync(2)
    assert codes == []
    log.sync(3)
    assert (codes, held.high_watermark) == ([0], 3)


def test_wait_committed_returns_at_the_high_watermark_with_other_replicas_and_on_a_failed_disk() -> None:
    codes: list[int] = []
    shown, _ = partition(end=3, durable=3)
    offline, log = partition(end=3, durable=1)
    log.directory.failure = OSError("gone")
    replicated, _ = partition(end=3, durable=1)
    both = (ME, NodeId(2))
    replicated.leadership = Leadership(ME, epoch=0, epoch_start=0, partition_epoch=0, replicas=both, isr=both, now=0.0)
    assert not any(held.wait_committed(10.0, codes.append) for held in (shown, offline, replicated))
    assert codes == []


def test_the_high_watermark_stops_waiting_for_a_replica_that_the_controller_rejects() -> None:
    held, log = partition(end=1, durable=1)
    other = NodeId(2)
    leadership = held.leadership = Leadership(
        ME, epoch=0, epoch_start=0, partition_epoch=0, replicas=(ME, other), isr=(ME,), now=0.0
    )
    follower = leadership.followers[other]
    follower.fetched(1, 0, 7, leader_end=1, now=0.0)
    proposal = leadership.expand_isr(follower, mark=0, now=0.0, lag_s_max=30.0, allowed=True)
    assert proposal is not None
    log.offsets.extend(3)
    log.sync(3)
    assert held.high_watermark == 1
    held.withdraw(proposal)
    assert held.high_watermark == 3


def test_a_follower_that_starts_in_the_middle_of_a_batch_appends_the_whole_batch() -> None:
    log = open_log(SimDisk())
    held = Partition(TopicName("a"), UUID(int=1), 0, ME, log)
    held.restart_at(51)
    sealed = encode_batch([Record(timestamp=1, value=b"v")] * 4, base_offset=49, leader_epoch=0)
    held.append_fetched(memoryview(bytearray(sealed)), now_ms=1, leader_mark=0)
    assert (log.start_offset, log.end_offset) == (49, 53)


def test_a_follower_that_cannot_write_stays_where_it_starts() -> None:
    log = open_log(SimDisk())
    held = Partition(TopicName("a"), UUID(int=1), 0, ME, log)
    held.restart_at(51)
    log.directory.refuse_writes(OSError(errno.ENOSPC, "No space left on device"))
    sealed = encode_batch([Record(timestamp=1, value=b"v")] * 4, base_offset=49, leader_epoch=0)
    with pytest.raises(StorageError, match="read-only"):
        held.append_fetched(memoryview(bytearray(sealed)), now_ms=1, leader_mark=0)
    assert (log.start_offset, log.end_offset) == (51, 51)


def test_a_failed_read_during_a_followers_append_duplicates_nothing() -> None:
    disk = SimDisk()
    log = open_log(disk)
    disk.failing["read"] = errno.EIO
    sealed = encode_batch([Record(timestamp=1, value=b"v")], base_offset=0, leader_epoch=0)
    log.append_replicated(memoryview(bytearray(sealed)), now_ms=1)
    del disk.failing["read"]
    assert (log.end_offset, log.segments.active.size) == (1, len(sealed))


def test_a_damaged_partition_tells_no_reader_where_logs_diverge_or_end() -> None:
    log = open_log(SimDisk())
    held = Partition(TopicName("a"), UUID(int=1), 0, ME, log)
    sealed = encode_batch([Record(timestamp=1, value=b"v")] * 4)
    append(log, sealed)
    log.quarantine.begin(2, "rot")
    with pytest.raises(StorageError, match="rot"):
        held.end_for_consumers(committed_only=False)
    with pytest.raises(StorageError, match="rot"):
        held.diverging_epoch(3, 0)
    assert held.diverging_epoch(1, 0) is None, "it has the records before the damage"
    held.replicas = (ME, NodeId(2))
    with pytest.raises(StorageError, match="rot"):
        held.diverging_epoch(1, 0)


def test_a_reader_with_an_epoch_that_the_leader_does_not_know_is_out_of_range() -> None:
    log = open_log(SimDisk())
    held = Partition(TopicName("a"), UUID(int=1), 0, ME, log)
    append(log, encode_batch([Record(timestamp=1, value=b"v")]), epoch=5)
    with pytest.raises(OffsetOutOfRange):
        held.diverging_epoch(1, 9)


def test_a_batch_in_memory_that_exceeds_the_limit_is_read_from_the_log() -> None:
    log = open_log(SimDisk())
    held = Partition(TopicName("a"), UUID(int=1), 0, ME, log)
    log.reader.keep_last(True)
    append(log, encode_batch([Record(timestamp=1, value=b"v" * 100)]))
    assert held.read_for_replica(0, max_bytes=10, at_least_one=False) is None
    assert held.read_for_replica(0, max_bytes=10, at_least_one=True) is not None
    log.reader.keep_last(False)
    assert log.reader.last_batch is None


def test_a_follower_withdraws_nothing() -> None:
    held, _ = partition(end=1, durable=1)
    held.leadership = None
    held.withdraw(Proposal(leader_epoch=0, partition_epoch=0, isr=(ME,), broker_epochs=(1,)))
    assert held.high_watermark == 1


def test_an_older_state_of_the_image_does_not_change_the_role() -> None:
    held, _ = partition(end=1, durable=1)
    held.leader_epoch = held.partition_epoch = 4
    role = held.leadership
    state = PartitionImage(
        leader=NodeId(2), leader_epoch=LeaderEpoch(3), replicas=(ME, NodeId(2)), isr=(NodeId(2),), partition_epoch=3
    )
    held.take_role(state)
    assert (held.leader_epoch, held.leadership) == (4, role)


def reachable(held: Partition) -> dict[int, object]:
    """Return the objects of a partition by identity, without its settings and the simulated disk."""
    found: dict[int, object] = {id(held): held}
    left: list[object] = [held]
    while left:
        for each in gc.get_referents(left.pop()):
            if id(each) not in found and not isinstance(each, _SHARED):
                found[id(each)] = each
                left.append(each)
    return found


_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, TopicSettings, LogDirectory, SimDisk, SimFile)


def test_an_idle_partition_takes_less_than_four_kilobytes() -> None:
    """Ten thousand of them must fit into 100 MB, together with everything else."""
    disk = SimDisk()
    directory = LogDirectory(disk, "/data")
    parts = []
    for index in range(2):
        log = open_log(disk, folder=f"/data/orders-{1000 + index}", directory=directory, clean=True)
        parts.append(Partition(TopicName("orders"), UUID(int=1), index, ME, log))
        append(log, encode_batch([Record(timestamp=1_700_000_000_000, value=b"v")]))
    alone = reachable(parts[0]).keys() - reachable(parts[1]).keys()
    size = sum(sys.getsizeof(each) for number, each in reachable(parts[0]).items() if number in alone)
    assert size < 4000
