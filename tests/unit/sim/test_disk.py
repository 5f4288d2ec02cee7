import errno
from random import Random

import pytest

from penstock_sim.disk import Crashed, SimDisk


def contents(disk: SimDisk) -> dict[str, bytes]:
    return {name: disk.read_file(f"/d/{name}") for name in disk.list("/d")}


def disk_with(name: str, content: bytes) -> SimDisk:
    """Return a disk with one durable file."""
    disk = SimDisk()
    disk.make_folder("/d")
    file = disk.open(f"/d/{name}", create=True)
    file.write((content,), 0)
    file.sync()
    disk.sync_folder("/d")
    disk.sync_folder("/")
    return disk


def test_synced_data_survives_and_other_data_may_not() -> None:
    disk = disk_with("a", b"old")
    disk.open("/d/a").write((b"new",), 0)
    assert contents(disk) == {"a": b"new"}
    disk.crash(kept=0.0)
    assert contents(disk) == {"a": b"old"}


def test_without_a_power_loss_all_writes_survive() -> None:
    disk = disk_with("a", b"old")
    disk.open("/d/a").write((b"new",), 0)
    disk.open("/d/b", create=True)
    disk.crash(kept=1.0)
    assert contents(disk) == {"a": b"new", "b": b""}


def test_names_are_durable_only_after_a_sync_of_their_directory() -> None:
    disk = disk_with("a", b"x")
    file = disk.open("/d/b", create=True)
    file.write((b"y",), 0)
    file.sync()
    disk.crash(kept=0.0)
    assert contents(disk) == {"a": b"x"}


def test_a_rename_is_kept_whole_or_not_at_all() -> None:
    seen = set()
    for seed in range(50):
        disk = disk_with("a", b"x")
        disk.rename("/d/a", "/d/b")
        disk.crash(Random(seed), kept=0.5)
        seen.add(tuple(contents(disk)))
    assert seen == {("a",), ("b",)}


def test_a_crash_keeps_sectors_independently() -> None:
    seen = set()
    for seed in range(200):
        disk = disk_with("a", b"")
        disk.open("/d/a").write((b"1" * 512 + b"2" * 512,), 0)
        disk.crash(Random(seed), kept=0.5)
        content = disk.read_file("/d/a")
        seen.add((len(content), content[:1], content[512:513]))
    assert {(0, b"", b""), (1024, b"1", b"2"), (1024, b"\0", b"2"), (1024, b"1", b"\0")} <= seen


def test_within_a_sector_a_later_write_never_survives_without_an_earlier_one() -> None:
    for seed in range(100):
        disk = disk_with("a", b"")
        file = disk.open("/d/a")
        file.write((b"1" * 10,), 0)
        file.write((b"2" * 10,), 10)
        disk.crash(Random(seed), kept=0.3)
        content = disk.read_file("/d/a").ljust(20, b"\0")
        assert content[10:] == bytes(10) or content[:10] == b"1" * 10


def test_a_call_can_fail_or_crash_the_node() -> None:
    disk = disk_with("a", b"x")
    disk.fail_at[disk.calls + 1] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        disk.read_file("/d/a")
    disk.fail_at[disk.calls + 1] = None
    with pytest.raises(Crashed):
        disk.read_file("/d/a")
    with pytest.raises(Crashed):
        disk.list("/d")
    disk.crash()
    assert disk.read_file("/d/a") == b"x"


def test_a_full_disk_writes_what_fits_and_then_fails() -> None:
    disk = disk_with("a", b"12345")
    disk.capacity = 8
    file = disk.open("/d/a")
    with pytest.raises(OSError) as full:
        file.write((b"abcdef",), 5)
    assert full.value.errno == errno.ENOSPC
    assert disk.read_file("/d/a") == b"12345abc"
    file.truncate(5)
    assert file.write((b"ZZ",), 0) == 2
    assert disk.space("/") == (8, 3)


def test_a_sync_covers_the_writes_before_its_request() -> None:
    disk = disk_with("a", b"")
    disk.syncs_at_once = False
    file = disk.open("/d/a")
    file.write((b"1",), 0)
    ended: list[OSError | None] = []
    disk.sync_later(file, ended.append)
    file.write((b"2",), 1)
    assert ended == []
    assert disk.finish_sync()
    assert ended == [None]
    disk.crash(kept=0.0)
    assert disk.read_file("/d/a") == b"1"


def test_after_a_failed_sync_the_bytes_are_readable_but_never_durable() -> None:
    disk = disk_with("a", b"")
    file = disk.open("/d/a")
    file.write((b"1",), 0)
    disk.failing["sync"] = errno.EIO
    with pytest.raises(OSError):
        file.sync()
    disk.failing.clear()
    file.sync()
    assert disk.read_file("/d/a") == b"1"
    disk.crash(kept=0.0)
    assert disk.read_file("/d/a") == b""


def test_a_removed_file_stays_readable_through_its_handle() -> None:
    disk = disk_with("a", b"xyz")
    file = disk.open("/d/a")
    disk.remove("/d/a")
    assert file.read(2, 1) == b"yz"
    assert not disk.exists("/d/a")


def test_replacing_a_file_is_durable() -> None:
    disk = disk_with("a", b"old")
    disk.replace_file("/d/a", b"new")
    disk.crash(kept=0.0)
    assert contents(disk) == {"a": b"new"}


def test_a_directory_is_locked_once() -> None:
    disk = disk_with("a", b"")
    lock = disk.lock_folder("/d")
    with pytest.raises(BlockingIOError):
        disk.lock_folder("/d")
    lock.release()
    disk.lock_folder("/d")


def test_the_same_seed_gives_the_same_crash() -> None:
    def survivors() -> dict[str, bytes]:
        disk = disk_with("a", b"")
        disk.open("/d/a").write((b"x" * 5000,), 0)
        disk.open("/d/b", create=True).write((b"y" * 5000,), 0)
        disk.crash(Random("seed"))
        return contents(disk)

    assert survivors() == survivors()


def test_a_restored_file_has_its_old_content() -> None:
    disk = SimDisk()
    disk.replace_file("/epochs", b"old")
    old = b"old"
    disk.replace_file("/epochs", b"new and longer")
    disk.put_back("/epochs", old)
    assert disk.read_file("/epochs") == old
    disk.crash(kept=1.0)
    assert disk.read_file("/epochs") == old
