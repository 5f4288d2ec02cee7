import errno
from collections.abc import Callable

import pytest

from penstock.model.errors import StartupError
from penstock.ports.disk import Disk, File
from penstock.storage.journal import Journal
from penstock.storage.journaled_disk import JournaledDisk, replay
from penstock.storage.reserve import Reserve
from penstock_sim.disk import SimDisk

LOG = "/data/orders-0/a.log"
OTHER = "/data/orders-0/b.log"


def nothing(error: OSError | None) -> None:
    assert error is None


def new_file(disk: Disk, path: str, content: bytes) -> None:
    """Durably replace a file by another one."""
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write((content,), 0)
    file.sync()


CHANGES: dict[str, Callable[[Disk, File], None]] = {
    "cut": lambda disk, file: disk.cut(file, 0),
    "removed": lambda disk, file: disk.remove(LOG),
    "removed later": lambda disk, file: disk.remove_later(LOG, nothing),
    "renamed": lambda disk, file: disk.rename(LOG, LOG + ".deleted"),
    "renamed over": lambda disk, file: disk.rename(OTHER, LOG),
    "folder renamed": lambda disk, file: disk.rename("/data/orders-0", "/data/orders-0.delete"),
    "folder removed": lambda disk, file: disk.remove_folder("/data/orders-0"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_replaces_another_gets_none_of_its_journal_entries(change: str) -> None:
    raw = SimDisk()
    raw.make_folder("/data/orders-0")
    new_file(raw, OTHER, b"other")
    disk = JournaledDisk(raw, Journal(raw, "/data", secret=5, group_least=0))
    file = disk.open(LOG, create=True)
    file.write((b"old bytes",), 0)
    disk.sync_tail_later(file, 0, 9, nothing)
    CHANGES[change](disk, file)
    raw.make_folder("/data/orders-0")
    new_file(raw, LOG, b"new")
    for folder in ("/", "/data", "/data/orders-0"):
        raw.sync_folder(folder)
    raw.crash(kept=0.0)
    Journal(raw, "/data", secret=6).replay()
    assert raw.read_file(LOG) == b"new"


def test_an_unreadable_journal_is_a_startup_error() -> None:
    raw = SimDisk()
    raw.make_folder("/data")
    raw.failing["read"] = errno.EACCES
    with pytest.raises(StartupError, match=r"journal.0, journal.1\).*Permission denied.*start again"):
        replay(Journal(raw, "/data", secret=5), "/data", Reserve(raw, "/data", 0))
