"""Removal of records: at the start of a log by retention and DeleteRecords, at its end by truncation.

Only whole segments are removed at the start, and nothing at or above the high watermark; the active segment is rolled
first. Files are renamed and removed after `file.delete.delay.ms`, because a response may still be reading them.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from penstock.model.errors import OffsetOutOfRange
from penstock.ports.disk import File
from penstock.storage import aborted, producer_snapshots
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Damaged, Segment, file_name

if TYPE_CHECKING:
    from penstock.storage.log import Log

logger = logging.getLogger(__name__)

DELETED_SUFFIX = ".deleted"


def advance_start(log: Log, offset: int) -> None:
    """Move the log start forward; ignore a lower offset."""
    if offset > log.end_offset:
        raise OffsetOutOfRange(f"offset {offset} is after the log end, {log.end_offset}")
    if offset > log.start_offset:
        log.offsets.advance_start(offset)
        log.epochs.truncate_start(offset)
        log.checkpoints.start_moved()


def delete_old_segments(log: Log, high_watermark: int, now_ms: int) -> int:
    """Remove the oldest segments that are below the start, too old, or above the size limit."""
    if log.compaction.is_running:
        return 0
    if _all_expired(log, high_watermark, now_ms):
        log.roll()
    count = _count_deletable(log, high_watermark, now_ms)
    if count == 0:
        return 0
    kept = log.segments.bases[count]
    advance_start(log, max(log.start_offset, kept))
    # The start must be durable before files are removed, so that it does not move back after a crash.
    drop = partial(log.checkpoints.when_start_saved, partial(_drop_segments_before, log, kept, now_ms))
    if log.producer_state.producers:
        _sync_producers(log, log.segments[: count + 1], now_ms, drop)
    else:
        drop()
    return count


def may_delete(log: Log, now_ms: int) -> bool:
    """Return False for a young log of one segment, like most of thousands: nothing of it can be deleted.

    Cheaper than `delete_old_segments`, which decides about all others.
    """
    segments = log.segments
    if len(segments.bases) > 1:
        return True
    settings, active = log.rules.settings, segments.active
    if settings.retention_ms < 0 or active.size == 0:
        return False
    # An unknown timestamp counts as old.
    return active.max_timestamp < now_ms - settings.retention_ms


def _sync_producers(log: Log, segments: Sequence[Segment], now_ms: int, done: Callable[[], None]) -> None:
    """Make the producer snapshot at the start of the last segment durable, off the event loop, and call back.

    It is the only trace of a producer whose records are all in the other segments, which are removed next.
    """
    disk = log.directory.disk

    def completed(file: File | None, error: BaseException | None) -> None:
        if error is not None and not log.is_abandoned:
            # The disk may be full: what is removed next frees space.
            logger.warning(
                "%s: cannot write the producer snapshot before its records are removed: %s", log.folder, error
            )
        if file is None:
            done()
        else:
            disk.sync_later(file, partial(synced, file))

    def synced(file: File, error: OSError | None) -> None:
        file.close()
        if error is not None:
            log.directory.fail(error)
        elif not log.is_abandoned:
            disk.sync_folder_later(log.folder, name_synced)

    def name_synced(error: OSError | None) -> None:
        if log.is_abandoned:
            return
        if error is not None:
            log.directory.fail(error)
        else:
            done()

    log.directory.run(producer_snapshots.complete(disk, log.folder, segments, now_ms), completed)


def _drop_segments_before(log: Log, kept: int, now_ms: int, error: OSError | None) -> None:
    """Remove the segments before the one that begins at an offset, now that the log start is on disk.

    After an error, or if the segments have changed meanwhile, the next round tries again.
    """
    if error is not None or log.compaction.is_running or log.is_abandoned or log.directory.failure is not None:
        return
    count = bisect_left(log.segments.bases, kept)
    if log.segments.bases[count : count + 1] != [kept]:
        return
    if log.damaged_from is not None:
        count = min(count, bisect_right(log.segments.bases, log.damaged_from) - 1)
    removed = log.segments[: max(count, 0)]
    if removed and (log.segment_list.begins_at or 0) < log.segments.bases[len(removed)]:
        # Without this entry, recovery relies on the log start checkpoint. A later start may be listed already.
        with suppress(OSError):
            log.segment_list.add_start(log.segments.bases[len(removed)])
    log.segments.drop_first(len(removed))
    for segment in removed:
        try:
            _delete_later(log, segment, now_ms)
        except OSError as error:
            # No request waits for this, and the segment list no longer contains the file.
            logger.warning("%s: cannot rename a deleted segment, the next start removes it: %s", log.folder, error)


def _count_deletable(log: Log, high_watermark: int, now_ms: int) -> int:
    settings = log.settings
    excess = log.segments.size - settings.retention_bytes if settings.delete and settings.retention_bytes >= 0 else 0
    count = 0
    for index, segment in enumerate(log.segments[:-1]):
        behind = log.segments.bases[index + 1]
        damaged = log.damaged_from is not None and behind > log.damaged_from
        if behind > high_watermark or damaged:
            break
        if behind <= log.start_offset or (
            settings.delete and (excess >= segment.size or _is_expired(log, segment, now_ms))
        ):
            count = index + 1
        elif not settings.delete or settings.retention_ms < 0 or segment.max_timestamp >= 0:
            break
        # A segment without timestamps is as old as the next one that has some.
        excess -= segment.size
    return count


def _all_expired(log: Log, high_watermark: int, now_ms: int) -> bool:
    """Return whether all records, including those in the active segment, are older than retention allows."""
    return (
        log.settings.delete
        and log.segments.active.size > 0
        and log.end_offset <= high_watermark
        and log.damaged_from is None
        and _is_expired(log, log.segments.active, now_ms)
    )


def _is_expired(log: Log, segment: Segment, now_ms: int) -> bool:
    if log.settings.retention_ms < 0:
        return False
    try:
        segment.ensure_timed()
    except BadBatch as bad:
        raise Damaged(segment, bad) from bad
    return segment.max_timestamp >= 0 and now_ms - segment.max_timestamp > log.settings.retention_ms


def _delete_later(log: Log, segment: Segment, now_ms: int) -> None:
    """Rename the files of a segment, to be removed after the delay. Raises OSError after trying all of them."""
    disk = log.directory.disk
    snapshot = f"{log.folder}/{file_name(segment.base_offset, producer_snapshots.SUFFIX)}"
    renamed: list[str] = []
    failure: OSError | None = None
    for path in (*segment.paths(), snapshot):
        try:
            disk.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            continue
        except OSError as error:
            failure = failure or error
        else:
            renamed.append(path + DELETED_SUFFIX)
    log.flusher.drop(segment)
    log.directory.open_files.forget(segment.path)
    log.deletes.add(renamed, due_ms=now_ms + log.settings.file_delete_delay_ms)
    if failure is not None:
        raise failure


def truncate_to(log: Log, offset: int) -> None:
    """Remove the batch that contains the offset and everything after it."""
    if offset >= log.end_offset:
        return
    if offset <= log.segments.bases[0]:
        truncate_fully_and_start_at(log, offset)
        return
    _finish_swap(log)
    segment = log.segments[bisect_left(log.segments.bases, offset) - 1]
    flushed = log.offsets.flushed
    try:
        try:
            position = segment.find(offset)
            first_cut = offset if position is None else segment.header_at(position)[0]
        except OSError as error:
            # Nothing is removed yet. If the error persists, the log is quarantined and copied again.
            log.reader.on_read_error(segment, offset, error)
        # In a gap that compaction left, the log will end before the offset.
        in_hole = position is None or first_cut > offset
        recovery_point = segment.base_offset if in_hole else first_cut
        # The truncated segment becomes the active one and is synced as such.
        _prepare_truncation(log, offset, recovery_point=recovery_point, keeps=segment.base_offset)
        changed = log.segment_list.add_truncation(offset)
        with _offline_if_incomplete(log):
            if changed is not None:
                changed.sync()
            while log.segments.active is not segment:
                removed = log.segments.active
                log.segments.drop_last()
                _remove(log, removed)
            if position is not None:
                segment.truncate(position, min(offset, first_cut))
            end = segment.end_offset() if in_hole else first_cut
    except BadBatch as bad:
        raise Damaged(segment, bad) from bad
    with _offline_if_incomplete(log):
        disk = log.directory.disk
        disk.sync_folder(log.folder)
        log.offsets.truncate(end, flushed=flushed)
        log.epochs.truncate_end(end)
        log.save_epochs()
        producer_snapshots.remove_snapshots(disk, log.folder, above=end)
        producer_snapshots.load_producers(disk, log.folder, log.segments, log.producer_state, end, log.clock_wall_ms())


def truncate_fully_and_start_at(log: Log, offset: int) -> None:
    """Remove every segment and create an empty one at the offset."""
    _finish_swap(log)
    _prepare_truncation(log, offset, recovery_point=offset, keeps=0)
    is_listed = log.segment_list.exists
    changed = log.segment_list.add_restart(offset)
    with _offline_if_incomplete(log):
        changed.sync()
        disk = log.directory.disk
        if not is_listed:
            disk.sync_folder(log.folder)
        for segment in log.segments:
            _remove(log, segment)
        log.segments.restart()
        log.producer_state.clear()
        producer_snapshots.remove_snapshots(disk, log.folder, above=-1)
        log.directory.with_reserve(partial(log.writer.begin_at, offset))
        disk.sync_folder(log.folder)
        log.segment_list.add_start(offset).sync()
        # The folder of a new log is otherwise synced with its first batch. A replica that joins the ISR with an empty
        # log must not begin at 0 after a power failure.
        log.flusher.sync_names()
        # An empty log is durable once its names are synced, so nothing is left to wait for.
        log.offsets.restart(offset)
        log.epochs.clear()
        log.save_epochs()


@contextmanager
def _offline_if_incomplete(log: Log) -> Iterator[None]:
    """Take the folder offline if the disk fails during a truncation.

    The log in memory is then neither unchanged nor truncated. The next start completes the truncation.
    """
    try:
        yield
    except OSError as error:
        log.directory.fail(error)
        raise


def _finish_swap(log: Log) -> None:
    """Finish a swap of compaction; otherwise the next start would finish it and restore truncated records."""
    log.compaction.finish_swap()
    if log.directory.failure is not None:
        raise log.directory.failure


def _prepare_truncation(log: Log, offset: int, *, recovery_point: int, keeps: int) -> None:
    """Lower the recovery point first, so that a crash during the truncation does not look like a loss of records.

    Segments that end at or before the offset `keeps` stay closed, and may still need a sync.
    """
    log.flusher.forget(from_offset=keeps)
    log.offsets.mark_unflushed_from(recovery_point)
    log.compaction.truncate(offset)
    log.checkpoints.truncating(log.topic_partition, min(offset, recovery_point))
    aborted.remove_checkpoint(log.directory.disk, log.folder)


def _remove(log: Log, segment: Segment) -> None:
    log.flusher.drop(segment)
    log.directory.open_files.forget(segment.path)
    for path in segment.paths():
        log.directory.disk.remove(path)
