import pytest

from penstock.model.errors import Corruption
from penstock.storage.epoch_cache import EpochCache
from penstock_sim.disk import SimDisk

PATH = "/leader-epoch-checkpoint"


def cache_of(*entries: tuple[int, int], disk: SimDisk | None = None) -> EpochCache:
    cache = EpochCache(disk or SimDisk(), "")
    for epoch, offset in entries:
        cache.assign(epoch, offset)
    return cache


def test_the_latest_epoch_ends_at_the_end() -> None:
    assert cache_of((1, 0), (3, 10)).end_of(3, 25) == (3, 25)


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    assert cache_of((1, 0), (3, 10)).end_of(1, 25) == (1, 10)


def test_an_epoch_without_batches_ends_like_the_one_before_it() -> None:
    assert cache_of((1, 0), (3, 10)).end_of(2, 25) == (1, 10)


def test_an_epoch_older_than_all_ends_where_the_first_begins() -> None:
    assert cache_of((4, 50), (5, 60)).end_of(2, 70) == (2, 50)


def test_a_newer_or_no_epoch_is_unknown() -> None:
    cache = cache_of((1, 0))
    assert cache.end_of(2, 25) == (-1, -1)
    assert cache.end_of(-1, 25) == (-1, -1)
    assert cache_of().end_of(0, 0) == (-1, -1)


def test_an_epoch_without_batches_is_dropped() -> None:
    assert cache_of((1, 0), (2, 10), (3, 10)).entries() == [(1, 0), (3, 10)]


def test_an_epoch_that_is_not_newer_changes_nothing() -> None:
    assert cache_of((3, 0), (2, 10), (3, 20)).entries() == [(3, 0)]


def test_the_epoch_of_an_offset_is_the_last_that_began_before_it() -> None:
    cache = cache_of((1, 5), (3, 10))
    assert [cache.epoch_at(offset) for offset in (4, 5, 9, 10)] == [-1, 1, 1, 3]


def test_truncation_at_either_end_keeps_the_rest() -> None:
    cache = cache_of((1, 0), (2, 10), (3, 20))
    cache.truncate_end(20)
    assert cache.entries() == [(1, 0), (2, 10)]
    cache.truncate_start(4)
    assert cache.entries() == [(1, 4), (2, 10)]
    cache.truncate_start(15)
    assert cache.entries() == [(2, 15)]


def test_the_file_has_kafkas_format() -> None:
    disk = SimDisk()
    cache_of((1, 0), (3, 10), disk=disk).save()
    assert disk.read_file(PATH) == b"0\n2\n1 0\n3 10\n"
    loaded = EpochCache(disk, "")
    loaded.load()
    assert loaded.entries() == [(1, 0), (3, 10)]


def test_nothing_is_written_when_nothing_changed() -> None:
    disk = SimDisk()
    cache = cache_of((1, 0), disk=disk)
    cache.save()
    calls = disk.calls
    cache.save()
    assert disk.calls == calls


@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"1\n0\n", b"0\n2\n1 0\n", b"0\n2\n1 5\n2 5\n", b"0\n1\n1 x\n", b"0\n1\n1 0"]
)
def test_a_damaged_file_raises_corruption(content: bytes) -> None:
    disk = SimDisk()
    disk.open(PATH, create=True).write((content,), 0)
    with pytest.raises(Corruption):
        EpochCache(disk, "").load()


def test_a_later_save_is_durable_when_its_sync_ends() -> None:
    disk = SimDisk(syncs_at_once=False)
    cache = cache_of((1, 0), (3, 10), disk=disk)
    cache.save_later()
    assert (cache.dirty, disk.exists(PATH)) == (True, False)
    assert disk.finish_sync()
    assert (cache.dirty, disk.exists(PATH)) == (False, True)
    again = EpochCache(disk, "")
    again.load()
    assert again.entries() == [(1, 0), (3, 10)]


def test_a_later_save_does_not_replace_what_changed_meanwhile() -> None:
    disk = SimDisk(syncs_at_once=False)
    cache = cache_of((1, 0), (3, 10), disk=disk)
    cache.save_later()
    cache.truncate_end(10)
    cache.save()
    disk.finish_sync()
    again = EpochCache(disk, "")
    again.load()
    assert again.entries() == [(1, 0)]
    assert not cache.dirty


def test_a_failed_later_save_leaves_the_epochs_to_be_saved() -> None:
    disk = SimDisk(syncs_at_once=False)
    cache = cache_of((1, 0), disk=disk)
    cache.save_later()
    disk.finish_sync(OSError(5, "failed"))
    assert [cache.dirty] == [True]
    cache.save_later()
    disk.finish_sync()
    assert [cache.dirty] == [False]


def test_epochs_written_without_a_sync_count_as_saved_only_if_told() -> None:
    disk = SimDisk()
    cache = cache_of((1, 0), disk=disk)
    cache.write(is_durable=False)
    assert [cache.dirty] == [True]
    cache.write(is_durable=True)
    assert [cache.dirty] == [False]
    again = EpochCache(disk, "")
    again.load()
    assert again.entries() == [(1, 0)]
