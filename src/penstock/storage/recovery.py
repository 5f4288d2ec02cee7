"""Recovery of a log from the files in its partition folder.

The segments are compared with those that the log is known to have (continuity.py). After a clean close, a few headers
at the end suffice. Otherwise everything from the segment with the recovery point on is read with checksums, and
indexes, epochs and producer state are rebuilt. At the first invalid bytes damage.py decides whether they are a torn
tail, which is truncated, or corruption, which is kept, reported and never served.
"""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, cast

from penstock.config.settings import TopicSettings
from penstock.model.job import Job, finish
from penstock.ports.disk import Disk
from penstock.storage import aborted, damage
from penstock.storage.compaction.swap import finish_swaps
from penstock.storage.continuity import Loss, first_loss
from penstock.storage.directory import LogDirectory
from penstock.storage.epoch_cache import UNSYNCED_SIZE_MAX, EpochCache
from penstock.storage.epoch_recovery import load_epochs
from penstock.storage.index_builder import IndexBuilder
from penstock.storage.lenient_disk import LenientDisk, read_in_parts
from penstock.storage.log_segments import is_small
from penstock.storage.producer_snapshots import load_producers, make_durable, remove_snapshots
from penstock.storage.producer_state import ProducerState
from penstock.storage.recovered import LogExpectations, Recovered
from penstock.storage.scan import BLOCK_SIZE, OFFSET_MAX, BadBatch
from penstock.storage.segment import Damaged, Segment
from penstock.storage.segment_files import find_segments, open_segment
from penstock.storage.segment_list import FILE_NAME as SEGMENT_LIST
from penstock.storage.segment_list import SegmentList
from penstock.wire.batch import LOG_OVERHEAD, HeaderTuple

SLICE_SIZE: Final = BLOCK_SIZE
"""How much of a segment is read between two yields of a scan; a block is read at once."""
HEADERS_PER_SLICE = 512


@dataclass(slots=True)
class _Plan:
    """The input of a recovery, and what it has found so far."""

    directory: LogDirectory
    folder: str
    settings: TopicSettings
    now_ms: int
    clean: bool
    recovery_point: int
    log_start: int
    known_end: int
    """The log had reached this offset."""
    state: Recovered
    quarantined_from: int | None = None
    loss: Loss | None = None

    @property
    def cut_from(self) -> int:
        """Return the offset below which nothing is truncated; a log that is known to be damaged is never truncated."""
        return self.known_end if self.quarantined_from is None and self.loss is None else OFFSET_MAX

    @property
    def disk(self) -> Disk:
        return self.directory.disk


def recovering(
    directory: LogDirectory, folder: str, settings: TopicSettings, *, now_ms: int, clean: bool, known: LogExpectations
) -> Job[Recovered]:
    """Recover the log in a folder, which is created if it is missing. Raises OSError.

    Yields None between parts of a scan. The job of a small log, or of one that was closed cleanly, never yields.
    """
    disk = directory.disk
    disk.make_folder(folder)
    segment_list = SegmentList(disk, folder)
    if known.is_new:
        # Nothing else can be in the folder, and a node may create thousands of them.
        segment = _open_first_segment(directory, folder, 0, settings, now_ms)
        return Recovered([segment], EpochCache(disk, folder), ProducerState(), segment_list, folder_changed=True)
    if disk.exists(f"{folder}/{SEGMENT_LIST}"):
        segment_list.load()
    notes = finish_swaps(disk, folder, segment_list)
    segments, names_removed = find_segments(directory, folder, settings, now_ms)
    state = Recovered(segments, EpochCache(disk, folder), ProducerState(), segment_list, names_removed=names_removed)
    state.notes += notes
    plan = _plan(directory, folder, settings, now_ms, clean, known, state)
    if plan.loss is not None and not state.segments:
        _describe_lost_log(plan)
        return state
    if not state.segments:
        _create_first_segment(plan, max(known.log_start, segment_list.begins_at or 0))
    plan.quarantined_from = damage.quarantined_from(disk, folder)
    doubtful = [each for each in (plan.quarantined_from, plan.loss and plan.loss.offset) if each is not None]
    if doubtful:
        yield from _scan(plan, min(*doubtful, known.recovery_point))
    elif not clean or not _load_clean(plan):
        yield from _scan(plan, known.recovery_point)
    if plan.quarantined_from is not None and state.damage is None:
        damage.lift_quarantine(disk, folder)
    if known.log_start > state.end_offset and state.damage is None:
        _restart_at(plan, known.log_start)
    _set_start(plan)
    remove_snapshots(disk, folder, above=state.end_offset)
    aborted.load_checkpoint(disk, folder, state.segments)
    if state.damage is None:
        _list_segments(plan)
    return state


def recover_unreadable(
    directory: LogDirectory, folder: str, settings: TopicSettings, *, now_ms: int, known: LogExpectations, why: str
) -> Recovered | None:
    """Return the state of a log that `recover` could not read, as damaged. Changes nothing on disk.

    Returns None for a log that had no records.
    """
    lenient = LenientDisk(directory.disk)
    view = LogDirectory(cast(Disk, lenient), directory.path)
    segment_list = SegmentList(view.disk, folder)
    if view.disk.exists(f"{folder}/{SEGMENT_LIST}"):
        with suppress(FileNotFoundError):
            segment_list.load()
    segments, _ = find_segments(view, folder, settings, now_ms)
    state = Recovered(segments, EpochCache(view.disk, folder), ProducerState(), segment_list)
    known = replace(known, held=known.held or lenient.has_hidden)
    plan = _plan(view, folder, settings, now_ms, False, known, state)
    # Truncate nothing, as if an earlier start had found damage.
    marked = damage.quarantined_from(view.disk, folder)
    plan.quarantined_from = OFFSET_MAX if marked is None else marked
    if state.segments:
        lost_from = OFFSET_MAX if plan.loss is None else plan.loss.offset
        finish(_scan(plan, min(lost_from, plan.quarantined_from, known.recovery_point)))
        if state.damage is None:
            # All records could be read, but the unreadable files may matter nevertheless.
            state.damaged_from = state.end_offset
        state.damage = f"{state.damage} ({why})" if state.damage else why
        _set_start(plan)
    elif plan.loss is not None:
        _describe_lost_log(plan)
        state.damage = f"{state.damage} ({why})"
    else:
        return None
    for segment in state.segments:
        segment.directory = directory
    state.epochs.disk = segment_list.disk = directory.disk
    state.folder_changed = state.list_changed = False
    state.unflushed.clear()
    state.unsynced_indexes.clear()
    state.is_provisional = True
    return state


def _plan(
    directory: LogDirectory,
    folder: str,
    settings: TopicSettings,
    now_ms: int,
    clean: bool,
    known: LogExpectations,
    state: Recovered,
) -> _Plan:
    segment_list = state.segment_list
    if segment_list.may_be_empty:
        # The log was being emptied. Nothing is written before the list has the new start, so all segments are old.
        _remove_segments(directory, state, list(state.segments))
    start = max(known.log_start, segment_list.begins_at or 0)
    # A power failure may have undone the deletion of some segments but not of others.
    deleted = [segment for segment, following in pairwise(state.segments) if following.base_offset <= start]
    if deleted:
        make_durable(directory, folder, state.segments[: len(deleted) + 1], now_ms)
    _remove_segments(directory, state, deleted)
    loss = first_loss(
        segment_list,
        state.segments,
        log_start=known.log_start,
        held=known.held,
        joined_below=OFFSET_MAX if clean else known.recovery_point,
    )
    known_end = max(known.recovery_point, known.least_end, segment_list.end_offset or 0)
    return _Plan(
        directory, folder, settings, now_ms, clean, known.recovery_point, known.log_start, known_end, state, loss=loss
    )


def _remove_segments(directory: LogDirectory, state: Recovered, segments: Sequence[Segment]) -> None:
    """Remove segments whose deletion was interrupted when the node stopped."""
    if segments and state.segment_list.exists:
        # It may only be in the page cache. If a power failure undid it later, the segments would be missing.
        listed = directory.disk.open(state.segment_list.path)
        listed.sync()
        listed.close()
    for segment in segments:
        state.names_removed = True
        state.segments.remove(segment)
        directory.open_files.forget(segment.path)
        for path in segment.paths():
            directory.disk.remove(path)


def _describe_lost_log(plan: _Plan) -> None:
    """Set the state of a log without any segment. No file is created, because it would look like a new log."""
    state = plan.state
    assert plan.loss is not None, "segments are missing"
    state.segments.append(
        Segment(
            plan.directory,
            plan.folder,
            plan.loss.offset,
            size=0,
            index_interval=plan.settings.index_interval_bytes,
            index_size_max=plan.settings.segment_index_bytes,
            created_ms=plan.now_ms,
        )
    )
    state.start_offset = plan.loss.offset
    state.end_offset = state.flushed_offset = max(plan.known_end, plan.loss.offset)
    state.damage, state.damaged_from = f"{plan.folder}: {plan.loss.why}", plan.loss.offset
    damage.save_quarantine(plan.disk, plan.folder, plan.loss.offset, state.damage)


def _set_start(plan: _Plan) -> None:
    """Set the log start. That of a damaged log does not move: its missing records were not deleted."""
    state, log_start = plan.state, plan.log_start
    first = state.segments[0].base_offset if state.damage is None else state.damaged_from or 0
    state.start_offset = min(max(log_start, min(first, state.segments[0].base_offset)), state.end_offset)
    state.epochs.truncate_end(state.end_offset)
    state.epochs.truncate_start(state.start_offset)
    if is_small(state.segments):
        return
    with suppress(OSError):
        # The disk is full. The epochs stay unsaved, and no recovery point is written before they are saved.
        state.epochs.write(is_durable=sum(each.size for each in state.segments) <= UNSYNCED_SIZE_MAX)


def _list_segments(plan: _Plan) -> None:
    """Add missing segments to the segment list. If the disk is full, the next start tries again."""
    state, segment_list = plan.state, plan.state.segment_list
    unflushed = {end for _, end in state.unflushed}
    begins = state.segments[0].base_offset
    with suppress(OSError):
        if begins > max(plan.log_start, segment_list.begins_at or 0):
            segment_list.add_start(begins)
            state.list_changed = True
        for segment, following in pairwise(state.segments):
            entry = segment_list.entry_at(segment.base_offset)
            end = following.base_offset
            if (
                following.base_offset in unflushed
                or end <= plan.log_start
                or (entry is not None and entry[1:] == (end, segment.size))
            ):
                continue
            segment_list.add_closed(segment.base_offset, end, segment.size)
            state.list_changed = True
        if segment_list.may_be_empty:
            segment_list.add_start(begins)
            state.list_changed = True
        segment_list.forget_before(plan.log_start)
        segment_list.tidy()


def _create_first_segment(plan: _Plan, offset: int) -> None:
    segment = _open_first_segment(plan.directory, plan.folder, offset, plan.settings, plan.now_ms)
    plan.state.segments.append(segment)
    plan.state.folder_changed = True


def _open_first_segment(
    directory: LogDirectory, folder: str, offset: int, settings: TopicSettings, now_ms: int
) -> Segment:
    segment = open_segment(directory, folder, offset, settings, now_ms, create=True)
    # Kafka's tools expect the files, even if they are empty.
    segment.save_indexes()
    return segment


def _restart_at(plan: _Plan, offset: int) -> None:
    """Restart at a log start that is after the log end: a client deleted the remaining records."""
    for segment in plan.state.segments:
        plan.directory.open_files.forget(segment.path)
        for path in segment.paths():
            plan.disk.remove(path)
    plan.state.segments.clear()
    plan.state.notes.append(f"{plan.folder}: removed all records, because the log starts at offset {offset}")
    _create_first_segment(plan, offset)
    load_producers(plan.disk, plan.folder, plan.state.segments, plan.state.producers, offset, plan.now_ms)
    plan.state.unflushed.clear()
    plan.state.unsynced_indexes.clear()
    plan.state.end_offset = plan.state.flushed_offset = offset


def _load_clean(plan: _Plan) -> bool:
    """Load a cleanly closed log from its last headers; return False if they contradict the checkpoints."""
    state = plan.state
    try:
        if is_small(state.segments):
            _load_before(plan, state.segments[0].base_offset)
            state.end_offset = finish(_scan_segment(plan, state.segments[0], below=OFFSET_MAX, is_last=True))
        else:
            state.end_offset = state.segments[-1].end_offset()
        if (plan.recovery_point and state.end_offset != plan.recovery_point) or state.end_offset < plan.known_end:
            return False
        if not is_small(state.segments):
            _load_before(plan, state.end_offset)
    except (BadBatch, Damaged, damage.ScanStopped):
        return False
    state.flushed_offset = state.end_offset
    return True


def _scan(plan: _Plan, scan_from: int) -> Job[None]:
    """Read everything from the segment of an offset on, and verify checksums."""
    state = plan.state
    first = max(bisect_right([each.base_offset for each in state.segments], scan_from) - 1, 0)
    base_offset = state.segments[first].base_offset
    try:
        _load_before(plan, base_offset)
    except (BadBatch, Damaged):
        # There is damage before the part that needs a scan: scan everything to locate it.
        if first > 0:
            yield from _scan(plan, state.segments[0].base_offset)
            return
        # The epochs and producers were compared with a first batch that was not written completely.
        state.epochs.clear()
        state.producers.clear()
    state.epochs.truncate_end(base_offset)
    end = base_offset
    for index in range(first, len(state.segments)):
        segment = state.segments[index]
        if segment.base_offset > end:
            damage.on_gap(plan.disk, state, index, end, known_end=plan.cut_from)
            break
        try:
            below = state.segments[index + 1].base_offset if index + 1 < len(state.segments) else OFFSET_MAX
            end = yield from _scan_segment(plan, segment, below=below, is_last=index + 1 == len(state.segments))
        except damage.ScanStopped as stopped:
            end = stopped.offset
            damage.on_bad_batch(plan.disk, state, index, stopped, known_end=plan.cut_from)
            break
    if state.damage is None:
        state.end_offset = end
        if end < plan.known_end:
            damage.on_missing_end(state, end, known_end=plan.known_end)
    if plan.loss is not None and (state.damaged_from is None or plan.loss.offset <= state.damaged_from):
        state.damage, state.damaged_from = f"{plan.folder}: {plan.loss.why}", plan.loss.offset
    if state.damage is not None:
        assert state.damaged_from is not None
        if plan.quarantined_from is not None:
            # Further damage may hide where it began: records that were not served before are not served now.
            state.damaged_from = min(state.damaged_from, plan.quarantined_from)
        # Synced offsets stay in range, so that readers get a storage error and not an out-of-range error.
        state.end_offset = max(damage.last_known_end(state, state.damaged_from), plan.known_end)
        damage.save_quarantine(plan.disk, plan.folder, state.damaged_from, state.damage)
    _make_durable(plan, first)


def _load_before(plan: _Plan, offset: int) -> None:
    """Load the epochs and producers before an offset from their files, as far as these match the log."""
    state = plan.state
    if offset == 0:
        state.epochs.clear()
        state.producers.clear()
        return
    load_epochs(state.epochs, state.segments, offset, log_start=plan.log_start)
    load_producers(plan.disk, plan.folder, state.segments, state.producers, offset, plan.now_ms)


def _scan_segment(plan: _Plan, segment: Segment, *, below: int, is_last: bool) -> Job[int]:
    """Verify every batch of a segment and rebuild its indexes, epochs and producers; return the end offset."""
    state = plan.state
    epochs, producers, now_ms = state.epochs, state.producers, plan.now_ms
    builder = IndexBuilder(segment)
    segment.txn_index.reset()
    latest = epochs.latest
    end = segment.base_offset
    closed_at = plan.recovery_point if plan.clean and plan.recovery_point and is_last else OFFSET_MAX
    add_to_indexes = builder.add
    slice_end, headers_left = SLICE_SIZE, HEADERS_PER_SLICE
    try:
        for position, header in segment.headers_from(0, check_crc=True, below=below):
            headers_left -= 1
            if position > slice_end or not headers_left:
                yield None
                slice_end, headers_left = position + SLICE_SIZE, HEADERS_PER_SLICE
            if header[0] != end < closed_at <= header[0] + header[6] and _is_at_end(segment, position, header):
                # The checksum does not cover base offsets, and the last batch has no next one to compare with. An
                # older checkpoint may be in any gap that compaction left.
                raise BadBatch(position, f"base offset {header[0]} is wrong: the log was closed at {closed_at}")
            add_to_indexes(position, header)
            end = header[0] + header[6] + 1
            if header[2] > latest:
                epochs.assign(header[2], header[0])
                latest = header[2]
            if header[9] >= 0:
                aborted.note_batch(producers, segment, position, header, now_ms)
    except BadBatch as bad:
        segment.use_indexes(builder, synced=False, is_active=is_last)
        raise damage.ScanStopped(segment, bad, end) from bad
    finally:
        # Everything before the damage was verified, and nothing after it is read.
        segment.mark_all_checked()
    segment.use_indexes(builder, synced=False, is_active=is_last)
    return end


def _is_at_end(segment: Segment, position: int, header: HeaderTuple) -> bool:
    size: int = header[1] + LOG_OVERHEAD
    return position + size >= segment.size


def _make_durable(plan: _Plan, first: int) -> None:
    """Sync what was found: with group commit, everything that is served must be durable."""
    state = plan.state
    scanned = state.segments[first:]
    state.unsynced_indexes = scanned[:-1]
    if plan.settings.flush_mode != "fsync":
        state.flushed_offset = min(plan.recovery_point, state.end_offset)
        state.folder_changed = True
        behind = [each.base_offset for each in scanned[1:]]
        state.unflushed = [(each.file, end) for each, end in zip(scanned, behind, strict=False)]
        return
    if state.end_offset == 0:
        # Losing an empty log does no harm, and a node may have thousands of them: do not sync it.
        state.folder_changed = True
        return
    try:
        _sync_scanned(plan, scanned)
    except OSError as error:
        # The kernel may have dropped the pages: a second attempt could succeed without writing them.
        plan.directory.fail(error)
        raise
    state.folder_changed = False
    state.flushed_offset = state.end_offset


def _sync_scanned(plan: _Plan, scanned: Sequence[Segment]) -> None:
    state, directory = plan.state, plan.directory
    # A start with thousands of logs cannot wait for two syncs of each.
    is_unchanged = not (state.names_removed or state.notes or state.damage or directory.failed_before)
    if is_unchanged and directory.make_found_durable():
        for segment in scanned:
            segment.file.check_written()
        return
    for segment in scanned:
        if directory.failed_before:
            _write_again(plan.disk, segment)
        segment.file.sync()
    plan.disk.sync_folder(plan.folder)


def _write_again(disk: Disk, segment: Segment) -> None:
    """Overwrite a segment with its content: after a failed sync, pages may be marked clean without being written.

    What cannot be read is not in the cache, so nothing of it is left to be written.
    """
    file = disk.open(segment.path)
    for position in range(0, segment.size, BLOCK_SIZE):
        for at, _, content in read_in_parts(file, min(BLOCK_SIZE, segment.size - position), position):
            if content is not None:
                file.write((content,), at)
    file.sync()
    file.close()
