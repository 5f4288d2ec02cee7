import errno
from collections.abc import Callable
from random import Random

import pytest

from penstock.ports.disk import File
from penstock.storage.journal import FILE_NAMES, TAIL_SIZE_MAX, Journal
from penstock.storage.journal_format import GROUP
from penstock_sim.disk import Crashed, SimDisk

FOLDER = "/data"


class Tail:
    """A file that only grows, like a log."""

    def __init__(self, disk: SimDisk, name: str) -> None:
        disk.make_folder(f"{FOLDER}/logs")
        self.file: File = disk.open(f"{FOLDER}/logs/{name}", create=True)
        disk.sync_folder("/")
        disk.sync_folder(FOLDER)
        disk.sync_folder(f"{FOLDER}/logs")
        self.size = 0
        self.durable = 0
        self.errors: list[OSError] = []

    def grow(self, journal: Journal, data: bytes) -> None:
        position = self.size
        self.file.write((data,), position)
        self.size += len(data)
        journal.sync_tail_later(self.file, position, len(data), self._done(self.size))

    def _done(self, size: int) -> Callable[[OSError | None], None]:
        def done(error: OSError | None) -> None:
            if error is None:
                self.durable = max(self.durable, size)
            else:
                self.errors.append(error)

        return done

    def content(self, disk: SimDisk) -> bytes:
        return disk.read_file(self.file.path)


class LateDisk(SimDisk):
    """A disk on which a test decides when the syncs of one file end."""

    late = ""

    def __init__(self, *, syncs_at_once: bool) -> None:
        super().__init__(syncs_at_once=syncs_at_once)
        self._late: list[Callable[[OSError | None], None]] = []

    def sync_later(self, file: File, done: Callable[[OSError | None], None]) -> None:
        if file.path == self.late:
            self._late.append(done)
        else:
            super().sync_later(file, done)

    def end_late(self) -> None:
        self.late = ""
        for done in self._late:
            done(None)


class WholeWrites(Random):
    """A disk whose failed writes have written everything."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return start - 1 if stop is None else super().randrange(start, stop, step)


def begin(disk: SimDisk, *, size: int = 100_000, group_least: int = 0) -> Journal:
    disk.make_folder(FOLDER)
    journal = Journal(disk, FOLDER, secret=1234, size=size, group_least=group_least)
    assert journal.replay() == []
    return journal


def synced_paths(disk: SimDisk) -> list[str]:
    return [path for kind, path in disk.trace if kind == "sync"]


def test_many_files_share_one_sync() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk)
    tails = [Tail(disk, str(index)) for index in range(10)]
    for tail in tails:
        tail.grow(journal, b"x" * 50)
    # The first one was written alone; those that arrived meanwhile share a group.
    assert disk.syncs_under_way() == 1
    disk.finish_sync()
    assert [tail.durable for tail in tails] == [50] + [0] * 9
    assert disk.syncs_under_way() == 1
    disk.finish_sync()
    assert [tail.durable for tail in tails] == [50] * 10


def test_the_journal_restores_bytes_after_a_power_failure() -> None:
    disk = SimDisk()
    journal = begin(disk)
    tails = [Tail(disk, str(index)) for index in range(3)]
    for round_ in range(5):
        for tail in tails:
            tail.grow(journal, bytes([round_]) * 30)
    assert synced_paths(disk) == [f"{FOLDER}/{FILE_NAMES[0]}"] * 15
    disk.crash(kept=0.0)
    assert tails[0].content(disk) == b"", "the files themselves were never synced"
    begin(disk)
    expected = b"".join(bytes([round_]) * 30 for round_ in range(5))
    assert [tail.content(disk) for tail in tails] == [expected] * 3


def test_replayed_bytes_are_durable_and_the_journal_is_empty() -> None:
    disk = SimDisk()
    tail = Tail(disk, "a")
    tail.grow(begin(disk), b"acknowledged")
    disk.crash(kept=0.0)
    begin(disk)
    disk.crash(kept=0.0)
    assert tail.content(disk) == b"acknowledged"
    assert not any(disk.exists(f"{FOLDER}/{name}") and disk.read_file(f"{FOLDER}/{name}") for name in FILE_NAMES)


def test_a_few_files_are_synced_directly() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk, group_least=2)
    tails = [Tail(disk, str(index)) for index in range(2)]
    for tail in tails:
        tail.grow(journal, b"data")
    assert disk.syncs_under_way() == 2
    assert not disk.exists(f"{FOLDER}/{FILE_NAMES[0]}")


def test_files_are_synced_one_by_one_again_after_several_small_groups() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk, group_least=2)
    tails = [Tail(disk, str(index)) for index in range(5)]
    for tail in tails:
        tail.grow(journal, b"data")
    while disk.finish_sync():
        pass
    for _ in range(40):
        tails[0].grow(journal, b"data")
        disk.finish_sync()
    before = disk.read_file(f"{FOLDER}/{FILE_NAMES[0]}")
    tails[0].grow(journal, b"data")
    disk.finish_sync()
    assert tails[0].durable == tails[0].size
    assert disk.read_file(f"{FOLDER}/{FILE_NAMES[0]}") == before


def test_a_long_tail_is_synced_directly() -> None:
    disk = SimDisk()
    tail = Tail(disk, "a")
    tail.grow(begin(disk), bytes(TAIL_SIZE_MAX + 1))
    assert synced_paths(disk) == [tail.file.path]


def test_without_a_size_there_is_no_journal() -> None:
    disk = SimDisk()
    tail = Tail(disk, "a")
    tail.grow(begin(disk, size=0), b"data")
    assert synced_paths(disk) == [tail.file.path]


def test_the_halves_take_turns_and_lose_nothing() -> None:
    disk = SimDisk()
    journal = begin(disk, size=400)
    tails = [Tail(disk, str(index)) for index in range(3)]
    random = Random("turns")
    for _ in range(60):
        random.choice(tails).grow(journal, random.randbytes(random.randrange(1, 90)))
    assert all(len(disk.read_file(f"{FOLDER}/{name}")) <= 400 for name in FILE_NAMES)
    before = [tail.content(disk) for tail in tails]
    disk.crash(kept=0.0)
    begin(disk)
    assert [tail.content(disk) for tail in tails] == before
    assert [tail.durable for tail in tails] == [tail.size for tail in tails]


def test_a_half_is_not_overwritten_before_its_files_are_synced() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk, size=300)
    tails = [Tail(disk, str(index)) for index in range(2)]
    for step in range(40):
        tails[step % 2].grow(journal, b"x" * 60)
        if step % 3 == 2:
            disk.finish_sync()
        acknowledged = [tail.durable for tail in tails]
    disk.crash(kept=0.0)
    disk.syncs_at_once = True
    begin(disk)
    for tail, durable in zip(tails, acknowledged, strict=True):
        assert tail.content(disk)[:durable] == b"x" * durable


def test_truncated_bytes_are_not_restored() -> None:
    disk = SimDisk()
    journal = begin(disk)
    tail = Tail(disk, "a")
    tail.grow(journal, b"kept")
    tail.grow(journal, b"cut")
    journal.invalidate(tail.file.path)
    tail.file.truncate(4)
    tail.file.sync()
    tail.size = 4
    tail.grow(journal, b" and more")
    disk.crash(kept=0.0)
    begin(disk)
    assert tail.content(disk) == b"kept and more"


def test_bytes_truncated_while_their_half_is_overwritten_are_not_restored() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk, size=250)
    cut, other = Tail(disk, "cut"), Tail(disk, "other")
    for tail in (cut, cut, other, other):
        tail.grow(journal, b"x" * 60)
        while disk.finish_sync():
            pass
    other.grow(journal, b"x" * 60)
    journal.invalidate(cut.file.path)
    cut.file.truncate(10)
    cut.file.sync()
    disk.crash(kept=0.0)
    begin(disk)
    assert len(cut.content(disk)) == 10


def test_an_invalidated_file_keeps_its_content() -> None:
    disk = SimDisk()
    journal = begin(disk)
    tail = Tail(disk, "a")
    tail.grow(journal, b"acknowledged")
    journal.invalidate(tail.file.path)
    disk.crash(kept=0.0)
    begin(disk)
    assert tail.content(disk) == b"acknowledged"


def test_a_folder_is_invalidated_with_all_of_its_files_and_waiting_syncs() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk)
    tails = [Tail(disk, str(index)) for index in range(3)]
    for tail in tails:
        tail.grow(journal, b"data")
    journal.invalidate(f"{FOLDER}/logs")
    while disk.finish_sync():
        pass
    assert [tail.durable for tail in tails] == [4, 4, 4]
    for tail in tails:
        tail.file.truncate(0)
        tail.file.sync()
    disk.crash(kept=0.0)
    disk.syncs_at_once = True
    begin(disk)
    assert [tail.content(disk) for tail in tails] == [b"", b"", b""]


def test_a_removed_file_is_not_restored() -> None:
    disk = SimDisk()
    tail = Tail(disk, "a")
    tail.grow(begin(disk), b"data")
    disk.remove(tail.file.path)
    begin(disk)
    assert not disk.exists(tail.file.path)


def test_a_file_that_lost_more_than_the_journal_has_is_not_changed() -> None:
    disk = SimDisk()
    journal = begin(disk)
    tail = Tail(disk, "a")
    tail.grow(journal, bytes(TAIL_SIZE_MAX + 1))
    tail.grow(journal, b"more")
    tail.file.truncate(10)
    tail.file.sync()
    notes = Journal(disk, FOLDER, secret=1).replay()
    assert tail.content(disk) == bytes(10)
    assert "logs/a ends before" in notes[0]


def test_files_are_synced_directly_on_a_full_disk() -> None:
    disk = SimDisk()
    journal = begin(disk)
    tails = [Tail(disk, str(index)) for index in range(2)]
    tails[0].grow(journal, b"x" * 100)
    disk.capacity = disk.space("/")[0] - disk.space("/")[1] + 100 + 5
    tails[0].grow(journal, b"y" * 100)
    assert tails[0].durable == 200
    assert synced_paths(disk)[-1] == tails[0].file.path


def test_a_file_can_be_invalidated_on_a_full_disk() -> None:
    disk = SimDisk()
    journal = begin(disk)
    tails = [Tail(disk, str(index)) for index in range(2)]
    for tail in tails:
        tail.grow(journal, b"data")
    disk.capacity = disk.space("/")[0] - disk.space("/")[1]
    journal.invalidate(tails[0].file.path)
    tails[0].file.truncate(0)
    tails[0].file.sync()
    disk.crash(kept=0.0)
    begin(disk)
    assert [tail.content(disk) for tail in tails] == [b"", b"data"]


def test_a_failed_sync_is_reported_to_all_callbacks() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk)
    tails = [Tail(disk, str(index)) for index in range(3)]
    for tail in tails:
        tail.grow(journal, b"data")
    disk.finish_sync(OSError(errno.EIO, "broken"))
    assert [len(tail.errors) for tail in tails] == [1, 1, 1]
    assert [tail.durable for tail in tails] == [0, 0, 0]


def test_a_failed_sync_without_a_callback_is_reported() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk, size=200)
    told: list[OSError] = []
    journal.on_failure = told.append
    tail = Tail(disk, "a")
    while disk.syncs_under_way() < 2:
        tail.grow(journal, b"x" * 60)
        if disk.syncs_under_way() < 2:
            disk.finish_sync()
    disk.finish_sync(OSError(errno.EIO, "broken"))
    assert len(told) == 1


def test_closing_leaves_files_that_need_no_journal() -> None:
    disk = SimDisk()
    journal = begin(disk)
    tail = Tail(disk, "a")
    tail.grow(journal, b"acknowledged")
    journal.close()
    assert not any(disk.exists(f"{FOLDER}/{name}") for name in FILE_NAMES)
    disk.crash(kept=0.0)
    assert tail.content(disk) == b"acknowledged"


def test_closing_during_a_sync_answers_all_callbacks_and_leaves_no_journal() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk)
    tails = [Tail(disk, str(index)) for index in range(3)]
    for tail in tails:
        tail.grow(journal, b"data")
    journal.close()
    while disk.finish_sync():
        pass
    assert [tail.durable for tail in tails] == [4, 4, 4]
    tails[0].grow(journal, b"late")
    disk.finish_sync()
    assert tails[0].durable == 8
    assert not any(disk.exists(f"{FOLDER}/{name}") for name in FILE_NAMES)


def test_more_than_a_half_holds_goes_in_several_groups() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk, size=1000)
    tails = [Tail(disk, str(index)) for index in range(40)]
    for tail in tails:
        tail.grow(journal, b"x" * 60)
    disk.finish_sync()
    assert [(kind, path) for kind, path in disk.trace if kind == "write"][-1][1].startswith(f"{FOLDER}/journal.")
    while disk.finish_sync():
        pass
    assert [tail.durable for tail in tails] == [60] * 40


def test_a_sync_started_before_a_truncation_does_not_cover_later_appends() -> None:
    disk = LateDisk(syncs_at_once=False)
    journal = begin(disk, size=300)
    tail, other = Tail(disk, "a"), Tail(disk, "b")
    tail.grow(journal, b"x" * 150)
    disk.finish_sync()
    disk.late = tail.file.path
    other.grow(journal, b"x" * 150)
    # The halves have changed, and the sync of the first file takes long. After the truncation it no longer matters.
    while disk.finish_sync():
        pass
    journal.invalidate(tail.file.path)
    tail.file.truncate(0)
    tail.file.sync()
    tail.size = tail.durable = 0
    while tail.durable == 0:
        other.grow(journal, b"x" * 150)
        while disk.finish_sync():
            pass
        if f"{FOLDER}/{FILE_NAMES[0]}" == [path for kind, path in disk.trace if kind == "write"][-1]:
            tail.grow(journal, b"y" * 20)
            while disk.finish_sync():
                pass
    disk.end_late()
    for _ in range(5):
        other.grow(journal, b"x" * 150)
        while disk.finish_sync():
            pass
    disk.crash(kept=0.0)
    disk.syncs_at_once = True
    begin(disk)
    assert tail.content(disk) == b"y" * 20


@pytest.mark.parametrize("luck", range(20))
def test_a_partly_overwritten_pass_restores_nothing(luck: int) -> None:
    disk = SimDisk(luck, syncs_at_once=False)
    journal = begin(disk, size=3000)
    cut, other = Tail(disk, "cut"), Tail(disk, "other")
    # The bytes end in the first sector of the journal, and the entry that invalidates them in the second.
    cut.grow(journal, b"x" * 450)
    disk.finish_sync()
    journal.invalidate(cut.file.path)
    cut.file.truncate(10)
    cut.file.sync()
    first = disk.read_file(f"{FOLDER}/{FILE_NAMES[0]}")[: GROUP.size]
    while disk.read_file(f"{FOLDER}/{FILE_NAMES[0]}")[: GROUP.size] in (first, bytes(GROUP.size)):
        while disk.finish_sync():
            pass
        other.grow(journal, b"y" * 1100)
    disk.crash(Random(luck), kept=0.5)
    begin(disk)
    assert len(cut.content(disk)) == 10


def test_the_remains_of_a_failed_write_are_invalidated() -> None:
    disk = SimDisk()
    journal = begin(disk)
    tail = Tail(disk, "a")
    # Part of the group, or all of it, is written; the file is synced directly.
    disk.random = WholeWrites()
    disk.fail_at[disk.calls + 6] = errno.EIO
    tail.grow(journal, b"x" * 10)
    assert tail.durable == 10
    assert disk.trace[-2:] == [("write", f"{FOLDER}/{FILE_NAMES[0]}"), ("sync", tail.file.path)]
    journal.invalidate(tail.file.path)
    tail.file.truncate(5)
    tail.file.sync()
    disk.crash(kept=1.0)
    begin(disk)
    assert tail.content(disk) == b"x" * 5


def test_a_failed_folder_sync_is_reported() -> None:
    disk = SimDisk()
    journal = begin(disk)
    told: list[OSError] = []
    journal.on_failure = told.append
    tail = Tail(disk, "a")
    disk.failing["sync_folder"] = errno.EIO
    tail.grow(journal, b"data")
    assert len(told) == 1


def test_deleted_files_are_invalidated_with_one_sync() -> None:
    disk = SimDisk()
    journal = begin(disk)
    tails = [Tail(disk, str(index)) for index in range(20)]
    for tail in tails:
        tail.grow(journal, b"data")
    before = len(synced_paths(disk))
    journal.forget(f"{FOLDER}/logs")
    assert synced_paths(disk)[before:] == [f"{FOLDER}/{FILE_NAMES[0]}"]
    disk.crash(kept=0.0)
    begin(disk)
    assert [tail.content(disk) for tail in tails] == [b""] * 20


@pytest.mark.parametrize("luck", range(4))
def test_a_power_failure_at_any_call_neither_removes_acknowledged_bytes_nor_restores_truncated_ones(luck: int) -> None:
    call = 1
    while _life_until(call, luck):
        call += 1
    assert call > 150, "the whole life was walked through"


def _life_until(call: int, luck: int) -> bool:
    """Change files up to a disk call, then lose power, restart and compare; return False after the last call."""
    disk = SimDisk(f"{luck}:{call}")
    random = Random(luck)
    journal = begin(disk, size=350)
    tails = {name: Tail(disk, name) for name in "abc"}
    first = disk.calls
    disk.fail_at[first + call] = None
    size_max = dict.fromkeys(tails, 0)
    cut_short = False
    try:
        for step in range(40):
            name = random.choice("abc")
            tail = tails[name]
            # The last operations are truncations, so that a journal with invalidated files is closed.
            if step > 36 or random.random() < 0.15:
                kept = random.randrange(tail.size + 1)
                tail.durable = min(tail.durable, kept)
                journal.invalidate(tail.file.path)
                tail.file.truncate(kept)
                tail.file.sync()
                tail.size = tail.durable = size_max[name] = kept
            else:
                data = name.encode() * random.randrange(1, 80)
                size_max[name] = tail.size + len(data)
                tail.grow(journal, data)
        journal.close()
    except Crashed:
        cut_short = True
    disk.crash(Random(f"{luck}:{call}"))
    Journal(disk, FOLDER, secret=77).replay()
    for name, tail in tails.items():
        found = tail.content(disk)
        assert tail.durable <= len(found) <= size_max[name]
        assert found[: tail.durable] == name.encode() * tail.durable
    return cut_short


def test_a_failed_erasure_takes_the_folder_offline() -> None:
    disk = SimDisk()
    journal = begin(disk, size=4_000)
    failures: list[OSError] = []
    journal.on_failure = failures.append
    sync_later = disk.sync_later

    def fail_erasure(file: File, done: Callable[[OSError | None], None]) -> None:
        erased = file.path.endswith(FILE_NAMES) and disk.read_file(file.path)[: GROUP.size] == bytes(GROUP.size)
        if erased:
            done(OSError(errno.EIO, "gone"))
        else:
            sync_later(file, done)

    disk.sync_later = fail_erasure  # type: ignore[method-assign]
    tail = Tail(disk, "a")
    for _ in range(40):
        tail.grow(journal, b"x" * 300)
    assert [error.errno for error in failures[:1]] == [errno.EIO]


def test_a_file_that_its_log_has_closed_is_synced_and_not_kept_open() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk)
    tail = Tail(disk, "0")
    tail.grow(journal, b"first")
    disk.finish_sync()
    assert tail.durable == 5
    path = tail.file.path
    journal.sync_released(path)
    journal.sync_released(f"{FOLDER}/logs/other")
    assert path in journal._halves[0].unsynced
    while disk.finish_sync():
        pass
    assert not journal._halves[0].unsynced
    disk.crash(kept=0.0)
    assert disk.read_file(path) == b"first"


def test_a_file_that_is_opened_again_is_not_covered_by_an_earlier_sync() -> None:
    disk = LateDisk(syncs_at_once=True)
    journal = begin(disk, size=400)
    tail, other = Tail(disk, "0"), Tail(disk, "1")
    tail.grow(journal, b"first")
    disk.late = tail.file.path
    journal.sync_released(tail.file.path)
    tail.file = disk.open(tail.file.path)
    tail.grow(journal, b" second")
    disk.end_late()
    for _ in range(10):
        other.grow(journal, b"x" * 100)
    assert tail.durable == 12
    disk.crash(kept=0.0)
    Journal(disk, FOLDER, secret=1, size=400).replay()
    assert tail.content(disk) == b"first second"


def test_a_failed_sync_of_a_closed_file_is_reported() -> None:
    disk = SimDisk(syncs_at_once=False)
    journal = begin(disk)
    failures: list[OSError] = []
    journal.on_failure = failures.append
    tail = Tail(disk, "0")
    tail.grow(journal, b"first")
    disk.finish_sync()
    journal.sync_released(tail.file.path)
    disk.finish_sync(OSError(errno.EIO, "gone"))
    assert [each.errno for each in failures] == [errno.EIO]
