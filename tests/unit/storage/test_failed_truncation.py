"""Truncations during which the disk refuses a call."""

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest

from penstock.model.errors import StorageError
from penstock.storage.log import Log
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import append, batch, check_quarantined_when_it_keeps_failing, fill, open_log, stored

TRUNCATIONS: dict[str, tuple[Callable[[Log], None], int]] = {
    "restart above the end": (lambda log: log.truncate_fully_and_start_at(500), 500),
    "restart within the log": (lambda log: log.truncate_fully_and_start_at(20), 20),
    "truncation to a segment before": (lambda log: log.truncate_to(12), 12),
    "truncation of everything": (lambda log: log.truncate_to(0), 0),
}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("name", TRUNCATIONS)
def test_a_truncation_that_failed_can_be_repeated(name: str, code: int) -> None:
    call = 1
    while _truncate(name, code, call):
        call += 1
    assert call > 3


def _truncate(name: str, code: int, call: int) -> bool:
    """Let one disk call of a truncation fail, truncate again, and compare; return False after the last call."""
    truncate, end = TRUNCATIONS[name]
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [4] * 20)
    log.flush()
    assert len(log.segments) > 2
    disk.fail_at[disk.calls + call] = code
    before = disk.calls
    with suppress(StorageError):
        truncate(log)
    has_failed = disk.calls >= before + call
    disk.fail_at.clear()
    if log.directory.failure is not None:
        return has_failed
    truncate(log)
    assert log.end_offset == end, call
    base = append(log, batch(3)).base_offset
    log.flush()
    assert base == end, call
    found = [header.base_offset for header in stored(log)]
    log.close(clean=False)
    again = open_log(disk, recovery_point=0)
    assert again.damage is None, call
    assert again.end_offset == end + 3, call
    assert [header.base_offset for header in stored(again)] == found, call
    return has_failed


def test_a_log_that_cannot_be_read_where_it_must_be_truncated_is_quarantined() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [4] * 20)
    log.flush()
    disk.failing["read"] = errno.EIO
    check_quarantined_when_it_keeps_failing(log, lambda: log.truncate_to(12), offset=12)
