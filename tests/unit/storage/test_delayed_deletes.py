"""Removed files of a log: when they are deleted, and what happens if that fails."""

import errno
from weakref import ref

from penstock.storage.delayed_deletes import DelayedDeletes
from penstock.storage.directory import LogDirectory
from penstock_sim.disk import SimDisk


def test_files_are_deleted_after_their_delay_and_tried_again_after_a_failure() -> None:
    disk = SimDisk()
    for name in ("/a", "/b"):
        disk.open(name, create=True)
    deletes = DelayedDeletes(LogDirectory(disk, "/"))
    deletes.add(["/a"], due_ms=10)
    deletes.add(["/b"], due_ms=20)
    deletes.remove_due(9)
    assert (len(deletes), disk.list("/")) == (2, ["a", "b"])
    disk.failing["remove"] = errno.EBUSY
    deletes.remove_due(10)
    assert (len(deletes), disk.list("/")) == (2, ["a", "b"])
    disk.failing.clear()
    deletes.remove_due(10)
    assert (len(deletes), disk.list("/")) == (1, ["b"])
    deletes.remove_due(20)
    assert (len(deletes), disk.list("/")) == (0, [])


def test_a_file_that_was_read_after_its_removal_from_the_log_is_closed_when_it_is_deleted() -> None:
    disk = SimDisk()
    disk.open("/a", create=True)
    directory = LogDirectory(disk, "/")
    deletes = DelayedDeletes(directory)
    deletes.add(["/a"], due_ms=10)
    file = ref(directory.open_files.get("/a"))
    deletes.remove_due(9)
    assert file() is not None
    deletes.remove_due(10)
    assert file() is None
