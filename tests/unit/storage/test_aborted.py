"""The aborted transactions of a log compared with a plain list, after any change to the files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from penstock.model.errors import StorageError
from penstock.storage.aborted import CHECKPOINT
from penstock.storage.log import Log
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Segment
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import FOLDER, append, batch, end_transaction, open_log, transactional

PRODUCERS = range(5)


@dataclass
class Story:
    """A log of overlapping transactions that cross segments, and the expected result."""

    disk: SimDisk = field(default_factory=SimDisk)
    open: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)

    def go_on(self, log: Log, random: Random, steps: int) -> None:
        for _ in range(steps):
            who = random.choice(PRODUCERS)
            draw = random.random()
            if draw < 0.3:
                append(log, batch(random.randrange(1, 4)))
            elif who in self.open and draw < 0.6:
                commit = random.random() < 0.4
                marker = end_transaction(log, commit=commit, producer_id=who)
                first = self.open.pop(who)
                if not commit:
                    self.aborted.append((who, first, marker.base_offset))
            else:
                count = random.randrange(1, 4)
                sequence = self.sequences.get(who, 0)
                sealed = transactional(count, sequence=sequence, producer_id=who, value=b"v" * 50)
                self.open.setdefault(who, append(log, sealed, transaction_verified=True).base_offset)
                self.sequences[who] = sequence + count

    def check(self, log: Log) -> None:
        for start in range(0, log.end_offset, 7):
            for size in (1, 10, 45, log.end_offset):
                needed = {(who, first) for who, first, last in self.aborted if first < start + size and last >= start}
                found = log.aborted_transactions(start, start + size)
                assert needed <= set(found)
                assert all(last >= start for who, first, last in self.aborted if (who, first) in found)
                assert [first for _, first in found] == sorted(first for _, first in found)
                piece = log.read(start, max_bytes=size * 20, end=log.end_offset)
                assert piece is not None
                assert needed_for(self, log, start, piece.position + piece.size) <= set(log.aborted_in(start, piece))
        assert log.first_unstable_offset == min(self.open.values(), default=None)


def needed_for(story: Story, log: Log, start: int, stop: int) -> set[tuple[int, int]]:
    """Return the aborted transactions with a batch between an offset and a position in its segment."""
    segment = [each for each in log.segments if each.base_offset <= start][-1]
    end = max(header[0] + header[6] + 1 for at, header in segment.headers_from(0) if at < stop)
    return {(who, first) for who, first, last in story.aborted if first < end and last >= start}


def told(seed: int, steps: int = 120) -> tuple[Story, Log]:
    story = Story()
    log = open_log(story.disk)
    story.go_on(log, Random(seed), steps)
    log.high_watermark_moved(log.end_offset)
    assert len(log.segments) > 3 and len(story.aborted) > 5
    return story, log


@pytest.mark.parametrize("seed", range(6))
def test_every_aborted_transaction_of_a_range_is_returned_in_order(seed: int) -> None:
    story, log = told(seed)
    story.check(log)


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("seed", range(4))
def test_a_restart_changes_nothing(seed: int, clean: bool) -> None:
    story, log = told(seed)
    random = Random(-seed)
    for _ in range(3):
        if clean:
            log.close()
        log = open_log(story.disk, clean=clean, recovery_point=log.end_offset if clean else log.segments.bases[-2])
        story.check(log)
        story.go_on(log, random, 30)
        log.high_watermark_moved(log.end_offset)
    story.check(log)


SPOILERS: dict[str, Callable[[SimDisk, str], None]] = {
    "removed": lambda disk, path: disk.remove(path),
    "emptied": lambda disk, path: disk.open(path).truncate(0),
    "cut by an entry": lambda disk, path: disk.open(path).truncate(max(disk.open(path).size() - 34, 0)),
    "flipped": lambda disk, path: disk.flip(path, disk.open(path).size() // 2) if disk.open(path).size() else None,
}


@pytest.mark.parametrize(
    "kinds", [(".txnindex",), (CHECKPOINT,), (".snapshot",), (".txnindex", ".snapshot", CHECKPOINT)]
)
@pytest.mark.parametrize("spoiler", SPOILERS)
def test_derived_files_may_be_damaged(spoiler: str, kinds: tuple[str, ...]) -> None:
    story, log = told(3)
    log.close()
    for name in story.disk.list(FOLDER):
        if name.endswith(kinds):
            SPOILERS[spoiler](story.disk, f"{FOLDER}/{name}")
    again = open_log(story.disk, clean=True, recovery_point=log.end_offset)
    story.check(again)
    again.close()
    story.check(open_log(story.disk, clean=True, recovery_point=log.end_offset))


def test_a_checkpoint_does_not_apply_to_a_segment_that_grew_later() -> None:
    story = Story()
    log = open_log(story.disk)
    append(log, batch())
    log.close()
    old = story.disk.read_file(f"{FOLDER}/{CHECKPOINT}")
    log = open_log(story.disk, clean=True, recovery_point=1)
    story.go_on(log, Random(1), 60)
    log.close()
    story.disk.open(f"{FOLDER}/{CHECKPOINT}").truncate(0)
    story.disk.open(f"{FOLDER}/{CHECKPOINT}").write((old,), 0)
    for name in story.disk.list(FOLDER):
        if name.endswith(".txnindex"):
            story.disk.remove(f"{FOLDER}/{name}")
    story.check(open_log(story.disk, clean=True, recovery_point=log.end_offset))


def test_indexes_are_removed_with_their_segments() -> None:
    story, log = told(2)
    log.close()
    log = open_log(story.disk, clean=True, recovery_point=log.end_offset, retention_ms=1, file_delete_delay_ms=0)
    assert log.delete_old_segments(high_watermark=log.end_offset, now_ms=10**15) > 0
    log.deletes.remove_due(10**15)
    kept = {name.partition(".")[0] for name in story.disk.list(FOLDER) if name.endswith(".log")}
    assert {name.partition(".")[0] for name in story.disk.list(FOLDER) if name.endswith(".txnindex")} <= kept
    start = log.start_offset
    needed = {(who, first) for who, first, last in story.aborted if last >= start}
    assert needed <= set(log.aborted_transactions(start, log.end_offset))


def test_a_log_without_aborted_transactions_needs_no_index() -> None:
    disk = SimDisk()
    log = open_log(disk)
    for sequence in range(30):
        append(log, transactional(sequence=sequence, value=b"v" * 60), transaction_verified=True)
    end_transaction(log, commit=True)
    assert not log.any_aborted
    log.close()
    again = open_log(disk, clean=True, recovery_point=log.end_offset)
    assert not again.any_aborted
    assert not any(name.endswith(".txnindex") for name in disk.list(FOLDER))


def test_damage_in_a_segment_whose_index_must_be_rebuilt_is_reported() -> None:
    story, log = told(3)
    log.close()
    position = [at for at, _ in log.segments[0].headers_from(0)][2]
    story.disk.remove(f"{FOLDER}/{CHECKPOINT}")
    story.disk.open(log.segments[0].path).write((b"\xff" * 20,), position)
    again = open_log(story.disk, clean=True, recovery_point=log.end_offset)
    with pytest.raises(StorageError):
        again.aborted_transactions(0, 5)
    assert again.damage is not None


def test_damage_that_is_found_with_the_aborted_transactions_of_a_read_is_quarantined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = open_log(SimDisk())
    append(log, transactional(sequence=0, producer_id=1), transaction_verified=True)
    end_transaction(log, commit=False, producer_id=1)
    piece = log.read(0, max_bytes=1000, end=log.end_offset)
    assert piece is not None

    def find_damage(*given: object, **named: object) -> int:
        raise BadBatch(0, "the header is damaged")

    monkeypatch.setattr(Segment, "offset_bound", find_damage)
    with pytest.raises(StorageError):
        log.aborted_in(0, piece)
    assert log.damage is not None
