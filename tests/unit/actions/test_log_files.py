from typing import cast

import pytest

from penstock.actions.log_files import (
    Finding,
    dump_batches,
    dump_indexes,
    dump_records,
    dump_segments,
    find_segments,
    verify,
)
from penstock.ports.disk import Disk, File
from penstock.storage.offset_index import ENTRY as OFFSET_ENTRY
from penstock.storage.segment_list import SegmentList
from penstock.storage.time_index import ENTRY as TIME_ENTRY
from penstock.wire.records import Record, encode_batch
from penstock_sim.disk import SimDisk

FOLDER = "data/orders-0"
LOG, INDEX, TIMEINDEX = (f"{FOLDER}/{0:020d}.{ending}" for ending in ("log", "index", "timeindex"))


class MemoryFile:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def size(self) -> int:
        return len(self._content)

    def read(self, size: int, position: int) -> bytes:
        return self._content[position : position + size]

    def read_into(self, buffer: memoryview, position: int) -> int:
        part = self._content[position : position + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._content = b""


class MemoryDisk:
    """Just enough of a disk to read from."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        assert not create and not writable, "log commands only read"
        return cast(File, MemoryFile(self.files[path]))

    def read_file(self, path: str) -> bytes:
        return self.files[path]

    def exists(self, path: str) -> bool:
        return path in self.files

    def is_folder(self, path: str) -> bool:
        return any(name.startswith(path + "/") for name in self.files)

    def list(self, path: str) -> list[str]:
        return sorted({name[len(path) + 1 :].split("/")[0] for name in self.files if name.startswith(path + "/")})


FIRST = encode_batch([Record(timestamp=10, key=b"k", value=b"a"), Record(timestamp=11, value=b"b")], base_offset=0)
SECOND = encode_batch([Record(timestamp=12, value=None, headers=((b"h", b"1"),))], base_offset=2, codec=3)
THIRD = encode_batch([Record(timestamp=13, value=b"\xff")], base_offset=3)


@pytest.fixture
def files() -> dict[str, bytes]:
    return {
        LOG: FIRST + SECOND + THIRD,
        INDEX: OFFSET_ENTRY.pack(2, len(FIRST)),
        TIMEINDEX: TIME_ENTRY.pack(12, 2),
        "data/meta.properties": b"version=1\n",
        f"data/old-0.0123-delete/{0:020d}.log": b"garbage",
    }


def findings(files: dict[str, bytes], folder: str = "data") -> list[Finding]:
    disk = cast(Disk, MemoryDisk(files))
    return list(verify(disk, find_segments(disk, folder)))


def test_a_healthy_log_gives_no_findings_from_either_folder(files: dict[str, bytes]) -> None:
    assert findings(files, "data") == findings(files, FOLDER) == findings(files, FOLDER + "/") == []


def test_dumps_show_segments_batches_records_and_entries(files: dict[str, bytes]) -> None:
    disk = cast(Disk, MemoryDisk(files))
    segments = find_segments(disk, "data")
    (segment,) = dump_segments(disk, segments)
    assert (segment["batches"], segment["records"], segment["last_offset"], segment["state"]) == (3, 4, 3, "ok")
    assert [(row["position"], row["codec"]) for row in dump_batches(disk, segments)] == [
        (0, "none"),
        (len(FIRST), "lz4"),
        (len(FIRST + SECOND), "none"),
    ]
    records = list(dump_records(disk, segments))
    assert [row["offset"] for row in records] == [0, 1, 2, 3]
    assert records[0]["key"] == "k"
    assert (records[2]["value"], records[2]["headers"], records[3]["value"]) == (None, ["h=1"], "\\xff")
    assert [(row["index"], row["offset"]) for row in dump_indexes(disk, segments)] == [("offset", 2), ("time", 2)]


def test_a_torn_end_is_not_damage(files: dict[str, bytes]) -> None:
    files[LOG] = files[LOG][:-5]
    (found,) = findings(files)
    assert not found.damage
    assert found.position == len(FIRST + SECOND)
    assert "The next start truncates it" in found.next_step


def test_damage_in_the_middle_names_the_next_valid_batch(files: dict[str, bytes]) -> None:
    rotten = bytearray(files[LOG])
    rotten[len(FIRST) + 70] ^= 1
    files[LOG] = bytes(rotten)
    log, *derived = findings(files)
    assert log.damage
    assert log.position == len(FIRST)
    assert f"a valid batch follows at {len(FIRST + SECOND)}" in log.problem
    assert not any(finding.damage for finding in derived)


def test_a_torn_end_of_a_closed_segment_is_damage(files: dict[str, bytes]) -> None:
    files[LOG] = files[LOG][:-5]
    for ending, content in (
        ("log", encode_batch([Record(value=b"n")], base_offset=4)),
        ("index", b""),
        ("timeindex", b""),
    ):
        files[f"{FOLDER}/{4:020d}.{ending}"] = content
    (found,) = findings(files)
    assert found.damage
    assert "more segments follow" in found.problem


def test_a_missing_or_wrong_index_is_rebuilt_at_start(files: dict[str, bytes]) -> None:
    del files[TIMEINDEX]
    files[INDEX] = OFFSET_ENTRY.pack(1, len(FIRST))
    assert [(finding.file, finding.damage) for finding in findings(files)] == [(INDEX, False), (TIMEINDEX, False)]


def test_an_index_with_an_incomplete_entry_is_reported(files: dict[str, bytes]) -> None:
    files[INDEX] += b"\x00"
    (found,) = findings(files)
    assert "are not whole entries" in found.problem


def test_segments_must_be_contiguous(files: dict[str, bytes]) -> None:
    later = encode_batch([Record(timestamp=14, value=b"e")], base_offset=9)
    files[f"{FOLDER}/{9:020d}.log"] = later
    problems = [each.problem for each in findings(files) if each.damage]
    assert problems == ["ends at offset 3, but the next segment starts at 9: offsets 4 to 8 are missing"]


def test_listed_segments_above_the_log_start_must_exist(files: dict[str, bytes]) -> None:
    disk = SimDisk()
    disk.make_folder("/list")
    listed = SegmentList(disk, "/list")
    listed.add_closed(0, 4, len(files[LOG]))
    listed.add_closed(4, 9, 100)
    files[f"{FOLDER}/segments"] = disk.read_file("/list/segments")
    problems = [each.problem for each in findings(files) if each.damage]
    assert problems == ["segment 4 is missing, with offsets up to 8", "segment 9 is missing"]
    files[f"{FOLDER}/{9:020d}.log"] = encode_batch([Record(timestamp=14, value=b"e")], base_offset=9)
    files["data/log-start-offset-checkpoint"] = b"0\n1\norders 0 9\n"
    del files[LOG], files[INDEX], files[TIMEINDEX]
    assert not any(each.damage for each in findings(files))
