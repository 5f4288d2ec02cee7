import pytest
from crc32c import crc32c

from penstock.model.errors import Corruption
from penstock.storage.producer_state import EndedTransaction
from penstock.storage.txn_index import EMPTY, TxnIndex
from penstock_sim.disk import SimDisk

LOG_PATH = "/00000000000000000000.log"
PATH = "/00000000000000000000.txnindex"
ENTRIES = [EndedTransaction(1, 5, 20, 8), EndedTransaction(2, 8, 30, 31), EndedTransaction(3, 25, 40, 41)]


def filled(*, loaded: bool = True) -> TxnIndex:
    index = TxnIndex(LOG_PATH, 0, loaded=loaded)
    for entry in ENTRIES:
        index.append(entry)
    return index


def reloaded(disk: SimDisk, expected: tuple[int, int] | None) -> TxnIndex:
    index = TxnIndex(LOG_PATH, 0, loaded=False)
    index.expected = expected
    index.load(disk)
    return index


def test_an_entry_has_kafkas_layout() -> None:
    disk = SimDisk()
    index = TxnIndex(LOG_PATH, 0, loaded=True)
    index.append(EndedTransaction(1, 2, 3, 4))
    index.save_if_any(disk)
    assert disk.read_file(PATH) == bytes.fromhex(
        "0000 0000000000000001 0000000000000002 0000000000000003 0000000000000004"
    )


def test_saved_entries_are_loaded() -> None:
    disk, index = SimDisk(), filled()
    index.save_if_any(disk)
    assert list(reloaded(disk, index.summary)) == ENTRIES


def test_there_is_no_file_without_entries() -> None:
    disk, index = SimDisk(), TxnIndex(LOG_PATH, 0, loaded=True)
    index.save_if_any(disk)
    assert not disk.exists(PATH) and index.summary == EMPTY
    assert len(reloaded(disk, EMPTY)) == 0


def test_entries_with_a_wrong_checksum_raise_corruption() -> None:
    disk, index = SimDisk(), filled()
    index.save_if_any(disk)
    for position in range(0, 3 * 34, 5):
        disk.flip(PATH, position)
        with pytest.raises(Corruption):
            reloaded(disk, index.summary)
        disk.flip(PATH, position)
    with pytest.raises(Corruption):
        reloaded(disk, None)
    disk.open(PATH).truncate(68)
    with pytest.raises(Corruption):
        reloaded(disk, index.summary)


def test_truncation_removes_later_entries_from_memory_and_file() -> None:
    disk, index = SimDisk(), filled()
    index.save_if_any(disk)
    index.truncate(30)
    index.save_if_any(disk)
    assert list(reloaded(disk, index.summary)) == ENTRIES[:1]
    index.append(ENTRIES[1])
    index.save_if_any(disk)
    assert list(reloaded(disk, index.summary)) == ENTRIES[:2]
    index.reset()
    index.save_if_any(disk)
    assert not disk.exists(PATH)


@pytest.mark.parametrize(
    ("start", "end", "expected", "is_complete"),
    [
        (0, 5, [], True),
        (0, 6, [(1, 5)], True),
        (0, 9, [(1, 5), (2, 8)], True),
        (20, 26, [(1, 5), (2, 8)], True),
        (21, 100, [(2, 8), (3, 25)], False),
        (41, 100, [], False),
    ],
)
def test_entries_that_overlap_a_range_are_found(
    start: int, end: int, expected: list[tuple[int, int]], is_complete: bool
) -> None:
    assert filled().overlapping(start, end) == (expected, is_complete)


def test_an_entry_of_an_unknown_version_is_corrupt() -> None:
    disk, index = SimDisk(), filled()
    index.save_if_any(disk)
    content = bytearray(disk.read_file(PATH))
    content[1] = 9
    disk.put_back(PATH, bytes(content))
    with pytest.raises(Corruption, match="version 9"):
        reloaded(disk, (len(ENTRIES), crc32c(bytes(content))))
