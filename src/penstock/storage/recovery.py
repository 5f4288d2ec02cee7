"""From files to a log: what a start finds in a partition's folder.

After a clean close a few headers at the end are enough. Otherwise everything from the
segment with the recovery point on is read with checksums, and its indexes, epochs and
producer state are made anew. Where the bytes stop being batches, damage.py says whether
that is a torn tail, which is cut, or rot, which is kept, reported and never served.
"""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.config.settings import TopicSettings
from penstock.model.errors import Corruption
from penstock.ports.disk import Disk, File
from penstock.storage import aborted, damage
from penstock.storage.compaction.swap import finish_swaps
from penstock.storage.directory import LogDirectory
from penstock.storage.epoch_cache import EpochCache
from penstock.storage.producer_state import ProducerState
from penstock.storage.scan import BLOCK_SIZE, OFFSET_MAX, BadBatch
from penstock.storage.segment import Damaged, Segment, file_name
from penstock.storage.snapshots import load_producers, remove_snapshots
from penstock.wire.batch import LOG_OVERHEAD, HeaderTuple

_NAME_DIGITS = 20
_LEFTOVERS = (".deleted", ".tmp", ".cleaned", ".swap")


@dataclass(slots=True)
class Recovered:
    """Everything that a log starts with."""

    segments: list[Segment]
    epochs: EpochCache
    producers: ProducerState
    start_offset: int = 0
    end_offset: int = 0
    flushed_offset: int = 0
    damage: str | None = None
    damaged_from: int | None = None
    notes: list[str] = field(default_factory=list)
    folder_changed: bool = False
    unflushed: list[tuple[File, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Plan:
    """What recovery is told, and what it finds out on the way."""

    directory: LogDirectory
    folder: str
    settings: TopicSettings
    now_ms: int
    clean: bool
    recovery_point: int
    log_start: int
    state: Recovered
    quarantined_from: int | None = None

    @property
    def cut_from(self) -> int:
        """Below this offset nothing is cut, whatever it looks like: all of a log that is known to be damaged."""
        return self.recovery_point if self.quarantined_from is None else OFFSET_MAX

    @property
    def disk(self) -> Disk:
        return self.directory.disk


def recover(
    directory: LogDirectory,
    folder: str,
    settings: TopicSettings,
    *,
    now_ms: int,
    clean: bool,
    recovery_point: int,
    log_start: int,
) -> Recovered:
    """Return the state of the log in a folder, which is made if it is missing. Raises OSError."""
    disk = directory.disk
    disk.make_folder(folder)
    notes = finish_swaps(disk, folder)
    state = Recovered(_find_segments(directory, folder, settings, now_ms), EpochCache(disk, folder), ProducerState())
    state.notes += notes
    plan = _Plan(directory, folder, settings, now_ms, clean, recovery_point, log_start, state)
    if not state.segments:
        _begin_at(plan, log_start)
    plan.quarantined_from = damage.quarantined_from(disk, folder)
    if plan.quarantined_from is not None:
        _scan(plan, min(plan.quarantined_from, recovery_point))
    elif not clean or not _trust_the_end(plan):
        _scan(plan, recovery_point)
    if plan.quarantined_from is not None and state.damage is None:
        damage.lift_quarantine(disk, folder)
    if log_start > state.end_offset and state.damage is None:
        _drop_everything(plan, log_start)
    state.start_offset = min(max(log_start, state.segments[0].base_offset), state.end_offset)
    state.epochs.truncate_end(state.end_offset)
    state.epochs.truncate_start(state.start_offset)
    with suppress(OSError):
        # A full disk: they stay unsaved, and no recovery point is written before they are.
        state.epochs.save()
    remove_snapshots(disk, folder, above=state.end_offset)
    aborted.load_checkpoint(disk, folder, state.segments)
    return state


def _find_segments(directory: LogDirectory, folder: str, settings: TopicSettings, now_ms: int) -> list[Segment]:
    """Return the segments that are there, oldest first, and sweep what an interrupted change left behind."""
    disk = directory.disk
    segments: list[Segment] = []
    indexes: list[str] = []
    for name in disk.list(folder):
        stem, dot, suffix = name.partition(".")
        if name.endswith(_LEFTOVERS):
            disk.remove(f"{folder}/{name}")
        elif len(stem) == _NAME_DIGITS and stem.isdecimal() and suffix in ("index", "timeindex", "txnindex"):
            indexes.append(name)
        elif len(stem) == _NAME_DIGITS and stem.isdecimal() and dot + suffix == ".log":
            segments.append(_segment(directory, folder, int(stem), settings, now_ms))
    names = {file_name(each.base_offset, "") for each in segments}
    for name in indexes:
        if name.partition(".")[0] not in names:
            disk.remove(f"{folder}/{name}")
    return segments


def _segment(
    directory: LogDirectory,
    folder: str,
    base_offset: int,
    settings: TopicSettings,
    now_ms: int,
    *,
    create: bool = False,
) -> Segment:
    path = f"{folder}/{file_name(base_offset, '.log')}"
    file = directory.disk.open(path, create=create, writable=create)
    size = file.size()
    file.close()
    return Segment(
        directory,
        folder,
        base_offset,
        size=size,
        index_interval=settings.index_interval_bytes,
        index_size_max=settings.segment_index_bytes,
        created_ms=now_ms,
    )


def _begin_at(plan: _Plan, offset: int) -> None:
    segment = _segment(plan.directory, plan.folder, offset, plan.settings, plan.now_ms, create=True)
    segment.save_indexes()
    plan.state.segments.append(segment)
    plan.state.folder_changed = True


def _drop_everything(plan: _Plan, offset: int) -> None:
    """Begin anew at a start that lies beyond the end: what is left was deleted by a client."""
    for segment in plan.state.segments:
        plan.directory.open_files.forget(segment.path)
        for path in segment.paths():
            plan.disk.remove(path)
    plan.state.segments.clear()
    plan.state.notes.append(f"everything before the log's start at {offset} is gone, and nothing follows it")
    _begin_at(plan, offset)
    plan.state.producers.clear()
    plan.state.unflushed.clear()
    plan.state.end_offset = plan.state.flushed_offset = offset


def _trust_the_end(plan: _Plan) -> bool:
    """Take a log that was closed cleanly by its last headers; False if they do not bear that out."""
    state = plan.state
    try:
        state.end_offset = state.segments[-1].end_offset()
        if plan.recovery_point and state.end_offset != plan.recovery_point:
            return False
        _load_epochs(plan, state.end_offset)
        load_producers(plan.disk, plan.folder, state.segments, state.producers, state.end_offset, plan.now_ms)
    except (BadBatch, Damaged):
        return False
    state.flushed_offset = state.end_offset
    return True


def _scan(plan: _Plan, scan_from: int) -> None:
    """Read everything from an offset's segment on, checksums and all."""
    state = plan.state
    first = max(bisect_right([each.base_offset for each in state.segments], scan_from) - 1, 0)
    base_offset = state.segments[first].base_offset
    try:
        _load_epochs(plan, base_offset)
        load_producers(plan.disk, plan.folder, state.segments, state.producers, base_offset, plan.now_ms)
    except (BadBatch, Damaged):
        # Damage before the part that needs a scan: scan everything, to find out where it is.
        if first > 0:
            _scan(plan, state.segments[0].base_offset)
            return
        raise
    state.epochs.truncate_end(base_offset)
    end = base_offset
    for index in range(first, len(state.segments)):
        segment = state.segments[index]
        if segment.base_offset > end and not _gap_is_fine(plan, segment, end):
            damage.on_gap(plan.disk, state, index, end, recovery_point=plan.cut_from)
            break
        try:
            below = state.segments[index + 1].base_offset if index + 1 < len(state.segments) else OFFSET_MAX
            end = _scan_segment(plan, segment, below=below, is_last=index + 1 == len(state.segments))
        except damage.Stopped as stopped:
            end = stopped.offset
            damage.on_bad_batch(plan.disk, state, index, stopped, recovery_point=plan.cut_from)
            break
    if state.damage is None:
        state.end_offset = end
        if end < plan.recovery_point:
            damage.on_missing_end(state, end, recovery_point=plan.recovery_point)
    if state.damage is not None:
        assert state.damaged_from is not None
        if plan.quarantined_from is not None:
            # Further rot may have hidden where it began: what was not served is not served now.
            state.damaged_from = min(state.damaged_from, plan.quarantined_from)
        # Offsets that were synced stay in range: a reader is told of the damage, and not that they never were.
        state.end_offset = max(damage.last_known_end(state, state.damaged_from), plan.recovery_point)
        damage.save_quarantine(plan.disk, plan.folder, state.damaged_from, state.damage)
    _settle(plan, first)


def _gap_is_fine(plan: _Plan, segment: Segment, end: int) -> bool:
    """Whether compaction may have left the gap: it works on synced segments of compacted topics only."""
    return plan.settings.compact and segment.base_offset <= plan.recovery_point


def _scan_segment(plan: _Plan, segment: Segment, *, below: int, is_last: bool) -> int:
    """Check every batch of a segment and make all that is derived from it; return the offset behind it."""
    state = plan.state
    epochs, producers, now_ms = state.epochs, state.producers, plan.now_ms
    segment.start_indexes_anew()
    segment.txn_index.begin_anew()
    latest = epochs.latest
    end = segment.base_offset
    closed_at = plan.recovery_point if plan.clean and plan.recovery_point and is_last else OFFSET_MAX
    index_batch = segment.index_batch
    try:
        for position, header in segment.headers_from(0, check_crc=True, below=below):
            if header[0] != end < closed_at <= header[0] + header[6] and _is_at_end(segment, position, header):
                # The checksum does not cover base offsets, and the last one has no neighbour to belie it. An older
                # checkpoint may lie in any gap that compaction left.
                raise BadBatch(position, f"base offset {header[0]} in a log that was closed at {closed_at}")
            index_batch(position, header)
            end = header[0] + header[6] + 1
            if header[2] > latest:
                epochs.assign(header[2], header[0])
                latest = header[2]
            if header[9] >= 0:
                aborted.note_batch(producers, segment, position, header, now_ms)
    except BadBatch as bad:
        segment.finish_indexes()
        raise damage.Stopped(segment, bad, end) from bad
    finally:
        # Nothing behind damage is read, and everything before it was checked.
        segment.all_checked()
    segment.finish_indexes()
    return end


def _is_at_end(segment: Segment, position: int, header: HeaderTuple) -> bool:
    size: int = header[1] + LOG_OVERHEAD
    return position + size >= segment.size


def _settle(plan: _Plan, first: int) -> None:
    """See to it that what was found stays: with group commit on, everything served is durable."""
    state = plan.state
    scanned = state.segments[first:]
    if plan.settings.flush_mode == "fsync":
        if state.end_offset == 0:
            # An empty log may as well be lost, and a node may have thousands of them: no sync for any.
            state.folder_changed = True
            return
        for segment in scanned:
            if plan.directory.failed_before:
                _write_again(plan.disk, segment)
            segment.file.sync()
        plan.disk.sync_folder(plan.folder)
        state.folder_changed = False
        state.flushed_offset = state.end_offset
        return
    state.flushed_offset = min(plan.recovery_point, state.end_offset)
    state.folder_changed = True
    behind = [each.base_offset for each in scanned[1:]]
    state.unflushed = [(each.file, end) for each, end in zip(scanned, behind, strict=False)]


def _write_again(disk: Disk, segment: Segment) -> None:
    """Write a segment over itself: pages that a failed sync has marked clean are written out by no later one."""
    file = disk.open(segment.path)
    for position in range(0, segment.size, BLOCK_SIZE):
        file.write((file.read(min(BLOCK_SIZE, segment.size - position), position),), position)
    file.sync()
    file.close()


def _load_epochs(plan: _Plan, end: int) -> None:
    """Read the epochs below an offset; from the headers if the file is missing or does not match the log."""
    epochs = plan.state.epochs
    try:
        epochs.load()
        epochs.truncate_end(end)
        if all(_epoch_is_true(plan, epoch, offset) for epoch, offset in epochs.entries()) and _none_is_missing(
            plan, epochs.latest, end
        ):
            return
    except FileNotFoundError:
        pass
    except Corruption:
        epochs.dirty = True
    epochs.clear()
    for segment in plan.state.segments:
        if segment.base_offset >= end:
            break
        for _, header in segment.headers_from(0):
            epochs.assign(header[2], header[0])
    epochs.truncate_end(end)


def _epoch_is_true(plan: _Plan, epoch: int, offset: int) -> bool:
    """Whether an epoch begins where it is said to: with a batch of its own, behind one of an older epoch."""
    header = _header_at(plan.state.segments, offset)
    if header is None or header[2] != epoch:
        return False
    if offset <= max(plan.log_start, plan.state.segments[0].base_offset):
        return True
    before = _header_at(plan.state.segments, offset - 1)
    return header[0] == offset and (before is None or before[0] >= offset or before[2] < epoch)


def _none_is_missing(plan: _Plan, latest: int, end: int) -> bool:
    """Whether the last epoch before an offset is the latest that is known: rot may have moved one behind the end."""
    if end <= plan.state.segments[0].base_offset:
        return True
    last = _header_at(plan.state.segments, end - 1)
    return latest >= 0 and (last is None or last[0] >= end or last[2] == latest)


def _header_at(segments: Sequence[Segment], offset: int) -> HeaderTuple | None:
    """Return the header of the batch that holds an offset or is the first behind it in its segment."""
    slot = max(bisect_right([each.base_offset for each in segments], offset) - 1, 0)
    position = segments[slot].find(offset)
    return None if position is None else segments[slot].header_at(position)
