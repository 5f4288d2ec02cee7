"""Tails in the journal whose files cannot be written when a node starts."""

import errno

import pytest

from penstock.ports.disk import Disk
from penstock.storage.journal import Journal
from penstock.storage.journaled_disk import JournaledDisk
from penstock.storage.kept_tails import FILE_NAME
from penstock_sim.disk import Crashed, SimDisk

FOLDER = "/data"
LOG = f"{FOLDER}/orders-0/a.log"
OTHER = f"{FOLDER}/orders-1/a.log"
CONTENT = b"acknowledged"


def with_tails_in_the_journal() -> SimDisk:
    """Return a disk that lost power when only the journal had the contents of two logs."""
    raw = SimDisk()
    for path in (LOG, OTHER):
        raw.make_folder(path.rpartition("/")[0])
    disk = JournaledDisk(raw, Journal(raw, FOLDER, secret=5, group_least=0))
    errors: list[OSError | None] = []
    for path in (LOG, OTHER):
        file = disk.open(path, create=True)
        for folder in ("/", FOLDER, path.rpartition("/")[0]):
            raw.sync_folder(folder)
        file.write((CONTENT,), 0)
        disk.sync_tail_later(file, 0, len(CONTENT), errors.append)
    assert errors == [None, None]
    raw.crash(kept=0.0)
    assert raw.read_file(LOG) == b""
    return raw


def start(raw: SimDisk) -> tuple[JournaledDisk, list[str]]:
    journal = Journal(raw, FOLDER, secret=6, group_least=0)
    notes = journal.replay()
    return JournaledDisk(raw, journal), notes


def content(disk: Disk, path: str) -> bytes:
    file = disk.open(path, writable=False)
    return file.read(file.size(), 0)


def repair(raw: SimDisk) -> None:
    raw.read_well()


def test_a_file_that_cannot_be_opened_does_not_prevent_a_start() -> None:
    raw = with_tails_in_the_journal()
    raw.make_unreadable(LOG, -1, 0)
    disk, notes = start(raw)
    assert len(notes) == 1
    assert "cannot restore bytes of orders-0/a.log" in notes[0]
    assert content(disk, OTHER) == CONTENT
    with pytest.raises(OSError, match="Input/output error"):
        disk.open(LOG)


def test_a_file_is_not_opened_without_its_tail() -> None:
    raw = with_tails_in_the_journal()
    raw.make_unreadable(LOG, -1, 0)
    disk, _ = start(raw)
    repair(raw)
    raw.failing["write"] = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        disk.open(LOG, writable=False)
    del raw.failing["write"]
    assert content(disk, LOG) == CONTENT
    assert not raw.exists(f"{FOLDER}/{FILE_NAME}")


def test_kept_tails_survive_further_starts_and_power_failures() -> None:
    raw = with_tails_in_the_journal()
    for _ in range(3):
        raw.make_unreadable(LOG, -1, 0)
        _, notes = start(raw)
        assert len(notes) == 1
        raw.crash(kept=0.0)
    disk, notes = start(raw)
    assert notes == []
    assert content(disk, LOG) == CONTENT


@pytest.mark.parametrize("change", ["set aside", "removed", "truncated"])
def test_a_file_with_the_same_name_gets_nothing_of_the_old_tail(change: str) -> None:
    raw = with_tails_in_the_journal()
    raw.make_unreadable(LOG, -1, 0)
    disk, _ = start(raw)
    if change == "set aside":
        disk.rename(f"{FOLDER}/orders-0", f"{FOLDER}/orders-0-lost")
    elif change == "removed":
        disk.remove(LOG)
    else:
        repair(raw)
        disk.cut(raw.open(LOG), 0)
    raw.make_folder(f"{FOLDER}/orders-0")
    file = disk.open(LOG, create=True)
    file.write((b"new",), 0)
    file.sync()
    for folder in (FOLDER, f"{FOLDER}/orders-0"):
        raw.sync_folder(folder)
    raw.crash(kept=0.0)
    disk, _ = start(raw)
    assert content(disk, LOG) == b"new"


def test_a_damaged_file_of_kept_tails_is_reported() -> None:
    raw = with_tails_in_the_journal()
    raw.make_unreadable(LOG, -1, 0)
    start(raw)
    raw.flip(f"{FOLDER}/{FILE_NAME}", 20)
    raw.crash(kept=0.0)
    _, notes = start(raw)
    assert notes == [f"{FILE_NAME} is damaged: nothing of it can be restored"]


def test_an_error_of_the_disk_itself_still_prevents_the_start() -> None:
    raw = with_tails_in_the_journal()
    raw.failing["write"] = errno.ENOSPC
    with pytest.raises(OSError, match="No space"):
        start(raw)


def test_a_power_failure_at_any_call_loses_no_tail() -> None:
    call = 1
    while _start_until(call):
        call += 1
    assert call > 20


def _start_until(call: int) -> bool:
    """Keep a tail, then write it to its file, until a disk call; lose power, start again and compare."""
    raw = with_tails_in_the_journal()
    raw.make_unreadable(LOG, -1, 0)
    raw.fail_at[raw.calls + call] = None
    ended = False
    try:
        disk, _ = start(raw)
        repair(raw)
        disk.open(LOG)
        ended = True
    except Crashed:
        pass
    raw.crash()
    disk, _ = start(raw)
    assert [content(disk, LOG), content(disk, OTHER)] == [CONTENT, CONTENT], call
    return not ended


def test_a_failed_sync_of_a_restored_file_is_reported() -> None:
    raw = with_tails_in_the_journal()
    journal = Journal(raw, FOLDER, secret=6, group_least=0)
    reported: list[OSError] = []
    journal.on_failure = reported.append
    raw.failing["sync"] = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        journal.replay()
    assert [error.errno for error in reported] == [errno.EIO, errno.EIO], "once for each file"
