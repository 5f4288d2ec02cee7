"""Locating the beginning of damage in a large segment, in slices, while the log serves nothing of that segment."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.model.errors import StorageError
from penstock.model.job import Job, finish
from penstock.scheduling.scheduler import Scheduler
from penstock.storage import damage
from penstock.storage.directory import LogDirectory
from penstock.storage.log import Log
from penstock_sim.disk import SimDisk
from tests.unit.ports.ticking import TickingClock
from tests.unit.storage.support import FOLDER, NOW_MS, PARTITION, TOPIC_ID, append, batch, small_settings

BATCH = batch(value=b"v" * 100)
COUNT = 40


class Held:
    """Jobs that a test runs later."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Job[Any], Callable[[Any, BaseException | None], None]]] = []

    def __call__(self, job: Job[Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.jobs.append((job, done))


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "BATCHES_PER_SLICE", 4)


def made(run: Callable[..., None] | None = None) -> tuple[SimDisk, Log]:
    """Create a closed segment with 40 batches and an active one with later batches, both unchecked."""
    disk = SimDisk()
    disk.make_folder("/data")
    directory = LogDirectory(disk, "/data")
    if run is not None:
        directory.run = run
    settings = small_settings(segment_bytes=COUNT * len(BATCH), index_interval_bytes=200)
    log = finish(
        Log.opening(directory, FOLDER, PARTITION, TOPIC_ID, settings, clock_wall_ms=lambda: NOW_MS, clean=False)
    )
    for _ in range(COUNT + 5):
        append(log, BATCH)
    log.reader.recheck(0)
    return disk, log


def rot(disk: SimDisk, log: Log, index: int) -> None:
    disk.flip(log.segments[0].path, index * len(BATCH) + 80)


def refused(log: Log, offset: int) -> None:
    with pytest.raises(StorageError):
        log.read(offset, max_bytes=10, end=log.end_offset)


def readable(log: Log, offset: int) -> bool:
    return log.read(offset, max_bytes=10, end=log.end_offset) is not None


def test_damage_near_the_beginning_is_located_immediately() -> None:
    held = Held()
    disk, log = made(held)
    rot(disk, log, 2)
    refused(log, 2)
    assert (log.damaged_from, held.jobs) == (2, [])


def test_nothing_of_the_segment_is_served_until_the_damage_is_located() -> None:
    held = Held()
    disk, log = made(held)
    rot(disk, log, 31)
    refused(log, 31)
    assert log.damaged_from == 0
    assert "searching for its beginning" in str(log.damage)
    # After a crash before the damage is located, it is as if it had never been found: readable records stay available.
    assert not disk.exists(f"{FOLDER}/quarantine")
    refused(log, 0)
    refused(log, 12)
    ((job, done),) = held.jobs
    steps = 0
    with pytest.raises(StopIteration) as end:
        while True:
            assert next(job) is None
            steps += 1
    assert steps == 31 // 4 - 1
    done(end.value.value, None)
    assert log.damaged_from == 31
    assert "offset 31" in str(log.damage)
    assert readable(log, 30)
    refused(log, 31)
    assert disk.read_file(f"{FOLDER}/quarantine").split(b"\n")[1] == b"31"
    assert len(held.jobs) == 1


def test_earlier_damage_that_headers_hid_is_found() -> None:
    held = Held()
    disk, log = made(held)
    rot(disk, log, 31)
    rot(disk, log, 17)
    refused(log, 31)
    ((job, done),) = held.jobs
    run_to_end(job, done)
    assert log.damaged_from == 17


def test_an_abandoned_log_is_not_changed_when_damage_is_located() -> None:
    held = Held()
    disk, log = made(held)
    rot(disk, log, 31)
    refused(log, 31)
    log.abandon()
    said = log.damage
    run_to_end(*held.jobs[0])
    assert (log.damaged_from, log.damage) == (0, said)


def test_a_disk_failure_while_locating_damage_keeps_the_quarantine() -> None:
    held = Held()
    disk, log = made(held)
    rot(disk, log, 31)
    refused(log, 31)
    job, done = held.jobs[0]
    done(None, OSError("no"))
    assert log.damaged_from == 0
    job.close()


def test_the_scheduler_locates_damage_in_several_turns() -> None:
    clock = TickingClock()
    scheduler = Scheduler(clock)
    disk, log = made(lambda job, done: scheduler.run(job, done, is_wanted=lambda: True))
    rot(disk, log, 31)
    refused(log, 31)
    assert log.damaged_from == 0 and scheduler.unfinished_count == 1
    clock.tick(1.0)
    assert log.damaged_from == 31 and scheduler.unfinished_count == 0


def run_to_end(job: Job[Any], done: Callable[[Any, BaseException | None], None]) -> None:
    try:
        while True:
            next(job)
    except StopIteration as end:
        done(end.value, None)
