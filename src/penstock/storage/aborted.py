"""Aborted transactions, for read_committed consumers.

They are in the `.txnindex` files, which have no checksum. `txnindex-checkpoint` therefore lists the segments whose
index is complete, with the number of entries and their checksum. It is written when a segment closes, never synced,
and verified when it is read: an index that it does not cover is rebuilt from the log. Raises Damaged if the log is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from penstock.model.errors import Corruption
from penstock.ports.disk import Disk
from penstock.storage import producer_snapshots
from penstock.storage.checkpoint import write_unsynced
from penstock.storage.producer_state import EndedTransaction, ProducerState
from penstock.storage.scan import OFFSET_MAX, BadBatch
from penstock.storage.segment import Damaged, Segment, file_name
from penstock.storage.txn_index import EMPTY, Summary
from penstock.wire.batch import HeaderTuple

if TYPE_CHECKING:
    from penstock.storage.log import Log

CHECKPOINT: Final = "txnindex-checkpoint"
_VERSION: Final = "0"


def in_range(log: Log, start: int, end: int) -> list[tuple[int, int]]:
    """Return producer id and first offset of every aborted transaction that overlaps a range, by first offset."""
    found: list[tuple[int, int]] = []
    first = max(bisect_right(log.segments.bases, start) - 1, 0)
    for slot in range(first, len(log.segments)):
        if log.segments.bases[slot] >= end and slot > first and _first_open_before(log, slot) >= end:
            # Every transaction that overlaps the range ended before this segment.
            break
        index = log.segments[slot].txn_index
        if index.summary == EMPTY:
            continue
        ensure_loaded(log, slot)
        overlapping, is_complete = index.overlapping(start, end)
        found += overlapping
        if is_complete:
            break
    return sorted(found, key=lambda each: each[1])


def ended_before(log: Log, end: int) -> list[EndedTransaction]:
    """Return every aborted transaction that began before an offset."""
    if not log.any_aborted:
        return []
    found: list[EndedTransaction] = []
    for slot, segment in enumerate(log.segments):
        if segment.txn_index.summary != EMPTY:
            ensure_loaded(log, slot)
            found += (each for each in segment.txn_index if each.first_offset < end)
    return found


def none_in(segments: Sequence[Segment]) -> bool:
    """Return whether it is known that no transaction was aborted in any of the segments."""
    return all(each.txn_index.summary == EMPTY for each in segments)


def _first_open_before(log: Log, slot: int) -> int:
    """Return the lowest first offset of the transactions that were open when a segment began, from its snapshot."""
    segment = log.segments[slot]
    if segment.first_open_before is None:
        producers = ProducerState()
        try:
            path = f"{log.folder}/{file_name(segment.base_offset, producer_snapshots.SUFFIX)}"
            producers.decode(log.directory.disk.read_file(path), 0)
            segment.first_open_before = next(iter(producers.open_transactions), OFFSET_MAX)
        except (Corruption, FileNotFoundError):
            segment.first_open_before = -1
    return segment.first_open_before


def ensure_loaded(log: Log, slot: int) -> None:
    """Load the index of a segment, before it is read or extended."""
    segment = log.segments[slot]
    if segment.txn_index.loaded:
        return
    try:
        segment.txn_index.load(log.directory.disk)
    except (Corruption, FileNotFoundError):
        _rebuild(log, slot)


def _rebuild(log: Log, slot: int) -> None:
    """Rebuild the index of a segment from the producer state before it and its batches."""
    disk, segment, now_ms = log.directory.disk, log.segments[slot], log.clock_wall_ms()
    producers = ProducerState()
    try:
        producer_snapshots.load_producers(disk, log.folder, log.segments, producers, segment.base_offset, now_ms)
        segment.txn_index.reset()
        for position, header in segment.headers_from(0):
            if header[9] >= 0:
                note_batch(producers, segment, position, header, now_ms)
    except (BadBatch, Damaged) as bad:
        if log.damaged_from is None:
            segment.txn_index.loaded = False
            raise bad if isinstance(bad, Damaged) else Damaged(segment, bad) from bad
    with suppress(OSError):
        segment.txn_index.save_if_any(disk)


def note_batch(producers: ProducerState, segment: Segment, position: int, header: HeaderTuple, now_ms: int) -> None:
    """Apply a producer's batch to its state; add an aborted transaction that it ends to the segment's index."""
    aborted = producer_snapshots.note_batch(producers, segment, position, header, now_ms)
    if aborted is not None:
        segment.txn_index.append(aborted)


# The checkpoint


def save_checkpoint(log: Log, *, closing: bool) -> None:
    """Write the checkpoint for the newest segments with a known index; include the active one only when closing."""
    if log.compaction.swap is not None:
        # The segments are about to be replaced. The swap writes the checkpoint when it ends.
        return
    segments = log.segments if closing else log.segments[:-1]
    known: list[tuple[Segment, Summary]] = []
    for segment in reversed(segments):
        summary = segment.txn_index.summary
        if summary is None:
            break
        known.append((segment, summary))
    disk, path = log.directory.disk, f"{log.folder}/{CHECKPOINT}"
    try:
        for segment in segments[-1:]:
            segment.txn_index.save_if_any(disk)
        end = log.end_offset if closing else log.segments.bases[-1]
        content = _encode(known, known[-1][0].base_offset if known else end, end, log.segments[-1] if closing else None)
        write_unsynced(disk, path, content)
    except OSError:
        with suppress(OSError):
            disk.remove(path)


def _encode(known: Sequence[tuple[Segment, Summary]], start: int, end: int, growing: Segment | None) -> bytes:
    """Return the content. A segment that may grow is listed even with an empty index: its size shows if it grew."""
    lines = [_VERSION, f"{start} {end}"]
    for segment, summary in known:
        if summary != EMPTY or segment is growing:
            lines.append(f"{segment.base_offset} {segment.size} {summary[0]} {summary[1]}")
    content = "".join(f"{line}\n" for line in lines).encode()
    return content + f"{crc32c(content)}\n".encode()


def load_checkpoint(disk: Disk, folder: str, segments: Sequence[Segment]) -> None:
    """Set the expected content of the segments' indexes. Without a valid checkpoint they are rebuilt when needed."""
    if all(each.txn_index.loaded for each in segments):
        return
    try:
        content = disk.read_file(f"{folder}/{CHECKPOINT}")
        body = content[: content.rstrip(b"\n").rfind(b"\n") + 1]
        if content != body + f"{crc32c(body)}\n".encode():
            return
        version, bounds, *lines = body.decode().splitlines()
        start, end = map(int, bounds.split())
        entries = {int(base): (int(size), int(count), int(crc)) for base, size, count, crc in map(str.split, lines)}
    except (OSError, ValueError):
        return
    if version != _VERSION:
        return
    for segment in segments:
        if start <= segment.base_offset < end and not segment.txn_index.loaded:
            size, count, crc = entries.get(segment.base_offset, (segment.size, *EMPTY))
            segment.txn_index.expected = (count, crc) if size == segment.size else None


def remove_checkpoint(disk: Disk, folder: str) -> None:
    """Remove the checkpoint, because segments are about to be truncated."""
    disk.remove(f"{folder}/{CHECKPOINT}")
