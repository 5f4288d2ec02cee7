"""Tests that stop at every disk call, lose power, and restart: invariants 44, 47, 49 and 21."""

import errno
from random import Random
from typing import Any

import pytest

from penstock.model.errors import StorageError
from penstock_sim.disk import Crashed, SimDisk
from tests.crash.workload import (
    PARTITIONS,
    TOPIC_ID,
    Life,
    check_derived,
    check_goes_on,
    check_partition,
    load,
    settings,
)

pytestmark = pytest.mark.usefixtures("small_size_max")


def count_calls(flush_mode: str = "fsync", *, syncs_at_once: bool = True) -> int:
    disk = SimDisk(syncs_at_once=syncs_at_once)
    Life(disk, flush_mode=flush_mode).run()
    return disk.calls


def reopen_and_check(life: Life, *, durable: bool = True) -> None:
    store = load(life.disk)
    for topic_partition in PARTITIONS:
        log = store.open(topic_partition, TOPIC_ID, settings(flush_mode=life.flush_mode))
        check_partition(log, life.partitions[topic_partition], durable=durable)
        check_derived(log)
        check_goes_on(log, life.partitions[topic_partition])
    store.close()


def live_until(call: int, *, flush_mode: str = "fsync", syncs_at_once: bool = True) -> Life:
    disk = SimDisk(call, syncs_at_once=syncs_at_once)
    disk.fail_at[call] = None
    life = Life(disk, flush_mode=flush_mode)
    with pytest.raises(Crashed):
        life.run()
    return life


def first_of(count: int) -> list[Any]:
    """Return the ranges of disk calls by number; all but the first are slow."""
    return [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, count))]


@pytest.mark.parametrize("luck", first_of(6))
def test_a_power_failure_at_any_call_loses_no_acknowledged_record(luck: int) -> None:
    for call in range(1 + luck, count_calls() + 1, 6):
        life = live_until(call)
        life.disk.crash(Random(f"{luck}:{call}"))
        reopen_and_check(life)


@pytest.mark.parametrize("flush_mode", ["fsync", "os"])
@pytest.mark.parametrize("luck", first_of(3))
def test_a_power_failure_at_any_call_loses_no_acknowledged_record_if_the_volume_is_synced(
    luck: int, flush_mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.directory.SYNCED_ALONE_MAX", 0)
    monkeypatch.setattr("penstock.storage.store.SYNCED_ALONE_MAX", 0)
    random = Random(f"volume:{luck}")
    for call in range(1 + luck, count_calls(flush_mode) + 1, 9):
        life = live_until(call, flush_mode=flush_mode)
        life.disk.crash(random)
        life.disk.fail_at[life.disk.calls + random.randrange(1, 80)] = None
        try:
            reopen_and_check(life, durable=flush_mode == "fsync")
        except Crashed:
            life.disk.crash(random)
            if flush_mode == "fsync":
                reopen_and_check_again(life)


@pytest.mark.parametrize("luck", first_of(4))
def test_batches_that_share_a_sync_are_durable_together_or_not_acknowledged(luck: int) -> None:
    for call in range(1 + luck, count_calls(syncs_at_once=False) + 1, 4):
        life = live_until(call, syncs_at_once=False)
        life.disk.crash(Random(f"{luck}:{call}"))
        life.disk.syncs_at_once = True
        reopen_and_check(life)


@pytest.mark.parametrize("luck", first_of(2))
def test_a_process_killed_at_any_call_loses_no_write(luck: int) -> None:
    for call in range(1 + 3 * luck, count_calls("os") + 1, 6):
        life = live_until(call, flush_mode="os")
        life.disk.crash(kept=1.0)
        reopen_and_check(life)


@pytest.mark.parametrize("luck", first_of(2))
def test_a_power_failure_without_group_commit_loses_only_the_end_of_the_log(luck: int) -> None:
    for call in range(2 + 3 * luck, count_calls("os") + 1, 6):
        life = live_until(call, flush_mode="os")
        life.disk.crash(Random(call))
        reopen_and_check(life, durable=False)


def test_a_second_crash_during_recovery_changes_nothing() -> None:
    random = Random("twice")
    total = count_calls()
    for _ in range(60):
        life = live_until(random.randrange(1, total + 1))
        life.disk.crash(random)
        life.disk.fail_at[life.disk.calls + random.randrange(1, 40)] = None
        try:
            reopen_and_check(life)
        except Crashed:
            life.disk.crash(random)
            # The interrupted check appended these itself.
            reopen_and_check_again(life)


def reopen_and_check_again(life: Life) -> None:
    store = load(life.disk)
    for topic_partition in PARTITIONS:
        log = store.open(topic_partition, TOPIC_ID, settings(flush_mode=life.flush_mode))
        assert log.damage is None, log.damage
        known = life.partitions[topic_partition]
        for offset, sealed in known.acknowledged.items():
            if offset >= log.start_offset:
                piece = log.read(offset, max_bytes=1, end=log.end_offset)
                assert piece is not None and piece.file.read(piece.size, piece.position) == sealed
        check_derived(log)


@pytest.mark.parametrize("luck", first_of(4))
def test_a_failed_disk_call_is_reported_or_harmless(luck: int) -> None:
    """Check that no partial batch is visible; a failed sync stops the directory, and a restart finds all records."""
    error = errno.EIO if luck % 2 else errno.ENOSPC
    for call in range(1 + luck, count_calls() + 1, 4):
        disk = SimDisk(call)
        disk.fail_at[call] = error
        life = Life(disk)
        try:
            life.run()
        except (StorageError, OSError):
            pass
        except Exception as refusal:
            assert str(refusal).startswith(("cannot use", "cannot replay")), (
                f"call {call} {disk.trace[-1]}: {refusal!r}"
            )
        disk.crash(Random(call))
        reopen_and_check(life)
