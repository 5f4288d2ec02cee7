"""Missing files at startup: how the previous process ended, what is missing, and the expected result."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from penstock.model.errors import StorageError
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.storage.log import Log
from penstock.storage.segment_list import FILE_NAME as SEGMENT_LIST
from penstock.storage.store import LogStore
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import fill, small_settings, stored
from tests.unit.storage.test_store import FIRST_ID, SECOND_ID, load

PARTITION = TopicPartition(TopicName("orders"), PartitionIndex(3))
FOLDER = f"/data/{PARTITION}"
SETTINGS = small_settings(segment_bytes=600)
COUNT = 12
"""Batches of three records each, a few per segment."""


def clean_stop(store: LogStore, disk: SimDisk) -> None:
    store.close()


def kill(store: LogStore, disk: SimDisk) -> None:
    disk._locked.clear()


def power_loss(store: LogStore, disk: SimDisk) -> None:
    disk.crash(kept=0.0)


ENDS = (clean_stop, kill, power_loss)


def segments(disk: SimDisk) -> list[str]:
    return [name for name in disk.list(FOLDER) if name.endswith(".log")]


def lose_segment(slot: int) -> Callable[[SimDisk], None]:
    def lose(disk: SimDisk) -> None:
        disk.lose(f"{FOLDER}/{segments(disk)[slot]}")

    return lose


def cut_segment(slot: int, size: int) -> Callable[[SimDisk], None]:
    def cut(disk: SimDisk) -> None:
        disk.cut_off(f"{FOLDER}/{segments(disk)[slot]}", size)

    return cut


def lose_endings(*endings: str) -> Callable[[SimDisk], None]:
    def lose(disk: SimDisk) -> None:
        for name in disk.list(FOLDER):
            if name.endswith(endings):
                disk.lose(f"{FOLDER}/{name}")

    return lose


def lose_in_data_folder(*names: str) -> Callable[[SimDisk], None]:
    def lose(disk: SimDisk) -> None:
        for name in names:
            disk.lose(f"/data/{name}")

    return lose


CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint")


@dataclass(frozen=True)
class Case:
    name: str
    lose: Callable[[SimDisk], None]
    damaged_from: int | None
    """The first offset that must not be served; None if the log must be complete."""


CASES = (
    Case("nothing", lambda disk: None, None),
    Case("folder", lambda disk: disk.lose(FOLDER), 0),
    Case("all segments", lose_endings(".log"), 0),
    Case("first segment", lose_segment(0), 0),
    Case("a segment in the middle", lose_segment(1), 6),
    Case("the last closed segment", lose_segment(-2), 24),
    Case("the active segment", lose_segment(-1), 30),
    Case("the first closed segment is cut between batches", cut_segment(0, 0), 0),
    Case("a closed segment is cut within a batch", cut_segment(1, 300), 9),
    Case("indexes", lose_endings(".index", ".timeindex"), None),
    Case("snapshots and epochs", lose_endings(".snapshot", "leader-epoch-checkpoint"), None),
    Case("partition.metadata", lose_endings("partition.metadata"), None),
    Case("the segment list", lose_endings(SEGMENT_LIST), None),
    Case("checkpoints", lose_in_data_folder(*CHECKPOINTS), None),
    Case("held-partitions", lose_in_data_folder("held-partitions"), None),
)


def filled(disk: SimDisk, store: LogStore | None = None) -> LogStore:
    store = store or load(disk)
    log = store.open(PARTITION, FIRST_ID, SETTINGS)
    fill(log, [3] * COUNT)
    assert log.durable_offset == log.end_offset == 36
    assert log.segments.bases == [0, 6, 12, 18, 24, 30]
    return store


def reopened(disk: SimDisk) -> Log:
    return load(disk).open(PARTITION, FIRST_ID, SETTINGS)


def check_refusals(log: Log, damaged_from: int) -> None:
    assert log.damaged_from == damaged_from and log.damage is not None
    assert log.start_offset == 0
    if damaged_from:
        piece = log.read(0, max_bytes=1 << 20, end=log.end_offset)
        assert piece is not None
    for offset in (damaged_from, 35):
        with pytest.raises(StorageError):
            log.read(offset, max_bytes=1 << 20, end=log.end_offset)
    with pytest.raises(StorageError):
        fill(log, [1])


@pytest.mark.parametrize("end", ENDS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda each: each.name)
def test_startup_detects_missing_records(case: Case, end: Callable[[LogStore, SimDisk], None]) -> None:
    disk = SimDisk()
    end(filled(disk), disk)
    case.lose(disk)
    log = reopened(disk)
    if case.damaged_from is None:
        assert log.damage is None
        assert [header.base_offset for header in stored(log)] == list(range(0, 36, 3))
        assert fill(log, [3]) == [36]
    else:
        check_refusals(log, case.damaged_from)


@pytest.mark.parametrize("again", ENDS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("case", [each for each in CASES if each.damaged_from is not None], ids=lambda each: each.name)
def test_damage_is_not_forgotten_by_later_starts(case: Case, again: Callable[[LogStore, SimDisk], None]) -> None:
    disk = SimDisk()
    clean_stop(filled(disk), disk)
    case.lose(disk)
    assert case.damaged_from is not None
    for _ in range(3):
        store = load(disk)
        check_refusals(store.open(PARTITION, FIRST_ID, SETTINGS), case.damaged_from)
        store.checkpoint_recovery_points()
        store.checkpoint_log_starts()
        again(store, disk)


@pytest.mark.parametrize("end", ENDS, ids=lambda each: each.__name__)
def test_a_missing_log_is_detected_from_its_first_acknowledged_record_on(
    end: Callable[[LogStore, SimDisk], None],
) -> None:
    for lose in (lambda disk: disk.lose(FOLDER), lose_endings(".log")):
        disk = SimDisk()
        store = load(disk)
        fill(store.open(PARTITION, FIRST_ID, SETTINGS), [1])
        end(store, disk)
        lose(disk)
        assert reopened(disk).damaged_from == 0


@pytest.mark.parametrize("end", ENDS, ids=lambda each: each.__name__)
def test_an_empty_log_may_lose_its_folder(end: Callable[[LogStore, SimDisk], None]) -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, SETTINGS)
    store.note_boot()
    end(store, disk)
    if disk.exists(FOLDER):
        disk.lose(FOLDER)
    log = reopened(disk)
    assert log.damage is None and fill(log, [1]) == [0]


@pytest.mark.parametrize(("end", "is_lost"), [(clean_stop, True), (kill, True), (power_loss, False)])
def test_missing_unsynced_records_are_damage_unless_power_failed(
    end: Callable[[LogStore, SimDisk], None], is_lost: bool
) -> None:
    disk = SimDisk()
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, small_settings(flush_mode="os"))
    store.note_boot()
    fill(log, [1])
    end(store, disk)
    if disk.exists(FOLDER):
        disk.lose(FOLDER)
    again = load(disk).open(PARTITION, FIRST_ID, small_settings(flush_mode="os"))
    assert (again.damage is not None) == is_lost


def test_a_missing_end_is_detected_by_the_recovery_point_or_the_high_watermark() -> None:
    for marked in (True, False):
        disk = SimDisk()
        store = filled(disk)
        if marked:
            store.checkpoint_high_watermarks({PARTITION: 36})
        else:
            store.checkpoint_recovery_points()
        kill(store, disk)
        path = f"{FOLDER}/{segments(disk)[-1]}"
        disk.cut_off(path, len(disk.read_file(path)) - 10)
        assert reopened(disk).damaged_from == 33


def test_a_truncation_lowers_the_saved_high_watermark() -> None:
    disk = SimDisk()
    store = filled(disk)
    store.checkpoint_high_watermarks({PARTITION: 36})
    store.logs[PARTITION].truncate_to(10)
    power_loss(store, disk)
    log = reopened(disk)
    assert (log.damage, log.end_offset) == (None, 9)


@pytest.mark.parametrize("end", ENDS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("target", [0, 6, 10, 30, 33, 100])
def test_truncation_removes_derived_state(end: Callable[[LogStore, SimDisk], None], target: int) -> None:
    disk = SimDisk()
    store = filled(disk)
    if target in (0, 100):
        store.logs[PARTITION].truncate_fully_and_start_at(target)
    else:
        store.logs[PARTITION].truncate_to(target)
    log_end = store.logs[PARTITION].end_offset
    end(store, disk)
    log = reopened(disk)
    assert (log.damage, log.end_offset) == (None, log_end)
    assert fill(log, [3] * 6)[0] == log_end
    end(store, disk)


def test_the_loss_of_an_emptied_log_is_detected_once_it_has_records() -> None:
    disk = SimDisk()
    store = filled(disk)
    log = store.logs[PARTITION]
    log.truncate_fully_and_start_at(100)
    fill(log, [1])
    power_loss(store, disk)
    lose_endings(".log")(disk)
    assert reopened(disk).damaged_from == 100


@pytest.mark.parametrize("lost", [(), ("log-start-offset-checkpoint",)])
def test_deleted_segments_do_not_count_as_lost(lost: tuple[str, ...]) -> None:
    disk = SimDisk()
    store = filled(disk)
    log = store.logs[PARTITION]
    log.advance_start(14)
    log.delete_old_segments(high_watermark=36, now_ms=0)
    log.deletes.remove_due(1 << 60)
    assert log.segments.bases[0] == 12
    kill(store, disk)
    lose_in_data_folder(*lost)(disk)
    assert reopened(disk).damage is None


def test_a_recreated_topic_does_not_count_the_old_folder_as_lost() -> None:
    for end in ENDS:
        disk = SimDisk()
        store = filled(disk)
        store.checkpoint_recovery_points()
        store.checkpoint_high_watermarks({PARTITION: 36})
        store.delete(PARTITION, FIRST_ID)
        end(store, disk)
        log = load(disk).open(PARTITION, SECOND_ID, SETTINGS)
        assert (log.damage, log.end_offset) == (None, 0)


def test_a_replica_that_was_removed_and_assigned_again_is_new() -> None:
    disk = SimDisk()
    store = filled(disk)
    store.delete(PARTITION, FIRST_ID)
    assert store.open(PARTITION, FIRST_ID, SETTINGS).end_offset == 0
    assert store.logs[PARTITION].damage is None


def test_a_damaged_log_that_was_set_aside_does_not_count_as_lost() -> None:
    for end in ENDS:
        disk = SimDisk()
        clean_stop(filled(disk), disk)
        disk.lose(FOLDER)
        store = load(disk)
        assert store.open(PARTITION, FIRST_ID, SETTINGS).damage is not None
        store.set_aside_damaged(PARTITION)
        assert store.open(PARTITION, FIRST_ID, SETTINGS).damage is None
        end(store, disk)
        log = reopened(disk)
        assert (log.damage, log.end_offset) == (None, 0)


def test_unlisted_segments_are_accepted_and_listed() -> None:
    disk = SimDisk()
    clean_stop(filled(disk), disk)
    disk.lose("/data/held-partitions")
    disk.lose(f"{FOLDER}/{SEGMENT_LIST}")
    store = load(disk)
    assert store.open(PARTITION, FIRST_ID, SETTINGS).damage is None
    kill(store, disk)
    disk.lose(f"{FOLDER}/{segments(disk)[1]}")
    assert reopened(disk).damaged_from == 6


def test_a_missing_folder_without_the_table_is_detected_by_its_recovery_point() -> None:
    disk = SimDisk()
    clean_stop(filled(disk), disk)
    disk.lose("/data/held-partitions")
    disk.lose(FOLDER)
    assert reopened(disk).damaged_from == 0


def test_restored_files_repair_the_log() -> None:
    disk = SimDisk()
    clean_stop(filled(disk), disk)
    path = f"{FOLDER}/{segments(disk)[1]}"
    content = disk.read_file(path)
    disk.lose(path)
    store = load(disk)
    assert store.open(PARTITION, FIRST_ID, SETTINGS).damaged_from == 6
    kill(store, disk)
    disk.replace_file(path, content)
    log = reopened(disk)
    assert log.damage is None and len(stored(log)) == COUNT


def test_partitions_created_together_share_the_sync_of_their_folders() -> None:
    disk = SimDisk()
    store = load(disk)
    logs = [
        store.open(TopicPartition(TopicName("many"), PartitionIndex(index)), FIRST_ID, SETTINGS) for index in range(20)
    ]
    disk.trace.clear()
    for log in logs:
        fill(log, [1])
    syncs = [path for kind, path in disk.trace if kind == "sync_folder"]
    assert syncs.count("/data") == 1 and len(syncs) == 21
    power_loss(store, disk)
    assert all(load_one(disk, log.topic_partition).end_offset == 1 for log in logs)


def load_one(disk: SimDisk, topic_partition: TopicPartition) -> Log:
    disk._locked.clear()
    return load(disk).open(topic_partition, FIRST_ID, SETTINGS)


def test_a_missing_unsynced_end_of_a_closed_segment_is_not_damage() -> None:
    disk = SimDisk(syncs_at_once=False)
    store = load(disk)
    log = store.open(PARTITION, FIRST_ID, SETTINGS)
    fill(log, [3])
    while disk.finish_sync():
        pass
    store.checkpoint_recovery_points()
    fill(log, [3, 3])
    assert log.segments.bases == [0, 6] and log.durable_offset == 3
    path = f"{FOLDER}/{segments(disk)[0]}"
    kept = len(disk.read_file(path)) // 2
    disk.crash(kept=1.0)
    disk.cut_off(path, kept)
    again = reopened(disk)
    assert (again.damage, again.end_offset) == (None, 3)


@pytest.mark.parametrize("undone", [0, 1])
def test_a_deletion_that_a_power_failure_partly_undid_is_finished(undone: int) -> None:
    disk = SimDisk()
    store = filled(disk)
    log = store.logs[PARTITION]
    contents = {name: disk.read_file(f"{FOLDER}/{name}") for name in segments(disk)}
    log.advance_start(14)
    log.delete_old_segments(high_watermark=36, now_ms=0)
    log.deletes.remove_due(1 << 60)
    power_loss(store, disk)
    for name in list(contents)[:2]:
        disk.lose(f"{FOLDER}/{name}")
    name = list(contents)[undone]
    disk.replace_file(f"{FOLDER}/{name}", contents[name])
    again = reopened(disk)
    assert (again.damage, again.start_offset, again.end_offset) == (None, 14, 36)
    assert again.segments.bases[0] == 12
