"""Tests of the record batches of a slice."""

from penstock.shares.log_batches import LastHeader, log_batches
from penstock.shares.states import LogBatch
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import fill, open_log


def test_a_batch_that_is_read_again_needs_no_disk() -> None:
    disk = SimDisk()
    log = open_log(disk)
    fill(log, [3, 2])
    found = log.read(0, max_bytes=1000, end=5)
    assert found is not None
    headers = LastHeader()
    assert next(log_batches(found, (), headers))[0] == LogBatch(0, 2)
    disk.trace.clear()
    assert next(log_batches(found, (), headers))[0] == LogBatch(0, 2)
    assert disk.trace == []
    assert [batch for batch, _, _ in log_batches(found, (), headers)] == [LogBatch(0, 2), LogBatch(3, 4)]


def test_a_header_of_another_file_is_read_from_it() -> None:
    headers = LastHeader()
    for count in (3, 2):
        log = open_log(SimDisk())
        fill(log, [count])
        found = log.read(0, max_bytes=1000, end=count)
        assert found is not None
        assert next(log_batches(found, (), headers))[0] == LogBatch(0, count - 1)


def test_a_plain_batch_is_known_with_its_size() -> None:
    log = open_log(SimDisk())
    fill(log, [3, 2])
    found = log.read(0, max_bytes=1000, end=5)
    assert found is not None
    sizes = [size for _, _, size in log_batches(found)]
    assert LastHeader().plain_batch(found) == (sizes[0], LogBatch(0, 2))
