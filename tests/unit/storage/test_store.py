import errno
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import UUID
from weakref import ref

import pytest

from penstock.model.errors import StartupError, StorageError
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.model.job import Job
from penstock.ports.clock import Timer
from penstock.storage import store as store_module
from penstock.storage.checkpoint import read_offsets
from penstock.storage.journal import Journal
from penstock.storage.meta_properties import encode_uuid
from penstock.storage.partition_folder import parse_folder
from penstock.storage.reserve import Reserve
from penstock.storage.store import LogStore
from penstock.storage.store_checkpoints import UNCHECKED_SIZE_MAX
from penstock.storage.sync_failure import SyncFailure
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import NOW_MS, append, batch, fill, small_settings, stored

PARTITION = TopicPartition(TopicName("orders"), PartitionIndex(3))
OTHER_PLACE = TopicPartition(TopicName("orders"), PartitionIndex(4))
FIRST_ID, SECOND_ID = UUID(int=1), UUID(int=2)


class StillClock:
    def __init__(self) -> None:
        self.now_ms = NOW_MS
        # The error of the wall clock.
        self.skew_ms = 0

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def wall_ms(self) -> int:
        return self.now_ms + self.skew_ms

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        raise AssertionError("nothing waits")


class Ids:
    def __init__(self) -> None:
        self._random = Random(1)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def stream(self, name: str) -> Random:
        return Random(name)


def load(
    disk: SimDisk,
    *,
    cluster_id: str | None = None,
    node_id: int = 1,
    clock: StillClock | None = None,
    journal_group_least: int = 8,
    reserve_size: int = 0,
) -> LogStore:
    return LogStore.load(
        disk,
        "/data",
        cluster_id=cluster_id,
        node_id=node_id,
        clock=clock or StillClock(),
        entropy=Ids(),
        journal_group_least=journal_group_least,
        reserve_size=reserve_size,
    )


def test_a_new_folder_gets_the_identity_of_the_node() -> None:
    disk = SimDisk()
    store = load(disk, cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=7)
    lines = disk.read_file("/data/meta.properties").decode().splitlines()
    assert "cluster.id=MkU3OEVBNTcwNTJENDM2Qg" in lines
    assert "node.id=7" in lines
    assert "version=1" in lines
    assert f"directory.id={encode_uuid(store.directory_id)}" in lines


def test_the_identity_of_a_folder_does_not_change() -> None:
    disk = SimDisk()
    first = load(disk)
    first.close()
    second = load(disk)
    assert (second.cluster_id, second.directory_id) == (first.cluster_id, first.directory_id)


def test_a_folder_of_another_node_is_rejected() -> None:
    disk = SimDisk()
    load(disk, node_id=1).close()
    with pytest.raises(StartupError, match="belongs to node 1, this is node 2"):
        load(disk, node_id=2)


def test_a_folder_of_another_cluster_is_rejected() -> None:
    disk = SimDisk()
    load(disk, cluster_id="a").close()
    with pytest.raises(StartupError, match="belongs to cluster a"):
        load(disk, cluster_id="b")


def test_a_second_process_on_the_same_folder_is_rejected() -> None:
    disk = SimDisk()
    load(disk)
    with pytest.raises(StartupError, match="in use by another process"):
        load(disk)


def test_a_failed_start_releases_the_folder() -> None:
    disk = SimDisk()
    load(disk, node_id=1).close()
    with pytest.raises(StartupError):
        load(disk, node_id=2)
    load(disk, node_id=1)


def test_a_folder_with_logs_but_without_meta_properties_is_rejected() -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, small_settings())
    store.close()
    disk.remove("/data/meta.properties")
    with pytest.raises(StartupError, match=r"no meta\.properties"):
        load(disk)


def test_an_invalid_meta_properties_file_is_rejected() -> None:
    disk = SimDisk()
    load(disk).close()
    disk.replace_file("/data/meta.properties", b"version=1\n")
    with pytest.raises(StartupError, match="cannot be read"):
        load(disk)


def test_an_unwritable_folder_is_rejected() -> None:
    disk = SimDisk()
    disk.failing["make_folder"] = errno.EACCES
    with pytest.raises(StartupError, match="cannot use"):
        load(disk)


def test_a_start_that_fails_closes_its_files_and_releases_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    closed: list[SyncFailure] = []
    with monkeypatch.context() as patched:
        patched.setattr(SyncFailure, "close", lambda failure: closed.append(failure))
        patched.setattr(store_module, "replay", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        with pytest.raises(StartupError, match="cannot use"):
            load(disk)
    assert len(closed) == 1
    load(disk).close()


def test_a_partition_folder_contains_its_topic_id() -> None:
    disk = SimDisk()
    load(disk).open(PARTITION, FIRST_ID, small_settings())
    assert disk.read_file("/data/orders-3/partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


def test_after_a_clean_close_nothing_is_scanned_or_missing() -> None:
    disk = SimDisk()
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, small_settings())
    fill(log, [3] * 30)
    log.advance_start(5)
    store.close()
    assert disk.exists("/data/.kafka_cleanshutdown")
    store = load(disk)
    assert store.was_clean and not disk.exists("/data/.kafka_cleanshutdown")
    log = store.open(PARTITION, FIRST_ID, small_settings())
    assert (log.start_offset, log.end_offset) == (5, 90)
    assert stored(log)[-1].next_offset == 90


def test_without_a_clean_close_the_next_start_recovers() -> None:
    disk = SimDisk()
    store = load(disk)
    fill(store.open(PARTITION, FIRST_ID, small_settings()), [3] * 30)
    store.close(clean=False)
    store = load(disk)
    assert not store.was_clean
    assert store.open(PARTITION, FIRST_ID, small_settings()).end_offset == 90


def test_a_recreated_topic_has_no_records_of_the_old_one() -> None:
    disk, clock = SimDisk(), StillClock()
    store = load(disk, clock=clock)
    append(store.open(PARTITION, FIRST_ID, small_settings()), batch(5))
    store.delete(PARTITION, FIRST_ID)
    log = store.open(PARTITION, SECOND_ID, small_settings())
    assert (log.start_offset, log.end_offset) == (0, 0)


def test_a_deleted_folder_is_renamed_immediately_and_removed_after_the_delay() -> None:
    disk, clock = SimDisk(), StillClock()
    store = load(disk, clock=clock)
    store.open(PARTITION, FIRST_ID, small_settings(file_delete_delay_ms=1000))
    store.delete(PARTITION, FIRST_ID)
    renamed = [name for name in disk.list("/data") if name.endswith("-delete")]
    assert len(renamed) == 1 and renamed[0].startswith("orders-3.")
    store.remove_deleted_folders(clock.wall_ms() + 999)
    assert renamed[0] in disk.list("/data")
    store.remove_deleted_folders(clock.wall_ms() + 1000)
    assert renamed[0] not in disk.list("/data")


def test_the_files_of_a_deleted_partition_are_closed_so_that_their_space_becomes_free() -> None:
    store = load(SimDisk())
    log = store.open(PARTITION, FIRST_ID, small_settings())
    fill(log, [3] * 12)
    log.flush()
    assert len(stored(log)) == 12 and len(log.segments) == 2
    files = [ref(segment.file) for segment in log.segments]
    store.delete(PARTITION, FIRST_ID)
    assert [file() for file in files] == [None, None]


def test_a_deletion_that_a_restart_interrupts_is_finished() -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, small_settings())
    store.delete(PARTITION, FIRST_ID)
    store.close()
    store = load(disk)
    store.remove_deleted_folders(NOW_MS)
    assert not any(name.endswith("-delete") for name in disk.list("/data"))


def test_deleting_another_topic_of_the_same_name_changes_nothing() -> None:
    disk = SimDisk()
    store = load(disk)
    append(store.open(PARTITION, FIRST_ID, small_settings()), batch())
    store.delete(PARTITION, SECOND_ID)
    assert store.get(PARTITION) is not None and disk.exists("/data/orders-3")


def test_the_logs_of_a_deleted_topic_are_invalidated_with_one_sync() -> None:
    disk = SimDisk()
    store = load(disk, journal_group_least=0)
    topic_partitions = [TopicPartition(TopicName("orders"), PartitionIndex(index)) for index in range(20)]
    for topic_partition in topic_partitions:
        log = store.open(topic_partition, FIRST_ID, small_settings())
        append(log, batch())
        append(log, batch())
    before = len(disk.trace)
    store.prepare_delete(topic_partitions, FIRST_ID)
    for topic_partition in topic_partitions:
        store.delete(topic_partition, FIRST_ID)
    assert [path for kind, path in disk.trace[before:] if kind == "sync"] == ["/data/journal.0"]


def test_a_deletion_does_not_invalidate_journal_entries_of_another_topic_with_the_same_name() -> None:
    disk = SimDisk()
    store = load(disk, journal_group_least=0)
    log = store.open(PARTITION, SECOND_ID, small_settings())
    append(log, batch(3))
    append(log, batch(2))
    store.prepare_delete([PARTITION], FIRST_ID)
    store.delete(PARTITION, FIRST_ID)
    disk.crash(kept=0.0)
    assert load(disk).open(PARTITION, SECOND_ID, small_settings()).end_offset == 5


def test_a_folder_of_another_topic_id_is_set_aside_and_never_deleted() -> None:
    disk = SimDisk()
    store = load(disk)
    append(store.open(PARTITION, FIRST_ID, small_settings()), batch(5))
    store.close()
    store = load(disk)
    assert store.open(PARTITION, SECOND_ID, small_settings()).end_offset == 0
    strays = store.strays()
    assert len(strays) == 1 and strays[0].endswith("-stray")
    store.remove_deleted_folders(NOW_MS + 10**10)
    assert disk.exists(f"/data/{strays[0]}/{0:020d}.log")


def test_a_known_folder_without_a_topic_id_is_opened_with_its_records() -> None:
    disk = SimDisk()
    store = load(disk)
    append(store.open(PARTITION, FIRST_ID, small_settings()), batch(5))
    store.close()
    disk.remove("/data/orders-3/partition.metadata")
    store = load(disk)
    assert store.open(PARTITION, FIRST_ID, small_settings()).end_offset == 5
    assert disk.exists("/data/orders-3/partition.metadata")


def dead_folder(disk: SimDisk, metadata: bytes | None, *, count: int) -> None:
    """Lose power before the first acknowledgement of a partition, then delete its topic."""
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, small_settings(flush_mode="os"))
    if count:
        append(log, batch(count))
    disk.remove("/data/held-partitions")
    disk.remove("/data/orders-3/partition.metadata")
    if metadata is not None:
        disk.open("/data/orders-3/partition.metadata", create=True).write((metadata,), 0)
    disk.crash(kept=1.0)


@pytest.mark.parametrize("metadata", [None, b"", b"version", bytes(43)])
def test_a_folder_without_a_durable_topic_id_is_not_used_for_another_topic_with_the_same_name(
    metadata: bytes | None,
) -> None:
    disk = SimDisk()
    dead_folder(disk, metadata, count=5)
    store = load(disk)
    store.open(OTHER_PLACE, FIRST_ID, small_settings())
    assert store.open(PARTITION, SECOND_ID, small_settings()).end_offset == 0
    (stray,) = store.strays()
    assert stray.endswith("-stray") and disk.read_file(f"/data/{stray}/{0:020d}.log")
    disk.crash(kept=0.0)
    assert load(disk).open(PARTITION, SECOND_ID, small_settings()).end_offset == 0


def test_a_folder_of_another_topic_without_records_is_removed() -> None:
    disk = SimDisk()
    dead_folder(disk, None, count=0)
    store = load(disk)
    append(store.open(PARTITION, SECOND_ID, small_settings()), batch(2))
    assert store.strays() == []
    disk.crash(kept=0.0)
    assert load(disk).open(PARTITION, SECOND_ID, small_settings()).end_offset == 2


def test_a_corrupt_topic_id_is_written_again() -> None:
    disk = SimDisk()
    dead_folder(disk, b"version: 0\ntopic_id~ AAAAAAAAAAAAAAAAAAAAAQ", count=5)
    store = load(disk)
    assert store.open(PARTITION, FIRST_ID, small_settings()).end_offset == 5
    assert encode_uuid(FIRST_ID).encode() in disk.read_file("/data/orders-3/partition.metadata")


def test_folders_that_are_not_open_are_listed_and_kept() -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, small_settings())
    store.close()
    disk.make_folder("/data/__cluster_metadata-0")
    assert load(disk).strays() == ["orders-3"]


def test_offsets_of_logs_that_are_not_open_stay_in_the_checkpoints() -> None:
    disk = SimDisk()
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, small_settings())
    fill(log, [3] * 30)
    log.advance_start(5)
    store.close()
    store = load(disk)
    store.checkpoint_recovery_points()
    store.checkpoint_log_starts()
    store.close()
    assert load(disk).open(PARTITION, FIRST_ID, small_settings()).start_offset == 5


def test_a_checkpoint_is_due_when_a_crash_would_scan_more_than_the_active_segment() -> None:
    store = load(SimDisk())
    log = store.open(PARTITION, FIRST_ID, small_settings())
    append(log, batch())
    assert store.unchecked_size(log) == log.size
    log.roll()
    assert store.unchecked_size(log) > UNCHECKED_SIZE_MAX
    store.checkpoint_recovery_points()
    assert store.unchecked_size(log) == 0


def test_a_checkpoint_that_cannot_be_written_is_a_storage_error() -> None:
    disk = SimDisk()
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, small_settings())
    append(log, batch())
    store.checkpoint_recovery_points()
    append(log, batch())
    disk.failing["write"] = errno.ENOSPC
    with pytest.raises(StorageError):
        store.checkpoint_recovery_points()


def test_high_watermarks_are_kept() -> None:
    disk = SimDisk()
    store = load(disk)
    store.checkpoint_high_watermarks({PARTITION: 12})
    store.close()
    assert load(disk).high_watermarks == {PARTITION: 12}


def test_a_failed_sync_is_reported_and_remembered() -> None:
    disk = SimDisk()
    store = load(disk)
    told: list[bool] = []
    store.on_failure = lambda: told.append(True)
    log = store.open(PARTITION, FIRST_ID, small_settings())
    disk.failing["sync"] = errno.EIO
    append(log, batch())
    disk.failing.clear()
    assert told == [True] and store.failure is not None
    store.close()
    assert not disk.exists("/data/.kafka_cleanshutdown")


def test_a_failed_sync_is_remembered_even_when_no_sync_works() -> None:
    disk = SimDisk()
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, small_settings())
    append(log, batch(value=b"kept"))
    disk.failing["sync"] = errno.EIO
    with pytest.raises(StorageError):
        append(log, batch(value=b"in the cache alone"))
        append(log, batch())
    del disk.failing["sync"]
    # The process ends; the page cache still has bytes that never reached the disk.
    disk._locked.clear()
    again = load(disk).open(PARTITION, FIRST_ID, small_settings())
    shown = [header.crc for header in stored(again)]
    disk.crash(kept=0.0)
    assert [header.crc for header in stored(load(disk).open(PARTITION, FIRST_ID, small_settings()))] == shown


def test_the_first_batch_of_a_log_that_was_closed_empty_survives_a_power_failure() -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, small_settings())
    store.close()
    log = load(disk).open(PARTITION, FIRST_ID, small_settings())
    append(log, batch())
    assert log.durable_offset == 1
    disk.crash(kept=0.0)
    assert load(disk).open(PARTITION, FIRST_ID, small_settings()).end_offset == 1


def test_long_topic_names_are_shortened_for_the_suffix() -> None:
    disk = SimDisk()
    store = load(disk)
    topic_partition = TopicPartition(TopicName("t" * 249), PartitionIndex(0))
    store.open(topic_partition, FIRST_ID, small_settings())
    store.delete(topic_partition, FIRST_ID)
    assert all(len(name) <= 255 for name in disk.list("/data"))


@pytest.mark.parametrize(
    ("name", "topic_partition"),
    [
        ("orders-3", PARTITION),
        ("a-b.c_d-12", TopicPartition(TopicName("a-b.c_d"), PartitionIndex(12))),
        ("orders", None),
        ("orders-x", None),
        ("orders-3.00ff-delete", None),
        ("meta.properties", None),
    ],
)
def test_folders_are_named_after_their_partition(name: str, topic_partition: TopicPartition | None) -> None:
    assert parse_folder(name) == topic_partition


def test_an_empty_log_that_begins_at_an_offset_keeps_it_after_a_power_failure() -> None:
    # A new follower of a leader whose records are all deleted has such a log, and joins the ISR with it. If it began at
    # 0 again and led, all replicas would follow, and offsets would be used twice.
    disk = SimDisk()
    log = load(disk).open(PARTITION, FIRST_ID, small_settings())
    log.truncate_fully_and_start_at(3)
    assert log.durable_offset == 3
    disk.crash(kept=0.0)
    again = load(disk).open(PARTITION, FIRST_ID, small_settings())
    assert (again.start_offset, again.end_offset, again.damage) == (3, 3, None)


def test_a_log_that_was_empty_at_a_restart_keeps_its_first_batch_after_a_power_failure() -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, small_settings())
    store.close()
    log = load(disk).open(PARTITION, FIRST_ID, small_settings())
    append(log, batch())
    assert log.durable_offset == 1
    disk.crash(kept=0.0)
    assert load(disk).open(PARTITION, FIRST_ID, small_settings()).end_offset == 1


def test_the_high_watermark_of_a_deleted_partition_is_removed_durably() -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, small_settings())
    store.checkpoint_high_watermarks({PARTITION: 12})
    store.delete(PARTITION, FIRST_ID)
    assert store.high_watermarks == {}
    store.open(PARTITION, SECOND_ID, small_settings())
    disk.crash(kept=0.0)
    assert load(disk).high_watermarks == {}


def test_the_high_watermark_of_a_partition_deleted_before_a_crash_is_not_used_for_a_new_one_with_the_same_name() -> (
    None
):
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, small_settings())
    store.checkpoint_high_watermarks({PARTITION: 12})
    store.delete(PARTITION, FIRST_ID)
    disk.crash(kept=1.0)
    store = load(disk)
    store.open(PARTITION, SECOND_ID, small_settings())
    assert store.high_watermarks == {}
    disk.crash(kept=0.0)
    assert load(disk).high_watermarks == {}


def test_a_high_watermark_missing_from_a_checkpoint_is_not_used_for_a_new_topic_with_the_same_name() -> None:
    disk = SimDisk()
    store = load(disk)
    store.checkpoint_high_watermarks({PARTITION: 12})
    disk.crash(kept=1.0)
    store = load(disk)
    store.checkpoint_high_watermarks({})
    store.open(PARTITION, SECOND_ID, small_settings())
    disk.crash(kept=0.0)
    assert load(disk).high_watermarks == {}


def test_a_high_watermark_in_the_page_cache_is_synced_at_startup() -> None:
    disk = SimDisk()
    store = load(disk)
    store.checkpoint_high_watermarks({PARTITION: 12})
    disk.crash(kept=1.0)
    load(disk).checkpoint_high_watermarks({})
    disk.end_process()
    load(disk)
    disk.crash(kept=0.0)
    assert load(disk).high_watermarks == {}


def test_a_torn_high_watermark_checkpoint_is_removed() -> None:
    disk = SimDisk()
    load(disk).checkpoint_high_watermarks({PARTITION: 12})
    disk.open("/data/replication-offset-checkpoint").truncate(20)
    disk.crash(kept=1.0)
    load(disk)
    assert not disk.exists("/data/replication-offset-checkpoint")


def test_a_high_watermark_beyond_the_end_is_ignored_after_a_power_failure() -> None:
    """With flush.mode=os the end may be lost; a later kill loses nothing, and startup reports no loss."""
    disk = SimDisk()
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, small_settings(flush_mode="os"))
    append(log, batch(5))
    log.flush()
    append(log, batch(5))
    store.note_boot()
    store.checkpoint_high_watermarks({PARTITION: 10})
    file = disk.open("/data/replication-offset-checkpoint")
    file.sync()
    disk.sync_folder("/data")
    disk.crash(kept=0.0)
    for _ in range(2):
        store = load(disk)
        log = store.open(PARTITION, FIRST_ID, small_settings(flush_mode="os"))
        assert (log.damage, log.end_offset) == (None, 5)
        store.note_boot()
        assert store.high_watermarks == {PARTITION: 5}
        disk.end_process()


@pytest.mark.parametrize("kept", [0.0, 1.0])
@pytest.mark.parametrize("restarts", [False, True])
def test_the_recovery_point_of_a_deleted_partition_is_not_used_for_a_new_one_with_the_same_name(
    kept: float, restarts: bool
) -> None:
    disk = SimDisk()
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, small_settings())
    append(log, batch(5))
    append(log, batch(5))
    store.checkpoint_recovery_points()
    store.delete(PARTITION, FIRST_ID)
    if restarts:
        disk.crash(kept=1.0)
        store = load(disk)
    append(store.open(PARTITION, SECOND_ID, small_settings()), batch(1))
    disk.crash(kept=kept)
    log = load(disk).open(PARTITION, SECOND_ID, small_settings())
    assert (log.damage, log.end_offset) == (None, 1)


def test_a_checkpoint_writes_that_a_partition_is_deleted() -> None:
    disk = SimDisk()
    store = load(disk)
    append(store.open(PARTITION, FIRST_ID, small_settings()), batch(5))
    store.checkpoint_recovery_points()
    store.delete(PARTITION, FIRST_ID)
    store.checkpoint_recovery_points()
    assert str(PARTITION.topic) not in disk.read_file("/data/recovery-point-offset-checkpoint").decode()


def test_the_start_of_a_deleted_partition_is_not_used_for_a_new_one_with_the_same_name() -> None:
    disk = SimDisk()
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, small_settings())
    fill(log, [3] * 8)
    log.advance_start(6)
    store.delete(PARTITION, FIRST_ID)
    log = store.open(PARTITION, SECOND_ID, small_settings())
    fill(log, [1])
    disk.crash(kept=0.0)
    log = load(disk).open(PARTITION, SECOND_ID, small_settings())
    assert (log.start_offset, log.end_offset) == (0, 1)


def test_a_damaged_log_is_set_aside_and_removed_after_the_repair() -> None:
    disk = SimDisk()
    clock = StillClock()
    store = load(disk, clock=clock)
    fill(store.open(PARTITION, FIRST_ID, small_settings()), [1, 2])
    store.set_aside_damaged(PARTITION)
    assert store.open(PARTITION, FIRST_ID, small_settings()).end_offset == 0
    aside = [name for name in disk.list("/data") if name.endswith("-damaged")]
    assert len(aside) == 1
    store.remove_damaged(PARTITION)
    store.remove_deleted_folders(clock.now_ms)
    assert disk.exists(f"/data/{aside[0]}")
    store.remove_deleted_folders(clock.now_ms + 10**9)
    assert not disk.exists(f"/data/{aside[0]}")


def test_a_log_that_replaces_a_damaged_one_does_not_inherit_its_high_watermark() -> None:
    store = load(SimDisk())
    fill(store.open(PARTITION, FIRST_ID, small_settings()), [1, 2])
    store.checkpoint_high_watermarks({PARTITION: 2})
    store.set_aside_damaged(PARTITION)
    log = store.open(PARTITION, FIRST_ID, small_settings())
    assert log.damage is None
    assert log.end_offset == 0


def test_a_restart_is_not_reported_as_a_wrong_clock(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    disk, clock = SimDisk(), StillClock()
    store = load(disk, clock=clock)
    store.checkpoint_retention_clock()
    store.close()
    clock.skew_ms = 3_600_000
    again = load(disk, clock=clock)
    assert "retention ignores the last 3600 s for now" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    clock.skew_ms = 0
    again.retention_now_ms()
    clock.skew_ms = 7_200_000
    again.retention_now_ms()
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "the clock jumped forward by 7200 s: retention ignores the jump for now"
    ]


def test_a_truncation_after_the_recovery_point_writes_no_checkpoint() -> None:
    disk = SimDisk()
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, small_settings())
    fill(log, [1] * 3)
    store.checkpoint_recovery_points()
    point = log.recovery_point
    fill(log, [1] * 3)
    written = disk.read_file("/data/recovery-point-offset-checkpoint")
    disk.failing["rename"] = errno.EIO
    log.truncate_to(point)
    assert log.end_offset == point
    assert disk.read_file("/data/recovery-point-offset-checkpoint") == written


class NoTimerClock(StillClock):
    """A clock whose timers never fire: a read-only folder sets one."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return SimpleNamespace(cancel=lambda: None)


def test_a_new_partition_takes_few_disk_calls() -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(OTHER_PLACE, FIRST_ID, small_settings())
    disk.trace.clear()
    store.open(PARTITION, FIRST_ID, small_settings())
    calls = [(kind, path.rpartition("/")[2]) for kind, path in disk.trace]
    first = f"{0:020d}"
    assert calls == [
        ("make_folder", "orders-3"),
        ("open", f"{first}.log"),
        ("open", f"{first}.index"),
        ("open", f"{first}.timeindex"),
        ("write", "held-partitions"),
        ("open", "partition.metadata"),
        ("write", "partition.metadata"),
    ]


def test_a_full_disk_prevents_new_logs_but_not_reads_of_old_ones() -> None:
    disk = SimDisk()
    store = load(disk)
    append(store.open(PARTITION, FIRST_ID, small_settings()), batch(2))
    store.close()
    disk.lose("/data/held-partitions")
    store = load(disk, clock=NoTimerClock())
    note = store._held.note

    def refuse(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store._held.note = refuse  # type: ignore[method-assign, assignment]
    assert store.open(PARTITION, FIRST_ID, small_settings()).end_offset == 2
    with pytest.raises(OSError, match="No space left"):
        store.open(OTHER_PLACE, FIRST_ID, small_settings())
    store._held.note = note  # type: ignore[method-assign]
    assert store.open(OTHER_PLACE, FIRST_ID, small_settings()).end_offset == 0


def test_names_of_a_log_whose_first_batch_was_found_by_recovery_are_synced() -> None:
    disk = SimDisk(syncs_at_once=False)
    store = load(disk)
    append(store.open(PARTITION, FIRST_ID, small_settings()), batch(2))
    disk.end_process()
    disk.syncs_at_once = True
    store = load(disk)
    assert store.open(PARTITION, FIRST_ID, small_settings()).end_offset == 2
    disk.crash(kept=0.0)
    assert load(disk).open(PARTITION, FIRST_ID, small_settings()).end_offset == 2


def test_the_folder_of_a_partition_that_is_not_open_is_deleted_with_its_topic() -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, small_settings())
    store.close()
    store = load(disk)
    store.delete(PARTITION, SECOND_ID)
    assert disk.exists("/data/orders-3"), "it belongs to another topic"
    store.delete(PARTITION, FIRST_ID)
    assert not disk.exists("/data/orders-3")
    assert any(name.endswith("-delete") for name in disk.list("/data"))


def test_the_renames_of_many_deleted_folders_share_syncs() -> None:
    disk = SimDisk()
    store = load(disk)
    places = [TopicPartition(TopicName("orders"), PartitionIndex(index)) for index in range(5)]
    for place in places:
        store.open(place, FIRST_ID, small_settings())
    disk.syncs_at_once = False
    for place in places:
        store.delete(place, FIRST_ID)
    count = 0
    while disk.finish_sync():
        count += 1
    assert count == 2
    disk.crash(kept=0.0)
    assert not [name for name in disk.list("/data") if parse_folder(name) is not None]


def test_a_failed_sync_of_deleted_names_takes_the_folder_offline() -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, small_settings())
    disk.syncs_at_once = False
    store.delete(PARTITION, FIRST_ID)
    disk.finish_sync(OSError(errno.EIO, "gone"))
    assert store.failure is not None


def test_a_deleted_folder_that_cannot_be_removed_is_removed_later() -> None:
    disk, clock = SimDisk(), StillClock()
    store = load(disk, clock=clock)
    store.open(PARTITION, FIRST_ID, small_settings())
    store.delete(PARTITION, FIRST_ID)
    clock.now_ms += 24 * 3600_000
    disk.failing["remove"] = errno.EBUSY
    store.remove_deleted_folders(clock.now_ms)
    assert any(name.endswith("-delete") for name in disk.list("/data"))
    disk.failing.clear()
    store.remove_deleted_folders(clock.now_ms)
    assert not any(name.endswith("-delete") for name in disk.list("/data"))


POINTS = "/data/recovery-point-offset-checkpoint"
MARKS = "/data/replication-offset-checkpoint"
MANY = [TopicPartition(TopicName("many"), PartitionIndex(index)) for index in range(20)]


def write_many(disk: SimDisk, *, flush_mode: str = "fsync", first: bool = True) -> LogStore:
    store = load(disk)
    for each in MANY:
        log = store.open(each, FIRST_ID, small_settings(flush_mode=flush_mode))
        fill(log, [1] * (60 if first else 1))
    return store


def syncs_since(disk: SimDisk, begin: int) -> int:
    return sum(kind in ("sync", "sync_folder") for kind, _ in disk.trace[begin:])


@pytest.mark.parametrize("flush_mode", ["fsync", "os"])
def test_a_clean_close_of_many_logs_needs_few_syncs_and_leaves_everything_durable(flush_mode: str) -> None:
    disk = SimDisk()
    store = write_many(disk, flush_mode=flush_mode)
    begin = len(disk.trace)
    store.close()
    assert syncs_since(disk, begin) < len(MANY)
    disk.crash(kept=0.0)
    again = load(disk)
    assert again.was_clean
    for each in MANY:
        log = again.open(each, FIRST_ID, small_settings(flush_mode=flush_mode))
        assert (log.damage, log.end_offset, len(stored(log))) == (None, 60, 60)
        assert not log.epochs.dirty


def test_a_start_after_a_kill_makes_many_logs_durable_with_few_syncs() -> None:
    disk = SimDisk()
    store = write_many(disk)
    for each in MANY:
        # Written, but neither synced nor acknowledged when the process is killed.
        log = store.logs[each]
        log.flusher.stop()
        append(log, batch())
    disk.end_process()
    begin = len(disk.trace)
    again = load(disk)
    logs = [again.open(each, FIRST_ID, small_settings()) for each in MANY]
    assert syncs_since(disk, begin) < 2 * len(MANY)
    assert all((log.end_offset, log.durable_offset) == (61, 61) for log in logs)
    disk.crash(kept=0.0)
    final = load(disk)
    assert all(final.open(each, FIRST_ID, small_settings()).end_offset == 61 for each in MANY)


def test_many_logs_that_are_truncated_together_share_a_write_of_their_recovery_points() -> None:
    disk = SimDisk()
    store = write_many(disk)
    store.checkpoint_high_watermarks(dict.fromkeys(MANY, 55))
    store.checkpoint_recovery_points()
    begin = len(disk.trace)
    for each in MANY:
        assert store.logs[each].segments.active.base_offset < 56
        store.logs[each].truncate_to(56)
    written = [path for kind, path in disk.trace[begin:] if kind == "rename" and "recovery-point" in path]
    assert len(written) == 1
    disk.crash(kept=0.0)
    again = load(disk)
    for each in MANY:
        log = again.open(each, FIRST_ID, small_settings())
        assert (log.damage, log.end_offset, log.recovery_notes) == (None, 56, ())


def with_jobs(store: LogStore) -> list[Job[Any]]:
    """Return the list of the jobs that the store begins from now on; they do not run by themselves."""
    jobs: list[Job[Any]] = []

    def run(job: Job[Any], done: Callable[[Any, BaseException | None], None]) -> None:
        def steps() -> Job[None]:
            value = yield from job
            done(value, None)

        jobs.append(steps())

    store.directory.run = run
    return jobs


def steps_of(jobs: list[Job[Any]]) -> Iterator[None]:
    """Run the jobs one after the other, with those that begin meanwhile."""
    for job in jobs:
        for _ in job:
            yield


def marks_of(marks: dict[TopicPartition, int]) -> Job[dict[TopicPartition, int]]:
    yield None
    return marks


def test_high_watermarks_are_written_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.store_checkpoints.LOGS_PER_SLICE", 6)
    monkeypatch.setattr("penstock.storage.checkpoint.ENTRIES_PER_SLICE", 6)
    disk = SimDisk()
    store = load(disk)
    jobs = with_jobs(store)
    store.checkpoint_high_watermarks_later(marks_of(dict.fromkeys(MANY, 5)))
    store.checkpoint_high_watermarks_later(marks_of(dict.fromkeys(MANY, 4)))
    assert len(list(jobs[0])) > 2 and len(jobs) == 1
    assert read_offsets(disk, MARKS) == store.high_watermarks == dict.fromkeys(MANY, 5)
    store.checkpoint_high_watermarks_later(marks_of(dict.fromkeys(MANY[1:], 5)))
    list(jobs[1])
    assert read_offsets(disk, MARKS) == store.high_watermarks == dict.fromkeys(MANY[1:], 5)
    calls = disk.calls
    store.checkpoint_high_watermarks_later(marks_of(dict.fromkeys(MANY[1:], 5)))
    list(jobs[2])
    assert disk.calls == calls, "nothing has changed"


@pytest.mark.parametrize("event", ["truncation", "deletion", "checkpoint", "close"])
@pytest.mark.parametrize("slices", [0, 1, 2, 4])
def test_high_watermarks_are_not_written_after_an_event_that_outdates_them(
    slices: int, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.checkpoint.ENTRIES_PER_SLICE", 6)
    disk = SimDisk()
    store = write_many(disk)
    jobs = with_jobs(store)
    store.checkpoint_high_watermarks_later(marks_of(dict.fromkeys(MANY, 55)))
    list(islice(jobs[0], slices + 1))
    if event == "truncation":
        store.logs[MANY[3]].truncate_to(40)
    elif event == "deletion":
        store.delete(MANY[3], FIRST_ID)
    elif event == "checkpoint":
        store.checkpoint_high_watermarks({MANY[3]: 3})
    else:
        store.close()
    list(jobs[0])
    assert store.high_watermarks == ({MANY[3]: 3} if event == "checkpoint" else {})
    assert read_offsets(disk, MARKS) == store.high_watermarks


def test_a_failed_write_of_high_watermarks_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    store = load(disk)
    disk.failing["write"] = errno.ENOSPC
    store.checkpoint_high_watermarks_later(marks_of({PARTITION: 5}))
    disk.failing.clear()
    assert "cannot write the high watermarks" in caplog.text
    assert store.high_watermarks == {}
    store.checkpoint_high_watermarks_later(marks_of({PARTITION: 5}))
    assert read_offsets(disk, MARKS) == {PARTITION: 5}


def test_recovery_points_are_collected_in_slices_and_synced_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.store_checkpoints.LOGS_PER_SLICE", 6)
    monkeypatch.setattr("penstock.storage.checkpoint.ENTRIES_PER_SLICE", 6)
    disk = SimDisk()
    store = write_many(disk)
    jobs = with_jobs(store)
    begin = len(disk.trace)
    disk.syncs_at_once = False
    store.checkpoint_recovery_points_later()
    store.checkpoint_recovery_points_later()
    (gather,) = jobs
    assert len(list(gather)) == len(MANY) // 6
    (_, encode) = jobs
    assert len(list(encode)) > 0
    assert syncs_since(disk, begin) == 0
    while disk.finish_sync():
        pass
    assert read_offsets(disk, POINTS) == {each: store.logs[each].recovery_point for each in MANY}


@pytest.mark.parametrize("kept", [0.0, 1.0])
@pytest.mark.parametrize("synced", range(3))
@pytest.mark.parametrize("slices", [1, len(MANY) // 6 + 1, None])
def test_a_log_that_is_truncated_during_a_checkpoint_is_not_damaged_after_a_power_failure(
    slices: int | None, synced: int, kept: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.store_checkpoints.LOGS_PER_SLICE", 6)
    monkeypatch.setattr("penstock.storage.checkpoint.ENTRIES_PER_SLICE", 6)
    disk = SimDisk()
    store = write_many(disk)
    jobs = with_jobs(store)
    disk.syncs_at_once = False
    store.checkpoint_recovery_points_later()
    for _ in islice(steps_of(jobs), slices):
        pass
    for _ in range(synced):
        disk.finish_sync()
    for each in (MANY[0], MANY[-1]):
        store.logs[each].truncate_to(40)
    for _ in steps_of(jobs):
        pass
    while kept and disk.finish_sync():
        pass
    disk.crash(kept=kept)
    disk.syncs_at_once = True
    again = load(disk)
    for each in MANY:
        log = again.open(each, FIRST_ID, small_settings())
        assert (log.damage, log.end_offset) == (None, 40 if each in (MANY[0], MANY[-1]) else 60)


def test_recovery_points_are_not_lowered_for_others_if_recovery_would_scan_more_or_the_log_is_damaged() -> None:
    disk = SimDisk()
    store = write_many(disk)
    rolled, damaged, single, truncated = MANY[:4]
    store.logs[rolled].roll()
    append(store.logs[rolled], batch(3))
    store.checkpoint_high_watermarks({rolled: 10, damaged: 55, truncated: 55})
    store.checkpoint_recovery_points()
    before = read_offsets(disk, POINTS)
    store.logs[damaged].quarantine.begin(58, "unreadable")
    store.logs[truncated].truncate_to(57)
    after = read_offsets(disk, POINTS)
    assert after[truncated] <= 57
    assert after[rolled] == store.logs[rolled].segments.active.base_offset == 60
    assert (after[damaged], after[single]) == (before[damaged], before[single])


def test_a_failed_sync_of_the_volume_takes_the_folder_offline() -> None:
    disk = SimDisk()
    write_many(disk)
    disk.end_process()
    again = load(disk)
    for each in MANY[:4]:
        again.open(each, FIRST_ID, small_settings())
    disk.failing["sync"] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        again.open(MANY[4], FIRST_ID, small_settings())
    assert again.failure is not None


def test_a_log_that_recovery_changes_is_synced_itself() -> None:
    disk = SimDisk()
    store = write_many(disk)
    for each in MANY:
        file = store.logs[each].segments.active.open_for_append()
        file.write((b"torn",), file.size())
    disk.end_process()
    again = load(disk)
    for each in MANY:
        log = again.open(each, FIRST_ID, small_settings())
        assert (log.end_offset, log.damage) == (60, None)
    disk.crash(kept=0.0)
    final = load(disk)
    for each in MANY:
        log = final.open(each, FIRST_ID, small_settings())
        assert (log.end_offset, log.damage, log.recovery_notes) == (60, None, ())


def test_logs_share_what_is_the_same_for_all_of_them() -> None:
    # Each object that a log has of its own takes a megabyte per ten thousand logs and hundred bytes.
    store = load(SimDisk())
    logs = [store.open(each, FIRST_ID, small_settings()) for each in MANY[:2]]
    for log in logs:
        append(log, batch())
    first, second = (log.segments.active for log in logs)
    assert logs[0].checkpoints is logs[1].checkpoints
    assert first.txn_index.last_offsets is second.txn_index.last_offsets
    assert first.offset_index.positions is second.offset_index.positions
    fill(logs[0], [1] * 10)
    assert len(first.offset_index) > 0
    assert len(second.offset_index) == 0


def test_a_sync_that_fails_while_the_journal_is_replayed_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(journal: Journal, folder: str, reserve: Reserve) -> None:
        journal.on_failure(OSError(errno.EIO, "Input/output error"))

    disk = SimDisk()
    with monkeypatch.context() as patched:
        patched.setattr(store_module, "replay", fails)
        store = load(disk)
        assert store.directory.failed_before
        store.close(clean=False)
    again = load(disk)
    assert again.directory.failed_before
    again.close()
    last = load(disk)
    assert not last.directory.failed_before
    last.close()
