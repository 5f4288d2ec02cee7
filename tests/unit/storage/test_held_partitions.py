from uuid import UUID

import pytest

from penstock.storage.held_partitions import FILE_NAME, HeldPartitions, Holding
from penstock_sim.disk import SimDisk

FIRST, SECOND = (UUID(int=1), 0), (UUID(int=1), 1)


def held_on(disk: SimDisk) -> HeldPartitions:
    disk.make_folder("/data")
    return HeldPartitions(disk, "/data")


def test_saved_states_are_loaded() -> None:
    disk = SimDisk()
    held = held_on(disk)
    assert held.is_new and held[FIRST] is Holding.UNKNOWN
    held.note(FIRST, Holding.CREATED)
    held.note(SECOND, Holding.HELD)
    held.note(FIRST, Holding.HELD)
    again = held_on(disk)
    assert (again.is_new, again[FIRST], again[SECOND]) == (False, Holding.HELD, Holding.HELD)


def test_synced_states_survive_a_power_failure() -> None:
    disk = SimDisk()
    held = held_on(disk)
    disk.sync_folder("/")
    held.note(FIRST, Holding.HELD)
    held.sync()
    held.note(SECOND, Holding.CREATED)
    disk.crash(kept=0.0)
    again = held_on(disk)
    assert (again[FIRST], again[SECOND]) == (Holding.HELD, Holding.UNKNOWN)


def test_a_removed_partition_that_returns_is_new_after_a_power_failure() -> None:
    disk = SimDisk()
    held = held_on(disk)
    disk.sync_folder("/")
    held.note(FIRST, Holding.HELD)
    held.sync()
    held.note(FIRST, Holding.UNKNOWN)
    held.note(FIRST, Holding.CREATED)
    disk.crash(kept=0.0)
    assert held_on(disk)[FIRST] is Holding.CREATED


def test_a_freed_slot_is_used_again() -> None:
    disk = SimDisk()
    held = held_on(disk)
    for round_ in range(5):
        key = (UUID(int=round_), 0)
        held.note(key, Holding.HELD)
        held.note(key, Holding.UNKNOWN)
    held.note(FIRST, Holding.HELD)
    assert len(disk.read_file(f"/data/{FILE_NAME}")) == 32
    assert held_on(disk)[FIRST] is Holding.HELD


def test_slots_can_change_on_a_full_disk() -> None:
    disk = SimDisk()
    held = held_on(disk)
    held.note(FIRST, Holding.CREATED)
    disk.capacity = 32
    held.note(FIRST, Holding.HELD)
    with pytest.raises(OSError):
        held.note(SECOND, Holding.CREATED)
    disk.capacity = None
    held.note(SECOND, Holding.CREATED)
    again = held_on(disk)
    assert (again[FIRST], again[SECOND]) == (Holding.HELD, Holding.CREATED)


@pytest.mark.parametrize("position", range(28))
def test_a_damaged_slot_is_ignored_and_the_others_are_read(position: int) -> None:
    disk = SimDisk()
    held = held_on(disk)
    held.note(FIRST, Holding.HELD)
    held.note(SECOND, Holding.HELD)
    disk.flip(f"/data/{FILE_NAME}", position, 0x10)
    again = held_on(disk)
    assert (again[FIRST], again[SECOND]) == (Holding.UNKNOWN, Holding.HELD)


def test_a_restart_of_the_machine_is_noticed() -> None:
    disk = SimDisk()
    held = held_on(disk)
    assert not held.is_same_boot
    held.note_boot()
    assert held_on(disk).is_same_boot
    disk.crash(kept=1.0)
    assert not held_on(disk).is_same_boot


def test_a_torn_slot_at_the_end_is_used_again() -> None:
    disk = SimDisk()
    held = held_on(disk)
    held.note(FIRST, Holding.HELD)
    size = len(disk.read_file(f"/data/{FILE_NAME}"))
    held.note(SECOND, Holding.HELD)
    held.close()
    disk.cut_off(f"/data/{FILE_NAME}", size + 5)
    again = held_on(disk)
    assert (again[FIRST], again[SECOND]) == (Holding.HELD, Holding.UNKNOWN)
    again.note(SECOND, Holding.HELD)
    again.close()
    assert held_on(disk)[SECOND] is Holding.HELD
    assert len(disk.read_file(f"/data/{FILE_NAME}")) == 2 * size
