"""Distinguishing a torn tail from corruption, and quarantining corrupt logs.

A torn tail is truncated. A quarantined log keeps every byte, serves the records before the damage and rejects appends;
a file in its folder makes every later start check it again. Called by recovery.py, and when a read finds damage.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.model.job import Job
from penstock.ports.disk import Disk, File
from penstock.storage.scan import BLOCK_SIZE, BadBatch, find_valid_batch, scan_batches
from penstock.storage.segment import Segment, file_name
from penstock.wire.batch import HEADER_SIZE, LOG_OVERHEAD, unpack_header

if TYPE_CHECKING:
    from penstock.storage.recovered import Recovered

QUARANTINE_FILE: Final = "quarantine"
CUT_SUFFIX: Final = ".cut"
BATCHES_PER_SLICE: Final = 256
SLICE_SIZE: Final = 1024 * 1024
"""One step of a job checks this many batches or bytes, which takes about a millisecond."""
_SECTOR_SIZE: Final = 512
# Fewer zeros than this in a sector may be valid data, such as the high bytes of an offset.
_ZEROS_LEAST: Final = 8


class ScanStopped(Exception):
    """A scan found bytes that are not a batch; `offset` is the first one that could not be read."""

    def __init__(self, segment: Segment, bad: BadBatch, offset: int) -> None:
        super().__init__(str(bad))
        self.segment = segment
        self.bad = bad
        self.offset = offset


# | position of the first invalid bytes            | cause        | action                              |
# |------------------------------------------------|--------------|-------------------------------------|
# | below the known end of the log                 | corruption   | quarantine                          |
# | above it, no valid batch after them            | a torn tail  | truncate                            |
# | above it, valid batches after an unwritten gap | a lost write | truncate; copy what follows aside   |
# | above it, valid batches after other bytes      | corruption   | quarantine                          |
#
# A power failure may keep a later unsynced write and lose an earlier one; the lost sectors then read as zeros, or the
# file ends there and the next segment continues.
def on_bad_batch(disk: Disk, state: Recovered, index: int, stopped: ScanStopped, *, known_end: int) -> None:
    """Truncate or quarantine a log after invalid bytes in one of its segments."""
    segment, position, offset = stopped.segment, stopped.bad.position, stopped.offset
    following = find_valid_batch(
        segment.file, position + 1, segment.size, offset=offset, base_offset=segment.base_offset
    )
    later = [each for each in state.segments[index + 1 :] if each.size]
    torn = following is None and not later
    cut_short = following is None and _claimed_end(segment, position) > segment.size
    behind = segment.size if following is None else following
    if offset < known_end or not (torn or cut_short or _looks_unwritten(segment.file, position, behind)):
        state.damage = describe(segment, stopped.bad, offset)
        state.damaged_from = offset
        return
    if not torn:
        _copy_aside(disk, segment, position, offset)
    state.notes.append(
        f"{segment.path}: truncated {segment.size - position} bytes at position {position}, offset {offset}, which "
        f"were not written completely: {stopped.bad.why}"
    )
    segment.truncate(position, offset)
    _set_aside_following(disk, state, index + 1)


def on_gap(disk: Disk, state: Recovered, index: int, end: int, *, known_end: int) -> None:
    """Decide about a segment that begins after the end of the previous one."""
    segment = state.segments[index]
    if end < known_end:
        state.damage = f"{segment.folder}: offsets {end} to {segment.base_offset - 1} are missing"
        state.damaged_from = end
        return
    state.notes.append(f"{segment.path}: offsets from {end} were never synced; the segments after them are set aside")
    _set_aside_following(disk, state, index)


def on_missing_end(state: Recovered, end: int, *, known_end: int) -> None:
    """Record that batches at the end of the log are missing."""
    folder = state.segments[-1].folder
    state.damage = f"{folder}: the log ends at offset {end}, but had reached {known_end}"
    state.damaged_from = end


def last_known_end(state: Recovered, damaged_from: int) -> int:
    """Return the next offset after the last valid batch of a damaged log, to show how much is affected."""
    for segment in reversed(state.segments):
        end = _last_valid_end(segment)
        if end is not None:
            return max(end, damaged_from)
    return damaged_from


def _last_valid_end(segment: Segment) -> int | None:
    """Return the next offset after the last valid batch of a segment, skipping invalid bytes; None if it has none."""
    base_offset = segment.base_offset
    position: int | None = 0
    end: int | None = None
    while position is not None and position < segment.size:
        try:
            for _, header in scan_batches(
                segment.file, position, segment.size, offset=base_offset, base_offset=base_offset, check_crc=True
            ):
                end = header[0] + header[6] + 1
            break
        except BadBatch as bad:
            position = find_valid_batch(
                segment.file, bad.position + 1, segment.size, offset=base_offset, base_offset=base_offset
            )
    return end


def describe(segment: Segment, bad: BadBatch, offset: int) -> str:
    return f"{segment.path} is damaged at position {bad.position}, offset {offset}: {bad.why}"


def locate(segment: Segment, bad: BadBatch, *, below: int) -> Job[tuple[BadBatch, int]]:
    """Find the first damage in a segment and the first offset that it affects.

    Verifies checksums, because headers may have led the reader past an earlier corrupt one. `bad` is what the reader
    found, `below` an offset that no batch of the segment reaches. Raises OSError.
    """
    offset = segment.base_offset
    batches = began_at = 0
    try:
        for at, header in segment.headers_from(0, check_crc=True, below=below, block_size=SLICE_SIZE):
            if at >= bad.position:
                break
            offset = header[0] + header[6] + 1
            batches += 1
            if batches == BATCHES_PER_SLICE or at - began_at >= SLICE_SIZE:
                batches, began_at = 0, at
                yield None
    except BadBatch as earlier:
        return earlier, offset
    return bad, offset


def save_quarantine(disk: Disk, folder: str, offset: int, why: str) -> None:
    with suppress(OSError):
        disk.replace_file(f"{folder}/{QUARANTINE_FILE}", f"0\n{offset}\n{why}\n".encode())


def quarantined_from(disk: Disk, folder: str) -> int | None:
    """Return the offset of damage that an earlier start or read found; 0 if the quarantine file cannot be read."""
    try:
        return int(disk.read_file(f"{folder}/{QUARANTINE_FILE}").split(b"\n")[1])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, IndexError):
        return 0


def lift_quarantine(disk: Disk, folder: str) -> None:
    disk.remove(f"{folder}/{QUARANTINE_FILE}")


def _claimed_end(segment: Segment, position: int) -> int:
    """Return where the batch at a position ends according to its header."""
    content = segment.file.read(HEADER_SIZE, position)
    if len(content) < HEADER_SIZE:
        return position + HEADER_SIZE
    length: int = unpack_header(content, 0)[1]
    return position + length + LOG_OVERHEAD


def _looks_unwritten(file: File, position: int, end: int) -> bool:
    """Return whether some sector of the damaged bytes is all zeros, like one that was never written."""
    at = position
    while at < end:
        block = file.read(min(BLOCK_SIZE - at % _SECTOR_SIZE, end - at), at)
        for start in range(-(at % _SECTOR_SIZE), len(block), _SECTOR_SIZE):
            part = block[max(start, 0) : start + _SECTOR_SIZE]
            enough = len(part) >= _ZEROS_LEAST or (start >= 0 and at + start + len(part) == end)
            if enough and not any(part):
                return True
        if not block:
            break
        at += len(block)
    return False


def _copy_aside(disk: Disk, segment: Segment, position: int, offset: int) -> None:
    """Copy the end of a segment before it is truncated."""
    copy = disk.open(f"{segment.folder}/{file_name(offset, CUT_SUFFIX)}", create=True)
    try:
        for at in range(position, segment.size, BLOCK_SIZE):
            copy.write((segment.file.read(min(BLOCK_SIZE, segment.size - at), at),), at - position)
        copy.truncate(segment.size - position)
        copy.sync()
    finally:
        copy.close()


def _set_aside_following(disk: Disk, state: Recovered, index: int) -> None:
    """Remove the segments from an index on from the log, but keep their files under other names."""
    for segment in state.segments[index:]:
        segment.directory.open_files.forget(segment.path)
        if segment.size:
            disk.rename(segment.path, f"{segment.folder}/{file_name(segment.base_offset, CUT_SUFFIX)}")
        for path in segment.paths():
            disk.remove(path)
    del state.segments[index:]
