"""Failed reads: the errors for readers, and when the log is quarantined."""

from __future__ import annotations

import errno

import pytest

from penstock.model.errors import StorageError
from penstock.model.job import finish
from penstock.ports.network import FileSlice
from penstock.storage.directory import LogDirectory
from penstock.storage.log import Log
from penstock.storage.unreadable import FORGOTTEN_S, LASTING_S, OFFSETS_MAX
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import FOLDER, NOW_MS, PARTITION, TOPIC_ID, append, batch, small_settings

EIO = OSError(errno.EIO, "Input/output error")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def made(count: int = 12, *, segment_bytes: int = 2000) -> tuple[SimDisk, Log, Clock]:
    disk, clock = SimDisk(), Clock()
    disk.make_folder("/data")
    directory = LogDirectory(disk, "/data", clock)
    settings = small_settings(segment_bytes=segment_bytes)
    log = finish(
        Log.opening(directory, FOLDER, PARTITION, TOPIC_ID, settings, clock_wall_ms=lambda: NOW_MS, clean=False)
    )
    for _ in range(count):
        append(log, batch(value=b"v" * 100))
    return disk, log, clock


def read(log: Log, offset: int) -> FileSlice:
    piece = log.read(offset, max_bytes=1 << 20, end=log.end_offset)
    assert piece is not None
    return piece


def cut(disk: SimDisk, path: str, size: int) -> None:
    """Change a file while the log is open, like another process."""
    disk.open(path).truncate(size)


def test_a_slice_has_its_log_reader_as_owner() -> None:
    _, log, _ = made()
    assert read(log, 0).owner is log.reader


@pytest.mark.parametrize("segment", [0, -1])
@pytest.mark.parametrize("whole", [0, 1, 3])
@pytest.mark.parametrize("torn", [0, 30, 100])
def test_a_file_that_is_too_short_is_quarantined_from_the_first_incomplete_batch(
    segment: int, whole: int, torn: int
) -> None:
    disk, log, _ = made(20)
    damaged = log.segments[segment]
    assert damaged.size > 4 * 150
    size = len(batch(value=b"v" * 100))
    piece = read(log, damaged.base_offset)
    cut(disk, damaged.path, whole * size + torn)
    log.reader.read_failed(piece, EIO)
    assert log.damaged_from == damaged.base_offset + whole
    assert f"{damaged.path} has {whole * size + torn} bytes" in str(log.damage)
    with pytest.raises(StorageError):
        append(log, batch())
    with pytest.raises(StorageError):
        read(log, damaged.base_offset + whole)
    if log.damaged_from:
        before = read(log, log.damaged_from - 1)
        assert before.file.read(before.size, before.position)
    assert log.directory.read_failures == 1
    assert disk.exists(f"{FOLDER}/quarantine")


def test_a_temporary_error_only_causes_a_recheck() -> None:
    _, log, _ = made()
    log.reader.read_failed(read(log, 0), EIO)
    assert log.damage is None
    assert log.segments[0].unchecked_end == log.segments[0].size
    assert read(log, 0).size == log.segments[0].size
    assert log.segments[0].unchecked_end == 0
    append(log, batch())


def lasting_error() -> tuple[SimDisk, Log, Clock]:
    disk, log, clock = made()
    log.reader.read_failed(read(log, 0), EIO)
    disk.failing["read"] = errno.EIO
    for now in (0.0, 0.4 * LASTING_S, 0.8 * LASTING_S):
        clock.now = now
        with pytest.raises(StorageError, match=r"cannot read .* at offset 3"):
            read(log, 3)
        assert log.damage is None
    clock.now = LASTING_S
    with pytest.raises(StorageError):
        read(log, 3)
    return disk, log, clock


def test_a_persistent_error_fails_reads_and_then_quarantines_the_log() -> None:
    disk, log, _ = lasting_error()
    assert log.damaged_from == 3
    assert log.directory.read_failures == 5
    disk.failing.clear()
    assert read(log, 0).size
    with pytest.raises(StorageError):
        append(log, batch())


def test_a_quarantine_for_an_error_ends_when_the_disk_recovers() -> None:
    disk, log, clock = lasting_error()
    clock.now = 2 * LASTING_S
    with pytest.raises(StorageError):
        read(log, 3)
    disk.failing.clear()
    clock.now = 2.5 * LASTING_S
    with pytest.raises(StorageError):
        read(log, 3)
    clock.now = 3 * LASTING_S
    assert read(log, 3).size
    assert log.damage is None
    assert not disk.exists(f"{FOLDER}/quarantine")
    append(log, batch())


def test_a_quarantine_for_damage_does_not_end() -> None:
    disk, log, clock = made()
    log.reader.read_failed(read(log, 0), EIO)
    disk.flip(log.segments[0].path, 200)
    for now in (0.0, LASTING_S, 10 * LASTING_S):
        clock.now = now
        with pytest.raises(StorageError):
            read(log, 1)
    assert log.damaged_from == 1


def test_errors_that_are_far_apart_are_unrelated() -> None:
    disk, log, clock = made()
    log.reader.read_failed(read(log, 0), EIO)
    for now in (0.0, 100.0, 200.0):
        clock.now = now
        disk.failing["read"] = errno.EIO
        with pytest.raises(StorageError):
            read(log, 3)
        disk.failing.clear()
        if now < 200.0:
            clock.now += 5.0
            read(log, 3)
            log.reader.read_failed(read(log, 0), EIO)
    assert log.damage is None


def test_too_many_open_files_are_not_damage() -> None:
    disk, log, clock = made()
    log.directory.open_files.forget(log.segments[0].path)
    disk.failing["open"] = errno.EMFILE
    for now in (0.0, 5.0, 10.0, 15.0):
        clock.now = now
        with pytest.raises(StorageError):
            read(log, 0)
    assert log.damage is None


def test_truncated_bytes_are_not_damage() -> None:
    _, log, _ = made(segment_bytes=1 << 20)
    piece = read(log, 0)
    log.truncate_to(1)
    log.reader.read_failed(piece, EIO)
    assert log.damage is None
    assert log.directory.read_failures == 0


def test_an_error_is_logged_with_file_and_position_but_not_repeatedly(caplog: pytest.LogCaptureFixture) -> None:
    _, log, clock = made()
    piece = read(log, 0)
    for now in (0.0, 1.0, 2.0):
        clock.now = now
        log.reader.read_failed(piece, EIO)
    lines = [record.getMessage() for record in caplog.records if record.name == "penstock.storage.unreadable"]
    assert len(lines) == 1
    assert f"{piece.size} bytes at position 0 of {log.segments[0].path}" in lines[0]
    clock.now = 20.0
    log.reader.read_failed(piece, EIO)
    assert len([record for record in caplog.records if record.name == "penstock.storage.unreadable"]) == 2


def test_another_error_does_not_hide_a_persistent_one() -> None:
    disk, log, clock = made()
    log.reader.read_failed(read(log, 0), EIO)
    disk.failing["read"] = errno.EIO
    for now in (0.0, 0.5 * LASTING_S, LASTING_S):
        clock.now = now
        for offset in (5 if now == 0.0 else 4, 3):
            with pytest.raises(StorageError):
                read(log, offset)
    assert log.damaged_from == 3


def test_errors_that_are_far_apart_do_not_count_together() -> None:
    _, log, clock = made()
    segment = log.segments[0]
    for _ in range(3):
        with pytest.raises(StorageError):
            log.reader._errors.on_read_error(segment, 0, EIO)
        clock.now += FORGOTTEN_S
    assert log.damage is None


def test_few_unreadable_offsets_are_watched() -> None:
    _, log, _ = made()
    segment = log.segments[0]
    for _ in range(2):
        for offset in range(OFFSETS_MAX + 5):
            with pytest.raises(StorageError):
                log.reader._errors.on_read_error(segment, offset, EIO)
    assert len(log.reader._errors._offsets) == OFFSETS_MAX
