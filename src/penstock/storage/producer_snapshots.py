"""Producer snapshots of a log: `<offset>.snapshot` contains the state of all producers before that offset.

Written when a segment begins and at a clean close, never synced: the checksum shows if one is valid, and an older one
gives the same state after replaying more of the log.
"""

from collections.abc import Sequence
from contextlib import suppress

from penstock.model.errors import Corruption
from penstock.ports.disk import Disk
from penstock.storage.checkpoint import write_unsynced
from penstock.storage.directory import UNREADABLE
from penstock.storage.marker import read_marker
from penstock.storage.producer_state import EndedTransaction, ProducerState
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Damaged, Segment, file_name
from penstock.wire.batch import CONTROL, TRANSACTIONAL, HeaderTuple

SUFFIX = ".snapshot"
_DIGITS = 20


def save_snapshot(disk: Disk, folder: str, producers: ProducerState, offset: int, bases: Sequence[int]) -> None:
    """Write a snapshot; remove older ones that are not at the start of a segment. Ignores a full disk."""
    content = producers.encode()
    with suppress(OSError):
        write_unsynced(disk, f"{folder}/{file_name(offset, SUFFIX)}", content)
        kept = {offset, *bases}
        for each in _offsets(disk, folder):
            if each < offset and each not in kept:
                disk.remove(f"{folder}/{file_name(each, SUFFIX)}")


def remove_snapshots(disk: Disk, folder: str, *, above: int) -> None:
    """Remove snapshots after the end of the log."""
    for offset in _offsets(disk, folder):
        if offset > above:
            disk.remove(f"{folder}/{file_name(offset, SUFFIX)}")


def load_producers(
    disk: Disk, folder: str, segments: Sequence[Segment], producers: ProducerState, end: int, now_ms: int
) -> None:
    """Load the state before an offset from the newest valid snapshot and the log after it. Raises Damaged."""
    producers.clear()
    start = segments[0].base_offset
    for offset in reversed(_offsets(disk, folder)):
        if offset < start:
            break
        if offset <= end:
            try:
                producers.decode(disk.read_file(f"{folder}/{file_name(offset, SUFFIX)}"), now_ms)
            except (Corruption, OSError) as error:
                if isinstance(error, OSError) and error.errno not in UNREADABLE:
                    raise
                producers.clear()
                continue
            start = offset
            break
    replay(segments, producers, start, end, now_ms)


def replay(segments: Sequence[Segment], producers: ProducerState, start: int, end: int, now_ms: int) -> None:
    """Apply the batches between two offsets by their headers. Raises Damaged."""
    for index, segment in enumerate(segments):
        if index + 1 < len(segments) and segments[index + 1].base_offset <= start:
            continue
        if segment.base_offset >= end or start >= end:
            return
        try:
            _replay_segment(segment, producers, start, end, now_ms)
        except BadBatch as bad:
            raise Damaged(segment, bad) from bad


def _replay_segment(segment: Segment, producers: ProducerState, start: int, end: int, now_ms: int) -> None:
    first = segment.find(start) if start > segment.base_offset else 0
    if first is None:
        return
    for position, header in segment.headers_from(first):
        if header[0] >= end:
            return
        if header[9] >= 0:
            note_batch(producers, segment, position, header, now_ms)


def note_batch(
    producers: ProducerState, segment: Segment, position: int, header: HeaderTuple, now_ms: int
) -> EndedTransaction | None:
    """Apply a batch of a producer; return the transaction that it aborts, if it does."""
    last_offset = header[0] + header[6]
    if not header[5] & CONTROL:
        transactional = header[5] & TRANSACTIONAL
        producers.batch_appended(
            header[9], header[10], header[11], header[0], last_offset, header[8], now_ms, transactional
        )
        return None
    marker = read_marker(segment.batch_at(position))
    if marker is None:
        return None
    ended = producers.marker_appended(
        header[9], header[10], marker.coordinator_epoch, last_offset, header[8], now_ms, is_final=True
    )
    return None if marker.commit else ended


def _offsets(disk: Disk, folder: str) -> list[int]:
    names = (name.partition(".") for name in disk.list(folder))
    return sorted(int(stem) for stem, dot, suffix in names if dot + suffix == SUFFIX and _is_offset(stem))


def _is_offset(stem: str) -> bool:
    return len(stem) == _DIGITS and stem.isdecimal()
