"""Tests of a compaction that stops at any disk call: the last values and all offsets must be unchanged."""

import errno
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from penstock.storage.marker import read_marker
from penstock.storage.producer_state import Producer
from penstock.wire.records import decode_batch
from penstock_sim.disk import Crashed, SimDisk
from tests.unit.storage.compaction.compacted_partition import CompactedPartition

pytestmark = pytest.mark.usefixtures("small_size_max")


def write(world: CompactedPartition, start: int, count: int = 12) -> None:
    """Write repeated keys, tombstones, producers with sequences, transactions of both outcomes, and epochs."""
    for number in range(start, start + count):
        world.epoch = number // 15
        sequence = number * 2
        world.put(
            (f"k{number % 4}", f"{number}" + "x" * 60),
            (f"p{number % 7}", None if number % 3 == 0 else f"{number}"),
            producer_id=100 + start,
            producer_epoch=0,
            base_sequence=sequence - start * 2,
        )
        if number % 4 == 1:
            outcome = number % 8 == 1
            world.put_in_transaction(7, world_sequence(world, 7), (f"t{number % 3}", f"{outcome} {number}"))
            world.end_transaction(7, commit=outcome)


def world_sequence(world: CompactedPartition, producer_id: int) -> int:
    known: Producer | None = world.log.producer_state.producers.get(producer_id)
    return 0 if known is None else known.next_sequence


def life(disk: SimDisk) -> CompactedPartition:
    """Write, compact, write more, let tombstones age, compact again."""
    world = CompactedPartition(disk)
    write(world, 0)
    write(world, 12)
    world.log.roll()
    return world


def go_on(world: CompactedPartition) -> None:
    world.compact()
    world.clock.now_ms += 10_001
    write(world, 24, 6)
    world.compact()
    world.log.deletes.remove_due(world.clock.now_ms + 10_000)


class Expected:
    """The result of the same workload without compaction."""

    def __init__(self) -> None:
        disk = SimDisk()
        world = life(disk)
        self.begin = disk.calls
        go_on(world)
        self.end = disk.calls
        plain = life(SimDisk())
        plain.clock.now_ms += 10_001
        write(plain, 24, 6)
        self._batches = plain.batches()
        assert plain.log.end_offset == world.log.end_offset

    def table(self, end: int) -> dict[str, str]:
        """Return the last values below an offset; transactions that are open there count as committed."""
        known: dict[str, str] = {}
        aborted = set(self._aborted(end))
        for header, batch in self._batches:
            if header.is_control or header.last_offset >= end or header.base_offset in aborted:
                continue
            for record in decode_batch(batch):
                assert record.key is not None
                known.pop(record.key.decode(), None)
                if record.value is not None:
                    known[record.key.decode()] = record.value.decode()
        return known

    def _aborted(self, end: int) -> Iterator[int]:
        """Yield the base offset of each batch that was aborted below the end; transactions here have one batch each."""
        last: dict[int, int] = {}
        for header, batch in self._batches:
            if header.last_offset < end and header.is_transactional and not header.is_control:
                last[header.producer_id] = header.base_offset
            elif header.last_offset < end and header.is_control:
                marker = read_marker(batch)
                if marker is not None and not marker.commit:
                    yield last[header.producer_id]


EXPECTED = Expected()


def check(world: CompactedPartition, *, shown: int) -> None:
    log = world.log
    assert log.damage is None, log.damage
    assert log.end_offset >= shown
    table = world.table()
    assert table == EXPECTED.table(log.end_offset)
    assert [each.end_offset() for each in log.segments[:-1]] == log.segments.bases[1:]
    assert not [name for name in world.names() if name.endswith((".swap", ".cleaned", ".deleted"))]
    # Derived files agree with the log.
    shown_before = world.records(committed=True)
    known = {each.producer_id: (each.epoch, each.last_sequence) for each in log.producers()}
    world.store.close()
    for name in world.names():
        if not name.endswith((".log", "partition.metadata")):
            world.disk.remove(f"{log.folder}/{name}")
    world.open()
    assert world.log.damage is None
    assert world.records(committed=True) == shown_before
    assert {each.producer_id: (each.epoch, each.last_sequence) for each in world.log.producers()} == known
    world.put(("after", "all"))
    world.compact()
    assert world.table() == table | {"after": "all"}


def reopen(disk: SimDisk) -> CompactedPartition:
    return CompactedPartition(disk)


@pytest.mark.parametrize("luck", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2))])
def test_a_power_failure_at_any_call_of_a_compaction_loses_no_value(luck: int) -> None:
    begin, end = EXPECTED.begin, EXPECTED.end
    for call in range(begin + 1 + luck, end + 1, 3):
        disk = SimDisk(call)
        disk.fail_at[call] = None
        world = life(disk)
        with pytest.raises(Crashed):
            go_on(world)
        shown = world.log.durable_offset
        disk.crash(Random(f"{luck}:{call}"))
        check(reopen(disk), shown=shown)


@pytest.mark.parametrize("lucks", [range(2), pytest.param(range(2, 6), marks=pytest.mark.slow)], ids=str)
def test_each_file_name_survives_a_power_failure_or_not(lucks: range) -> None:
    """Check the calls that change names, with several outcomes each: any may be durable without the others."""
    disk = SimDisk()
    go_on(life(disk))
    changing = ("rename", "remove", "sync_folder")
    calls = [number for number in range(EXPECTED.begin + 1, EXPECTED.end) if disk.trace[number - 1][0] in changing]
    for call in calls:
        for luck in lucks:
            disk = SimDisk(call)
            disk.fail_at[call] = None
            world = life(disk)
            with pytest.raises(Crashed):
                go_on(world)
            shown = world.log.durable_offset
            disk.crash(Random(f"names {luck}:{call}"), kept=0.5)
            world = reopen(disk)
            assert world.log.damage is None
            assert world.log.end_offset >= shown
            assert world.table() == EXPECTED.table(world.log.end_offset)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_disk_call_leaves_the_topic_readable(error: int) -> None:
    begin, end = EXPECTED.begin, EXPECTED.end
    for call in range(begin + 1 + (error == errno.EIO), end + 1, 2):
        disk = SimDisk(call)
        world = life(disk)
        disk.fail_at[call] = error
        try:
            go_on(world)
            disk.fail_at.clear()
            if world.store.failure is None and world.log.damage is None:
                world.table()
        except Exception as refusal:
            assert type(refusal).__name__ in ("StorageError", "OSError"), f"call {call} {disk.trace[-1]}: {refusal!r}"
        shown = world.log.durable_offset
        disk.crash(Random(call))
        check(reopen(disk), shown=shown)


def test_a_second_crash_while_the_swap_is_finished_changes_nothing() -> None:
    begin, end = EXPECTED.begin, EXPECTED.end
    random = Random("twice")
    for _ in range(60):
        call = random.randrange(begin + 1, end + 1)
        disk = SimDisk(call)
        disk.fail_at[call] = None
        world = life(disk)
        with pytest.raises(Crashed):
            go_on(world)
        shown = world.log.durable_offset
        disk.crash(random)
        disk.fail_at[disk.calls + random.randrange(1, 40)] = None
        with suppress(Crashed):
            reopen(disk)
        disk.crash(random)
        check(reopen(disk), shown=shown)


def test_a_full_disk_postpones_a_compaction_until_there_is_space() -> None:
    disk = SimDisk()
    world = life(disk)
    table = world.table()
    total, free = disk.space("/")
    disk.capacity = total - free + 100
    cleaner = world.compact(roll=False)
    assert world.log.compaction.clean_offset == 0
    assert not cleaner.uncleanable
    assert world.table() == table
    disk.capacity = None
    cleaner.find_work()
    assert world.log.compaction.clean_offset > 0
    assert world.table() == table
