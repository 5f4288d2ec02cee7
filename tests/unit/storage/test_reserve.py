import errno

import pytest

from penstock.model.errors import StorageError
from penstock.storage.reserve import STEPS, Reserve, is_disk_full
from penstock.storage.store import LogStore
from penstock_sim.disk import SimDisk
from tests.support.stepped_clock import SteppedClock
from tests.unit.storage.support import NOW_MS, fill, small_settings, stored
from tests.unit.storage.test_store import FIRST_ID, PARTITION, Ids, load

SIZE = 64 * 1024


def full_disk(*, size: int = SIZE) -> tuple[SimDisk, Reserve]:
    """Return a disk that contains only a reserve."""
    disk = SimDisk()
    disk.make_folder("/data")
    reserve = Reserve(disk, "/data", size)
    reserve.restore()
    disk.capacity = size
    return disk, reserve


def write(disk: SimDisk, size: int) -> None:
    file = disk.open("/data/file", create=True)
    file.write((bytes(size),), 0)


def leave_no_room(disk: SimDisk) -> None:
    total, free = disk.space("/")
    disk.capacity = total - free


def test_writes_use_the_reserved_space_in_parts() -> None:
    disk, reserve = full_disk()
    reserve.with_reserve(lambda: write(disk, 10))
    assert reserve.held == SIZE - SIZE // STEPS
    reserve.with_reserve(lambda: write(disk, SIZE // 2))
    assert 0 < reserve.held < SIZE // 2 + SIZE // STEPS


def test_a_full_disk_is_an_error_when_the_reserve_is_used_up() -> None:
    disk, reserve = full_disk()
    with pytest.raises(OSError) as full:
        reserve.with_reserve(lambda: write(disk, SIZE + 1))
    assert is_disk_full(full.value) and reserve.held == 0


def test_other_errors_do_not_use_the_reserve() -> None:
    disk, reserve = full_disk()
    disk.failing["write"] = errno.EIO
    with pytest.raises(OSError):
        reserve.with_reserve(lambda: write(disk, 10))
    assert reserve.held == SIZE


def test_a_storage_error_is_a_full_disk_if_that_is_its_cause() -> None:
    try:
        raise StorageError("no room") from OSError(errno.EDQUOT, "Disk quota exceeded")
    except StorageError as refusal:
        assert is_disk_full(refusal)
    assert not is_disk_full(StorageError("damaged")) and not is_disk_full(None)


def test_a_reserve_is_found_and_completed_by_the_next_process() -> None:
    disk, reserve = full_disk()
    assert reserve.release()
    left = reserve.held
    again = Reserve(disk, "/data", SIZE)
    assert again.held == left < SIZE
    again.restore()
    assert disk.space("/data")[1] == 0


def test_a_failed_allocation_leaves_the_reserve_unchanged() -> None:
    disk, reserve = full_disk()
    with pytest.raises(OSError):
        reserve.take(SIZE + 1000)
    assert (reserve.held, disk.open("/data/reserve").size()) == (SIZE, SIZE)


def test_a_changed_reserve_size_frees_or_occupies_space() -> None:
    disk, _ = full_disk()
    smaller = Reserve(disk, "/data", SIZE // 2)
    smaller.restore()
    assert disk.space("/data")[1] == SIZE // 2


def test_a_reserve_of_size_zero_releases_nothing() -> None:
    disk, reserve = full_disk(size=0)
    with pytest.raises(OSError):
        reserve.with_reserve(lambda: write(disk, 1))


def test_retention_deletes_on_a_full_disk() -> None:
    """Saving the new log start needs space, and only deletion frees space."""
    disk = SimDisk()
    store = LogStore.load(
        disk, "/data", cluster_id=None, node_id=1, clock=SteppedClock(), entropy=Ids(), reserve_size=SIZE
    )
    log = store.open(PARTITION, FIRST_ID, small_settings(retention_bytes=1000, file_delete_delay_ms=0))
    fill(log, [3] * 40)
    count = len(log.segments)
    leave_no_room(disk)
    with pytest.raises(StorageError):
        fill(log, [3] * 40)
    assert store.is_read_only
    log.delete_old_segments(high_watermark=log.end_offset, now_ms=NOW_MS)
    log.deletes.remove_due(NOW_MS)
    assert len(log.segments) < count
    assert not any(name.endswith(".deleted") for name in disk.list(log.folder))
    store.close()


def test_a_folder_that_is_full_and_was_not_closed_can_be_opened_and_read() -> None:
    disk = SimDisk()
    store = load(disk, reserve_size=SIZE)
    fill(store.open(PARTITION, FIRST_ID, small_settings()), [3] * 40)
    leave_no_room(disk)
    disk.crash(kept=1.0)
    again = load(disk, reserve_size=SIZE)
    log = again.open(PARTITION, FIRST_ID, small_settings())
    assert (log.end_offset, log.damage) == (120, None)
    assert len(stored(log)) == 40
    again.close()
