"""Kafka's checkpoint files: a version line, a count line, then one entry per line.

Used for the epochs of one log and for the offsets of all logs. Files are replaced as a whole and durably. A file that
fails its checks raises Corruption; no caller depends on a checkpoint.
"""

from collections.abc import Iterable, Mapping, Sequence
from sys import intern
from typing import Final

from crc32c import crc32c

from penstock.model.errors import Corruption
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.model.job import Job, finish
from penstock.ports.disk import Disk

VERSION: Final = 0
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEAN_OFFSETS: Final = "cleaner-offset-checkpoint"
ENTRIES_PER_SLICE: Final = 500
# To Kafka this is an entry like the others, for a partition that cannot exist. Without a checksum, a flipped digit in
# an offset could hide records or make recovery skip some.
CHECKSUM: Final = TopicPartition(TopicName("__checksum"), PartitionIndex(0))


def read_entries(disk: Disk, path: str, *, columns: int) -> list[list[str]]:
    """Return the entries of a file as lists of words, the last of which is a non-negative integer."""
    try:
        lines = disk.read_file(path).decode().split("\n")
        version, count = int(lines[0]), int(lines[1])
        entries = [line.split(" ") for line in lines[2:] if line]
        numbers_ok = all(int(words[-1]) >= 0 and len(words) == columns for words in entries)
    except (ValueError, IndexError):
        raise Corruption(f"{path}: not a checkpoint") from None
    if version != VERSION or count != len(entries) or not numbers_ok or lines[-1] != "":
        raise Corruption(f"{path}: fails its checks")
    return entries


def write_unsynced(disk: Disk, path: str, content: bytes) -> None:
    """Replace the content of a file in place, without a sync: its reader must notice content that is not complete."""
    file = disk.open(path, create=True)
    try:
        file.write((content,), 0)
        if file.size() != len(content):
            file.truncate(len(content))
    finally:
        file.close()


def write_entries(disk: Disk, path: str, entries: Iterable[tuple[object, ...]]) -> None:
    disk.replace_file(path, encode_entries(entries))


def encode_entries(entries: Iterable[tuple[object, ...]]) -> bytes:
    """Return the content of a checkpoint."""
    return _encode_lines([" ".join(str(word) for word in entry) for entry in entries])


def _encode_lines(lines: Sequence[str]) -> bytes:
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode()


def _lines_of(offsets: Mapping[TopicPartition, int]) -> list[str]:
    return [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]


def _checksum_of(lines: Sequence[str]) -> int:
    return int(crc32c("\n".join(lines).encode()))


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Return the offset of each partition; empty when the file is missing or damaged.

    Without it, startup takes longer or deleted records become visible again: no checkpoint is required.
    """
    try:
        entries = read_entries(disk, path, columns=3)
        # All partitions of a topic share its name.
        offsets = {
            TopicPartition(TopicName(intern(topic)), PartitionIndex(int(index))): int(offset)
            for topic, index, offset in entries
        }
    except (Corruption, FileNotFoundError, ValueError):
        return {}
    checksum = offsets.pop(CHECKSUM, None)
    return offsets if checksum is None or checksum == _checksum_of(_lines_of(offsets)) else {}


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    disk.replace_file(path, encode_offsets(offsets))


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the content of an offset checkpoint, with its checksum."""
    return finish(encode_offsets_job(offsets))


def encode_offsets_job(offsets: Mapping[TopicPartition, int]) -> Job[bytes]:
    """Run `encode_offsets` in slices. The offsets must not change meanwhile."""
    topics: dict[TopicName, list[tuple[PartitionIndex, int]]] = {}
    for count, ((topic, partition), offset) in enumerate(offsets.items(), 1):
        topics.setdefault(topic, []).append((partition, offset))
        if count % ENTRIES_PER_SLICE == 0:
            yield None
    pieces = [f"{VERSION}\n{len(offsets) + 1}\n".encode()]
    lines: list[str] = []
    checksum, is_first = 0, True
    for topic in sorted(topics):
        for partition, offset in sorted(topics[topic]):
            lines.append(f"{topic} {partition} {offset}")
            if len(lines) >= ENTRIES_PER_SLICE:
                checksum = _add_lines(pieces, lines, checksum, is_first=is_first)
                lines, is_first = [], False
                yield None
    checksum = _add_lines(pieces, lines, checksum, is_first=is_first)
    pieces.append(f"{CHECKSUM.topic} {CHECKSUM.partition} {checksum}\n".encode())
    return b"".join(pieces)


def _add_lines(pieces: list[bytes], lines: Sequence[str], checksum: int, *, is_first: bool) -> int:
    """Add lines to the content; return the checksum of all lines so far, which are separated by newlines."""
    if not lines:
        return checksum
    text = "\n".join(lines).encode()
    pieces.append(text + b"\n")
    return int(crc32c(text if is_first else b"\n" + text, checksum))
