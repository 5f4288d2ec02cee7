from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import StorageError
from penstock.model.job import Job, finish
from penstock.storage import lookup
from penstock.wire.records import Record, encode_batch
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import NOW_MS, append, batch, fill, open_log

BATCHES = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=3), min_size=1, max_size=25)


@settings(max_examples=60)
@given(BATCHES, st.integers(0, 62), st.integers(0, 20), st.booleans())
def test_a_search_by_time_finds_the_first_record_late_enough(
    batches: list[list[int]], wanted: int, start: int, reopened: bool
) -> None:
    disk = SimDisk()
    log = open_log(disk)
    records: list[tuple[int, int]] = []
    for timestamps in batches:
        sealed = encode_batch([Record(timestamp=timestamp, value=b"v" * 60) for timestamp in timestamps])
        offset = append(log, sealed, epoch=3).base_offset
        records += [(timestamp, offset + index) for index, timestamp in enumerate(timestamps)]
    log.advance_start(min(start, log.end_offset))
    if reopened:
        log.close()
        log = open_log(disk, clean=True, log_start=log.start_offset)
    found = [
        (timestamp, offset, 3) for timestamp, offset in records if timestamp >= wanted and offset >= log.start_offset
    ]
    assert finish(log.lookup_time(wanted)) == (found[0] if found else None)


@settings(max_examples=40)
@given(BATCHES, st.booleans())
def test_the_largest_timestamp_is_that_of_its_first_record(batches: list[list[int]], reopened: bool) -> None:
    disk = SimDisk()
    log = open_log(disk)
    records: list[tuple[int, int]] = []
    for timestamps in batches:
        sealed = encode_batch([Record(timestamp=timestamp, value=b"v" * 60) for timestamp in timestamps])
        offset = append(log, sealed).base_offset
        records += [(timestamp, offset + index) for index, timestamp in enumerate(timestamps)]
    if reopened:
        log.close()
        log = open_log(disk, clean=True)
    largest = max(timestamp for timestamp, _ in records)
    first = min(offset for timestamp, offset in records if timestamp == largest)
    assert finish(log.max_timestamp()) == (largest, first, 0)


def test_an_empty_log_has_no_largest_timestamp() -> None:
    assert finish(open_log(SimDisk()).max_timestamp()) == (-1, -1, -1)
    assert finish(open_log(SimDisk()).lookup_time(0)) is None


def test_a_lookup_with_log_append_time_finds_the_first_record_of_the_batch() -> None:
    log = open_log(SimDisk(), message_timestamp_type="LogAppendTime")
    append(log, batch(3), now_ms=NOW_MS)
    append(log, batch(3), now_ms=NOW_MS + 10)
    assert finish(log.lookup_time(NOW_MS + 1)) == (NOW_MS + 10, 3, 0)


def test_records_before_the_log_start_are_not_the_largest_timestamp() -> None:
    log = open_log(SimDisk())
    append(log, batch(timestamp=900))
    append(log, batch(timestamp=100))
    log.advance_start(1)
    assert finish(log.max_timestamp())[:2] == (100, 1)


def test_a_lookup_through_many_batches_pauses_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "HEADERS_PER_SLICE", 2)
    log = open_log(SimDisk(), segment_bytes=1_000_000, index_interval_bytes=1_000_000)
    for number in range(10):
        append(log, batch(timestamp=100 + number))
    job = log.lookup_time(109)
    pauses = 0
    with pytest.raises(StopIteration) as ended:
        while True:
            next(job)
            pauses += 1
    assert ended.value.value == (109, 9, 0)
    assert pauses >= 4


def test_a_wrong_time_index_entry_is_not_used() -> None:
    log = open_log(SimDisk(), segment_bytes=1_000_000)
    fill(log, [1] * 20, timestamp=500)
    append(log, batch(timestamp=900))
    finish(log.max_timestamp())
    index = log.segments[0].time_index
    assert len(index) > 0
    index.timestamps[0], index.offsets[0] = 600, 15
    assert finish(log.lookup_time(700)) == (900, 20, 0)


def test_a_damaged_batch_from_the_leader_is_rejected() -> None:
    disk = SimDisk()
    log = open_log(disk, segment_bytes=1_000_000)
    append(log, batch(timestamp=500))
    disk.flip(log.segments[0].path, 70)
    with pytest.raises(StorageError):
        finish(log.lookup_time(0))
    assert log.damage is not None


def steps_of(job: Job[Any]) -> tuple[int, Any]:
    """Return how often a job pauses, and its result."""
    count = 0
    while True:
        try:
            next(job)
        except StopIteration as ended:
            return count, ended.value
        count += 1


def test_a_lookup_over_many_batches_pauses_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "HEADERS_PER_SLICE", 2)
    disk = SimDisk()
    log = open_log(disk)
    for timestamp in (900, *range(20)):
        append(log, encode_batch([Record(timestamp=timestamp, value=b"v")]))
    log.close()
    # The record with the largest timestamp is before the log start, so that all others are compared.
    log = open_log(disk, clean=True, log_start=1)
    pauses, found = steps_of(log.lookup_time(19))
    assert found == (19, 20, 0)
    assert pauses >= 10
    pauses, found = steps_of(log.max_timestamp())
    assert found == (19, 20, 0)
    assert pauses >= 10


def test_records_from_the_damage_on_are_not_found() -> None:
    log = open_log(SimDisk(), segment_bytes=1 << 20)
    for number in range(10):
        append(log, batch(timestamp=NOW_MS + number))
    log.quarantine.begin(5, "rot")
    assert finish(log.lookup_time(NOW_MS + 4)) == (NOW_MS + 4, 4, 0)
    assert finish(log.lookup_time(NOW_MS + 5)) is None


def test_a_batch_whose_late_records_are_deleted_is_skipped() -> None:
    log = open_log(SimDisk())
    for timestamps in ((50, 10), (60,)):
        append(log, encode_batch([Record(timestamp=each, value=b"v") for each in timestamps]))
    log.advance_start(1)
    assert finish(log.lookup_time(40)) == (60, 2, 0)
