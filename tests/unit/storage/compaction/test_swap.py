"""Operations on a log between the steps of a swap, while the folder is being synced."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from penstock.model.errors import StorageError
from penstock.storage.compaction.cleaner import Cleaner
from penstock_sim.disk import SimDisk
from tests.support.compacting import cleaner_for
from tests.unit.storage.compaction.compacted_partition import PARTITION, TOPIC_ID, CompactedPartition

KEYS = 5
RECORDS = 60
GAPS = (1, 2)
"""A swap waits until the commit is durable, then until the old names are removed."""


class Swapping(CompactedPartition):
    """A log whose first group is being swapped, with this many of the two syncs outstanding."""

    def __init__(self, gap: int) -> None:
        super().__init__(SimDisk(syncs_at_once=True))
        for number in range(RECORDS):
            self.put_number(number)
        self.log.roll()
        self.before = self.table()
        self.bases = list(self.log.segments.bases)
        self.disk.syncs_at_once = False
        self.cleaner: Cleaner = cleaner_for(self.store, self.disk, self.clock)
        self.cleaner.find_work()
        for _ in range(gap - 1):
            assert self.disk.finish_sync()
        assert self.log.compaction.swap is not None

    def put_number(self, number: int) -> None:
        if number % 7 == 3:
            self.put_in_transaction(9, self.sequence(), (f"k{number % KEYS}", f"aborted {number} " + "x" * 80))
            self.end_transaction(9, commit=False)
        self.put((f"k{number % KEYS}", f"value {number} " + "x" * 80))

    def sequence(self) -> int:
        known = self.log.producer_state.producers.get(9)
        return 0 if known is None else known.next_sequence

    def finish(self) -> None:
        while self.disk.finish_sync():
            pass

    def bytes_left(self) -> bytes:
        return b"".join(each.file.read(each.size, 0) for each in self.log.segments)

    def crash(self, luck: object) -> None:
        self.disk.crash(Random(f"{luck}"), kept=0.5)
        self.disk.syncs_at_once = True
        self.open()


@pytest.fixture(params=GAPS)
def world(request: pytest.FixtureRequest) -> Swapping:
    return Swapping(request.param)


def test_the_event_loop_does_not_wait_for_syncs(world: Swapping) -> None:
    before = len(world.disk.trace)
    world.finish()
    assert not world.cleaner.is_busy
    assert world.log.compaction.clean_offset > 0
    assert world.table() == world.before
    assert [call for call in world.disk.trace[before:] if call[0] == "sync_folder"] == []


def test_reads_during_a_swap_find_all_records(world: Swapping) -> None:
    for start in (None, "cold"):
        if start:
            world.log.directory.open_files = type(world.log.directory.open_files)(world.disk)
        assert world.table() == world.before
    assert world.log.aborted_transactions(0, world.log.end_offset)


def test_appends_and_rolls_during_a_swap_are_kept(world: Swapping) -> None:
    world.put(("new", "1"))
    world.log.roll()
    world.put(("new", "2"))
    world.finish()
    assert world.table() == world.before | {"new": "2"}
    world.log.flush()
    world.crash("appended")
    assert world.log.damage is None
    assert world.table() == world.before | {"new": "2"}


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("rolled", [False, True])
def test_a_crash_during_a_swap_loses_nothing(gap: int, rolled: bool) -> None:
    for luck in range(30):
        world = Swapping(gap)
        if rolled:
            world.put(("new", "1"))
            world.log.roll()
            world.log.flush()
        expected = world.table()
        world.crash(luck)
        assert world.log.damage is None
        assert world.table() == expected


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("offset", [0, 2, 30, 70])
def test_a_truncation_during_a_swap_survives_a_crash(gap: int, offset: int) -> None:
    for luck in range(10):
        world = Swapping(gap)
        world.log.truncate_to(offset)
        end = world.log.end_offset
        assert end <= offset
        expected = world.bytes_left()
        world.crash(luck)
        assert world.log.damage is None
        assert world.log.end_offset == end
        assert world.bytes_left() == expected


def test_a_truncation_fails_if_the_swap_cannot_be_finished(world: Swapping) -> None:
    world.disk.failing["sync_folder"] = errno.EIO
    with pytest.raises(StorageError):
        world.log.truncate_to(30)
    assert world.store.failure is not None
    assert not world.cleaner.is_busy


def test_a_deletion_during_a_swap_does_not_fail_the_folder(world: Swapping) -> None:
    world.store.delete(PARTITION, TOPIC_ID)
    world.open_again()
    world.put(("a", "1"))
    names = world.names()
    world.disk.finish_sync(FileNotFoundError(errno.ENOENT, "renamed"))
    world.finish()
    assert world.store.failure is None
    assert not world.cleaner.is_busy
    assert world.names() == names
    assert world.table() == {"a": "1"}


@pytest.mark.parametrize("stop", [lambda world: world.store.close(), lambda world: world.store.close(clean=False)])
def test_a_swap_is_finished_by_the_next_start_if_the_node_stops(
    world: Swapping, stop: Callable[[CompactedPartition], None]
) -> None:
    world.cleaner.stop()
    world.disk.syncs_at_once = True
    stop(world)
    names = world.names()
    world.finish()
    assert world.names() == names
    world.open()
    assert world.log.damage is None
    assert world.table() == world.before
    assert len(world.log.segments.bases) < len(world.bases)
    assert not [name for name in world.names() if name.endswith((".swap", ".cleaned", ".deleted"))]


def test_a_failed_sync_takes_the_folder_offline_and_leaves_the_log_readable(world: Swapping) -> None:
    world.disk.finish_sync(OSError(errno.EIO, "broken"))
    assert world.store.failure is not None
    assert not world.cleaner.is_busy
    assert len(world.log.segments.bases) == len(world.bases)
    assert world.log.read(0, max_bytes=100, end=world.log.end_offset) is not None


def test_a_failed_rename_undoes_the_swap() -> None:
    world = Swapping(2)
    world.disk.syncs_at_once = True
    number = world.disk.calls
    # Renaming an index may fail; renaming the log file may not.
    renames = 0

    def refuse(kind: str, path: str, call: Callable[[str, str], None] = world.disk.call) -> None:
        nonlocal renames
        if kind == "rename" and path.endswith(".log.swap"):
            renames += 1
            raise OSError(errno.ENOSPC, "no room")
        call(kind, path)

    world.disk.call = refuse  # type: ignore[method-assign]
    world.finish()
    assert renames == 1 and world.disk.calls > number
    assert world.store.failure is None
    assert not world.cleaner.is_busy
    assert world.table() == world.before
    assert world.log.segments.bases == world.bases
    assert not [name for name in world.names() if name.endswith((".swap", ".cleaned", ".deleted"))]
