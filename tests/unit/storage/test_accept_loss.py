from collections.abc import Callable
from itertools import pairwise

import pytest

from penstock.model.errors import StartupError
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.storage.accept_loss import Assessment, accept_loss
from penstock.storage.log import Log
from penstock.wire.batch import BatchHeader, iter_batches
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import fill
from tests.unit.storage.support import stored as all_batches
from tests.unit.storage.test_damage import (
    FOLDER,
    PARTITION,
    SETTINGS,
    clean_stop,
    cut_segment,
    filled,
    kill,
    lose_endings,
    lose_segment,
    segments,
)
from tests.unit.storage.test_store import FIRST_ID, Ids, StillClock, load

ALL = set(range(0, 36, 3))
"""The base offsets of the batches: six offsets per segment."""


def stored(log: Log) -> list[BatchHeader]:
    """Return the batches with records; each is followed by the next one or by a filler for lost offsets."""
    found = all_batches(log)
    assert all(one.next_offset == other.base_offset for one, other in pairwise(found))
    return [each for each in found if each.record_count]


def accept(disk: SimDisk, *, confirmed: bool = True) -> Assessment:
    return accept_loss(disk, "/data", PARTITION, clock=StillClock(), entropy=Ids(), confirmed=confirmed)


def damaged(lose: Callable[[SimDisk], None], end: Callable[..., None] = clean_stop) -> SimDisk:
    """Return a disk after a start that detected the missing records."""
    disk = SimDisk()
    end(filled(disk), disk)
    lose(disk)
    store = load(disk)
    assert store.open(PARTITION, FIRST_ID, SETTINGS).damage is not None
    store.close()
    return disk


def reopened(disk: SimDisk) -> Log:
    log = load(disk).open(PARTITION, FIRST_ID, SETTINGS)
    disk._locked.clear()
    return log


def rot(disk: SimDisk) -> None:
    disk.flip(f"{FOLDER}/{segments(disk)[2]}", 100)
    disk.lose("/data/recovery-point-offset-checkpoint")


@pytest.mark.parametrize(
    ("lose", "given_up", "left", "start"),
    [
        (lambda disk: disk.lose(FOLDER), [(0, 35)], set(), 36),
        (lose_endings(".log"), [(0, 35)], set(), 36),
        (lose_segment(0), [(0, 5)], ALL - {0, 3}, 6),
        (lose_segment(1), [(6, 11)], ALL - {6, 9}, 0),
        (lose_segment(-2), [(24, 29)], ALL - {24, 27}, 0),
        (lose_segment(-1), [(30, 35)], ALL - {30, 33}, 0),
        (cut_segment(1, 300), [(9, 11)], ALL - {9}, 0),
        (cut_segment(1, 0), [(6, 11)], ALL - {6, 9}, 0),
        (cut_segment(-1, 300), [(33, 35)], ALL - {33}, 0),
        (rot, [(12, 14)], ALL - {12}, 0),
    ],
    ids=["folder", "segments", "first", "middle", "last closed", "active", "cut", "cut to 0", "end", "rot"],
)
def test_only_missing_records_are_discarded(
    lose: Callable[[SimDisk], None], given_up: list[tuple[int, int]], left: set[int], start: int
) -> None:
    disk = damaged(lose, kill if lose is rot else clean_stop)
    assert accept(disk, confirmed=False).given_up == given_up
    assert reopened(disk).damage is not None
    found = accept(disk)
    assert (found.given_up, found.start_offset, found.end_offset) == (given_up, start, 36)
    for _ in range(2):
        log = reopened(disk)
        assert (log.damage, log.start_offset, log.end_offset) == (None, start, 36)
        assert {header.base_offset for header in stored(log)} == left
    assert fill(log, [3] * 4) == [36, 39, 42, 45]
    log.roll()
    disk.crash(kept=0.0)
    assert {header.base_offset for header in stored(reopened(disk))} == left | {36, 39, 42, 45}
    assert accept(disk).damage is None


def test_a_lost_log_with_an_unknown_end_starts_at_0() -> None:
    disk = damaged(lambda disk: disk.lose(FOLDER), kill)
    found = accept(disk)
    assert (found.given_up, found.end_is_known, found.start_offset) == ([], False, 0)
    assert fill(reopened(disk), [1]) == [0]


def test_accepting_a_second_loss_discards_only_that_loss() -> None:
    disk = damaged(lose_segment(1))
    accept(disk)
    lose_segment(2)(disk)
    assert reopened(disk).damaged_from == 18
    assert accept(disk).given_up == [(18, 23)]
    assert {header.base_offset for header in stored(reopened(disk))} == ALL - {6, 9, 18, 21}


def test_a_reader_skips_an_accepted_loss() -> None:
    disk = damaged(lose_segment(1))
    accept(disk)
    log = reopened(disk)
    piece = log.read(8, max_bytes=10, end=36)
    assert piece is not None
    (filler,) = [BatchHeader.at(each) for each in iter_batches(piece.file.read(piece.size, piece.position))]
    assert (filler.base_offset, filler.next_offset, filler.record_count) == (6, 12, 0)


def test_a_folder_or_partition_that_does_not_exist_is_rejected() -> None:
    disk = SimDisk()
    clean_stop(filled(disk), disk)
    assert accept(disk).damage is None
    with pytest.raises(StartupError, match="cannot find the topic id of other-0"):
        accept_loss(
            disk, "/data", TopicPartition(TopicName("other"), PartitionIndex(0)), clock=StillClock(), entropy=Ids(),
            confirmed=True,
        )  # fmt: skip
    with pytest.raises(StartupError, match="is not a data folder"):
        accept_loss(disk, "/", PARTITION, clock=StillClock(), entropy=Ids(), confirmed=True)
