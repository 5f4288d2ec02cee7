"""Logs whose files cannot be read or opened at startup: what is detected, served and discarded."""

import errno
from collections.abc import Callable

import pytest

from penstock.model.errors import StorageError
from penstock.storage.lenient_disk import SECTOR_SIZE, LenientFile
from penstock.storage.log import Log
from penstock.storage.store import LogStore
from penstock.wire.batch import BatchHeader
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import append, batch, stored
from tests.unit.storage.test_accept_loss import ALL, accept, reopened
from tests.unit.storage.test_accept_loss import stored as stored_records
from tests.unit.storage.test_damage import FOLDER, PARTITION, SETTINGS, clean_stop, filled, kill, power_loss, segments
from tests.unit.storage.test_store import FIRST_ID, load

Lose = Callable[[SimDisk], None]


def bad_sector(slot: int) -> Lose:
    def lose(disk: SimDisk) -> None:
        disk.make_unreadable(f"{FOLDER}/{segments(disk)[slot]}", 100, 120, lasting=True)
        # Startup reads neither a cleanly closed log nor segments below the recovery point.
        disk.lose("/data/.kafka_cleanshutdown")
        if slot >= 0:
            disk.lose("/data/recovery-point-offset-checkpoint")

    return lose


def unopenable(slot: int) -> Lose:
    return lambda disk: disk.make_unreadable(f"{FOLDER}/{segments(disk)[slot]}", -1, 0, lasting=True)


def all_unopenable(disk: SimDisk) -> None:
    for name in segments(disk):
        disk.make_unreadable(f"{FOLDER}/{name}", -1, 0, lasting=True)


def unreadable_file(name: str) -> Lose:
    return lambda disk: disk.make_unreadable(f"{FOLDER}/{name}", 0, 1, lasting=True)


def contents(disk: SimDisk) -> dict[str, bytes]:
    return {name: bytes(disk._file(f"{FOLDER}/{name}").content) for name in disk.list(FOLDER)}


def opened_as_damaged(store: LogStore) -> Log:
    with pytest.raises(OSError, match="Input/output error") as refused:
        store.open(PARTITION, FIRST_ID, SETTINGS)
    log = store.open_unreadable(PARTITION, FIRST_ID, SETTINGS, str(refused.value))
    assert log is not None
    assert store.get(PARTITION) is log
    return log


@pytest.mark.parametrize("end", [clean_stop, kill, power_loss])
@pytest.mark.parametrize(
    ("lose", "damaged_from"),
    [
        (bad_sector(0), 0), (bad_sector(2), 12), (bad_sector(-1), 30), (unopenable(0), 0), (unopenable(1), 6),
        (unopenable(-1), 30), (all_unopenable, 0), (unreadable_file("segments"), 36),
        (unreadable_file("partition.metadata"), 36),
    ],
    ids=["first", "middle", "active", "first does not open", "middle does not open", "active does not open",
         "none opens", "the list", "the topic id"],
)  # fmt: skip
def test_an_unreadable_log_is_damaged_from_the_unreadable_part_and_not_changed(
    lose: Lose, damaged_from: int, end: Callable[[LogStore, SimDisk], None]
) -> None:
    disk = SimDisk()
    end(filled(disk), disk)
    lose(disk)
    before = contents(disk)
    store = load(disk)
    log = opened_as_damaged(store)
    assert (log.damaged_from, log.start_offset) == (damaged_from, 0)
    assert "Input/output error" in str(log.damage)
    if damaged_from:
        assert log.end_offset == 36 if damaged_from < 30 or end is clean_stop else log.end_offset >= 30
        assert [header.base_offset for header in stored_before(log, damaged_from)] == list(range(0, damaged_from, 3))
    with pytest.raises(StorageError):
        log.read(max(damaged_from, 1), max_bytes=1000, end=37)
    with pytest.raises(StorageError):
        append(log, batch())
    store.close()
    assert contents(disk) == before


def stored_before(log: Log, offset: int) -> list[BatchHeader]:
    return stored(log, below=offset)


def test_a_log_that_is_readable_again_is_complete() -> None:
    disk = SimDisk()
    kill(filled(disk), disk)
    path = f"{FOLDER}/{segments(disk)[-1]}"
    disk.make_unreadable(path, 100, 120)
    store = load(disk)
    assert opened_as_damaged(store).damaged_from == 30
    disk.read_well()
    log = store.open(PARTITION, FIRST_ID, SETTINGS)
    assert (log.damage, log.end_offset, log.quarantine.is_provisional) == (None, 36, False)
    assert store.open(PARTITION, FIRST_ID, SETTINGS) is log
    append(log, batch())


def test_what_is_unreadable_behind_other_damage_does_not_take_the_folder_offline_after_a_failed_sync() -> None:
    disk = SimDisk()
    kill(filled(disk), disk)
    lost, unreadable = segments(disk)[1], segments(disk)[3]
    disk.lose(f"{FOLDER}/{lost}")
    disk.make_unreadable(f"{FOLDER}/{unreadable}", 100, 120, lasting=True)
    disk.lose("/data/recovery-point-offset-checkpoint")
    store = load(disk)
    store.directory.failed_before = True
    log = store.open(PARTITION, FIRST_ID, SETTINGS)
    assert (log.damaged_from, store.directory.failure) == (6, None)
    assert [header.base_offset for header in stored_before(log, 6)] == [0, 3]
    store.close()


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "quarantine", ".snapshot", ".index", ".timeindex"])
def test_files_that_are_derived_from_the_log_need_not_be_readable(name: str) -> None:
    disk = SimDisk()
    store = filled(disk)
    if name == "quarantine":
        disk.open(f"{FOLDER}/quarantine", create=True).write((b"0\n3\nrot\n",), 0)
    clean_stop(store, disk)
    for found in disk.list(FOLDER):
        if found.endswith(name):
            disk.make_unreadable(f"{FOLDER}/{found}", 0, 1 << 20, lasting=True)
    log = load(disk).open(PARTITION, FIRST_ID, SETTINGS)
    assert log.damage is None
    assert len(stored(log)) == 12
    assert log.lookup_time(0) is not None


def test_an_empty_log_is_opened_again_and_not_damaged() -> None:
    disk = SimDisk()
    store = load(disk)
    store.open(PARTITION, FIRST_ID, SETTINGS)
    store.close()
    for name in segments(disk):
        disk.lose(f"{FOLDER}/{name}")
    store = load(disk)
    assert store.open_unreadable(PARTITION, FIRST_ID, SETTINGS, "EIO") is None


def test_the_folder_of_an_unknown_topic_serves_nothing() -> None:
    disk = SimDisk()
    clean_stop(filled(disk), disk)
    disk.lose("/data/held-partitions")
    unreadable_file("partition.metadata")(disk)
    assert opened_as_damaged(load(disk)).damaged_from == 0


@pytest.mark.parametrize(
    ("lose", "given_up", "left", "start"),
    [
        (bad_sector(2), [(12, 17)], ALL - {12, 15}, 0),
        (bad_sector(-1), [(30, 35)], ALL - {30, 33}, 0),
        (unopenable(0), [(0, 5)], ALL - {0, 3}, 6),
        (unopenable(1), [(6, 11)], ALL - {6, 9}, 0),
        (all_unopenable, [(0, 35)], set(), 36),
    ],
    ids=["middle", "active", "first does not open", "middle does not open", "none opens"],
)
def test_the_loss_of_unreadable_records_can_be_accepted(
    lose: Lose, given_up: list[tuple[int, int]], left: set[int], start: int
) -> None:
    disk = SimDisk()
    clean_stop(filled(disk), disk)
    lose(disk)
    assert accept(disk, confirmed=False).given_up == given_up
    found = accept(disk)
    assert (found.given_up, found.start_offset, found.end_offset) == (given_up, start, 36)
    log = reopened(disk)
    assert (log.damage, log.start_offset, log.end_offset) == (None, start, 36)
    assert {header.base_offset for header in stored_records(log)} == left


def test_only_unreadable_sectors_are_zeros() -> None:
    disk = SimDisk()
    content = bytes(range(1, 256)) * 100
    file = disk.open("/file", create=True)
    file.write((content,), 0)
    disk.make_unreadable("/file", SECTOR_SIZE, 2 * SECTOR_SIZE)
    lenient = LenientFile("/file", file)
    expected = content[:SECTOR_SIZE] + bytes(SECTOR_SIZE) + content[2 * SECTOR_SIZE :]
    assert lenient.read(1 << 20, 0) == expected
    for position in (0, 100, SECTOR_SIZE, SECTOR_SIZE + 100, 3 * SECTOR_SIZE):
        for size in (1, 50, SECTOR_SIZE, 2 * SECTOR_SIZE):
            assert lenient.read(size, position) == expected[position : position + size]
    buffer = bytearray(300)
    assert lenient.read_into(buffer, 100) == 300
    assert bytes(buffer) == content[100:400]


def test_a_sync_that_fails_while_a_log_is_recovered_takes_the_folder_offline() -> None:
    disk = SimDisk()
    kill(filled(disk), disk)
    store = load(disk)
    disk.failing["sync"] = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        store.open(PARTITION, FIRST_ID, SETTINGS)
    del disk.failing["sync"]
    assert store.directory.failure is not None, "the next sync would succeed without writing what was dropped"
