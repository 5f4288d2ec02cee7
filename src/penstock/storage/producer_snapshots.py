"""Producer snapshots of a log: `<offset>.snapshot` contains the state of all producers before that offset.

Written without a sync when a segment begins and at a clean close: the checksum shows if one is valid, and an older one
gives the same state after replaying more of the log. Only the snapshot at the first segment that stays is made durable
before older segments are removed, because the log can no longer replace it then.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from penstock.model.errors import Corruption
from penstock.model.job import Job, finish
from penstock.ports.disk import Disk, File
from penstock.storage.checkpoint import write_unsynced
from penstock.storage.directory import UNREADABLE, LogDirectory
from penstock.storage.marker import read_marker
from penstock.storage.producer_state import EndedTransaction, ProducerState, snapshot_entries
from penstock.storage.reserve import is_disk_full
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Damaged, Segment, file_name
from penstock.wire.batch import CONTROL, TRANSACTIONAL, HeaderTuple

SUFFIX = ".snapshot"
_DIGITS = 20
_BATCHES_PER_SLICE = 1000


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
    start = _load_newest(disk, folder, producers, segments[0].base_offset, end, now_ms)
    replay(segments, producers, start, end, now_ms)


def _load_newest(disk: Disk, folder: str, producers: ProducerState, start: int, end: int, now_ms: int) -> int:
    """Load the newest valid snapshot between two offsets; return its offset, or the start without one."""
    for offset in reversed(_offsets(disk, folder)):
        if offset < start:
            break
        if offset <= end and _load(disk, folder, producers, offset, now_ms):
            return offset
    producers.clear()
    return start


def _load(disk: Disk, folder: str, producers: ProducerState, offset: int, now_ms: int) -> bool:
    """Load the snapshot at an offset; return whether there is a valid one."""
    return _read(disk, folder, offset, lambda content: producers.decode(content, now_ms))


def _read(disk: Disk, folder: str, offset: int, use: Callable[[bytes], object]) -> bool:
    try:
        use(disk.read_file(f"{folder}/{file_name(offset, SUFFIX)}"))
    except (Corruption, OSError) as error:
        if isinstance(error, OSError) and error.errno not in UNREADABLE:
            raise
        return False
    return True


def complete(disk: Disk, folder: str, segments: Sequence[Segment], now_ms: int) -> Job[File | None]:
    """Ensure that the snapshot at the start of the last segment is valid; return its file, to be synced.

    Writes the snapshot from the log before it if it is not valid. Returns None if that log is damaged. Raises OSError.
    """
    offset = segments[-1].base_offset
    path = f"{folder}/{file_name(offset, SUFFIX)}"
    if not _read(disk, folder, offset, snapshot_entries):
        producers = ProducerState()
        start = _load_newest(disk, folder, producers, segments[0].base_offset, offset, now_ms)
        try:
            yield from _replay(segments, producers, start, offset, now_ms)
        except Damaged:
            return None
        write_unsynced(disk, path, producers.encode())
    return disk.open(path)


def make_durable(directory: LogDirectory, folder: str, segments: Sequence[Segment], now_ms: int) -> None:
    """Sync the snapshot that `complete` returns. Blocks; does nothing if the disk is full or cannot be read."""
    try:
        snapshot = directory.with_reserve(lambda: finish(complete(directory.disk, folder, segments, now_ms)))
    except OSError as error:
        if not is_disk_full(error) and error.errno not in UNREADABLE:
            raise
        return
    if snapshot is None:
        return
    try:
        snapshot.sync()
        snapshot.close()
        directory.disk.sync_folder(folder)
    except OSError as error:
        directory.fail(error)
        raise


def replay(segments: Sequence[Segment], producers: ProducerState, start: int, end: int, now_ms: int) -> None:
    """Apply the batches between two offsets by their headers. Raises Damaged."""
    finish(_replay(segments, producers, start, end, now_ms))


def _replay(segments: Sequence[Segment], producers: ProducerState, start: int, end: int, now_ms: int) -> Job[None]:
    for index, segment in enumerate(segments):
        if index + 1 < len(segments) and segments[index + 1].base_offset <= start:
            continue
        if segment.base_offset >= end or start >= end:
            return
        try:
            yield from _replay_segment(segment, producers, start, end, now_ms)
        except BadBatch as bad:
            raise Damaged(segment, bad) from bad


def _replay_segment(segment: Segment, producers: ProducerState, start: int, end: int, now_ms: int) -> Job[None]:
    first = segment.find(start) if start > segment.base_offset else 0
    if first is None:
        return
    for count, (position, header) in enumerate(segment.headers_from(first), 1):
        if header[0] >= end:
            return
        if header[9] >= 0:
            note_batch(producers, segment, position, header, now_ms)
        if count % _BATCHES_PER_SLICE == 0:
            yield None


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
