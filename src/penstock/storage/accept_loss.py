"""Accepting the loss of missing and damaged offsets of a log (`penstock log accept-loss`).

Reads the whole log, keeps every valid batch, and puts an empty batch in place of the rest. The table of outcomes is in
docs/internals/damage.md. For a data folder that no node uses. Refuses: StartupError.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from penstock.config.settings import default_topic_settings
from penstock.model.errors import StartupError
from penstock.model.ids import TopicPartition
from penstock.ports.clock import Clock
from penstock.ports.disk import Disk, File
from penstock.ports.entropy import Entropy
from penstock.storage import damage
from penstock.storage.compaction.batches import emptied
from penstock.storage.directory import UNOPENABLE
from penstock.storage.lenient_disk import LenientFile
from penstock.storage.log import Log
from penstock.storage.meta_properties import read_meta
from penstock.storage.scan import BLOCK_SIZE, OFFSET_MAX, RELATIVE_OFFSET_MAX, BadBatch, find_valid_batch, scan_batches
from penstock.storage.segment import Segment, file_name
from penstock.storage.segment_list import SegmentList
from penstock.storage.store import LogStore
from penstock.wire.batch import LOG_OVERHEAD, MAGIC, HeaderTuple

_NEW_SUFFIX = ".tmp"


class ValidRange(NamedTuple):
    """A valid byte range of a segment, its offsets, and the leader epochs of its first and last batch."""

    position: int
    size: int
    first_offset: int
    end_offset: int
    first_epoch: int
    last_epoch: int


class Filler(NamedTuple):
    """Lost offsets, and the leader epoch of the empty batch that covers them."""

    first_offset: int
    end_offset: int
    epoch: int


class KeptSegment(NamedTuple):
    """A segment with valid batches: its valid ranges, and fillers for the rest."""

    segment: Segment
    parts: list[ValidRange | Filler]

    @property
    def is_whole(self) -> bool:
        return (
            len(self.parts) == 1 and isinstance(self.parts[0], ValidRange) and self.parts[0].size == self.segment.size
        )


@dataclass(slots=True)
class Assessment:
    """The damage of a log, and what remains when the loss is accepted."""

    damage: str | None
    start_offset: int = 0
    end_offset: int = 0
    """The offset of the next append: no lower offset is used again."""
    end_is_known: bool = True
    given_up: list[tuple[int, int]] = field(default_factory=list)
    """The lost offsets: first and last of each range."""
    kept: list[KeptSegment] = field(default_factory=list)


def accept_loss(
    disk: Disk, data_folder: str, topic_partition: TopicPartition, *, clock: Clock, entropy: Entropy, confirmed: bool
) -> Assessment:
    """Return the lost offsets of a log; accept their loss if that is confirmed. Raises OSError, StartupError."""
    meta = read_meta(disk, data_folder)
    if meta is None:
        raise StartupError(
            f"{data_folder} is not a data folder: it has no meta.properties. Pass the data folder of a node"
        )
    store = LogStore.load(
        disk, data_folder, cluster_id=None, node_id=meta.node_id, clock=clock, entropy=entropy, journal_size=0
    )
    try:
        log = _open(store, topic_partition)
        found = _assess(log)
        if confirmed and log.damage is not None:
            _discard_lost(disk, log, found)
            store.apply_accepted_loss(topic_partition, start_offset=found.start_offset, end_offset=found.end_offset)
    finally:
        store.close(clean=store.was_clean, broker_epoch=store.previous_broker_epoch)
    return found


def _open(store: LogStore, topic_partition: TopicPartition) -> Log:
    topic_id = store.topic_id_of(topic_partition)
    if topic_id is None:
        raise StartupError(
            f"cannot find the topic id of {topic_partition} in {store.folder}: start the node, which records what is "
            "missing, then stop it and repeat this command"
        )
    settings = default_topic_settings(flush_mode="fsync")
    try:
        return store.open(topic_partition, topic_id, settings)
    except OSError as error:
        log = (
            store.open_unreadable(topic_partition, topic_id, settings, str(error))
            if error.errno in UNOPENABLE
            else None
        )
        if log is None:
            raise
        return log


def _assess(log: Log) -> Assessment:
    found = Assessment(log.damage)
    if log.damage is None:
        return found
    segments = [each for each in log.segments if log.directory.disk.exists(each.path)]
    bounds = [*(each.base_offset for each in segments[1:]), OFFSET_MAX]
    good = [(each, list(_valid_ranges(each, below))) for each, below in zip(segments, bounds, strict=False)]
    good = [each for each in good if each[1]]
    found.end_is_known = log.end_offset > log.start_offset
    found.end_offset = max(log.end_offset, good[-1][1][-1].end_offset) if good else log.end_offset
    found.start_offset = max(log.start_offset, good[0][0].base_offset) if good else found.end_offset
    ends = [*(segment.base_offset for segment, _ in good[1:]), found.end_offset]
    found.kept = [
        KeptSegment(segment, _fill_gaps(segment, parts, end)) for (segment, parts), end in zip(good, ends, strict=False)
    ]
    fillers = [part for each in found.kept for part in each.parts if isinstance(part, Filler)]
    found.given_up = [(each.first_offset, each.end_offset - 1) for each in fillers]
    if log.start_offset < found.start_offset:
        found.given_up.insert(0, (log.start_offset, found.start_offset - 1))
    return found


def _valid_ranges(segment: Segment, below: int) -> Iterator[ValidRange]:
    """Yield the valid ranges of a segment, skipping everything between them."""
    if not segment.size:
        return
    file = LenientFile(segment.path, segment.file)
    position: int | None = 0
    offset = base_offset = segment.base_offset
    while position is not None and position < segment.size:
        headers: list[HeaderTuple] = []
        begin, bad = position, None
        try:
            for at, header in scan_batches(
                file, position, segment.size, offset=offset, base_offset=base_offset, check_crc=True,
                below=below,
            ):  # fmt: skip
                headers = [*headers[:1], header]
                position = at + header[1] + LOG_OVERHEAD
        except BadBatch as found:
            bad = found
        if headers:
            # Compaction may have removed the offsets before the first batch of a segment.
            first = headers[0][0] if begin else base_offset
            offset = headers[-1][0] + headers[-1][6] + 1
            yield ValidRange(begin, position - begin, first, offset, headers[0][2], headers[-1][2])
        if bad is None:
            return
        position = find_valid_batch(file, bad.position + 1, segment.size, offset=offset, base_offset=base_offset)


def _fill_gaps(segment: Segment, ranges: Sequence[ValidRange], end: int) -> list[ValidRange | Filler]:
    """Return the parts of a segment without gaps, from its base offset to that of the next segment."""
    parts: list[ValidRange | Filler] = []
    offset, epoch = segment.base_offset, ranges[0].first_epoch
    if end - 1 - segment.base_offset > RELATIVE_OFFSET_MAX:
        raise StartupError(f"{segment.path} cannot cover all offsets up to {end}: restore it from a backup")
    for valid in ranges:
        if offset < valid.first_offset:
            parts.append(Filler(offset, valid.first_offset, epoch))
        parts.append(valid)
        offset, epoch = valid.end_offset, valid.last_epoch
    if offset < end:
        parts.append(Filler(offset, end, epoch))
    return parts


def _discard_lost(disk: Disk, log: Log, found: Assessment) -> None:
    kept = {each.segment.path for each in found.kept}
    for segment in log.segments:
        if segment.path not in kept and disk.exists(segment.path):
            _set_aside(disk, segment)
    for name in disk.list(log.folder):
        # Segments that could not be opened are not part of the log.
        if name.endswith(".log") and f"{log.folder}/{name}" not in kept:
            disk.rename(f"{log.folder}/{name}", f"{log.folder}/{name.removesuffix('.log')}{damage.CUT_SUFFIX}")
    segment_list = SegmentList(disk, log.folder)
    disk.remove(segment_list.path)
    segment_list.add_start(found.kept[0].segment.base_offset if found.kept else found.end_offset)
    sizes = [each.segment.size if each.is_whole else _rewrite(disk, each) for each in found.kept]
    for (each, following), size in zip(pairwise(found.kept), sizes, strict=False):
        segment_list.add_closed(each.segment.base_offset, following.segment.base_offset, size)
    if not found.kept:
        disk.open(f"{log.folder}/{file_name(found.end_offset, '.log')}", create=True).close()
    file = disk.open(segment_list.path)
    file.sync()
    file.close()
    disk.sync_folder(log.folder)
    damage.lift_quarantine(disk, log.folder)


def _rewrite(disk: Disk, kept: KeptSegment) -> int:
    """Replace a segment by its kept parts; return its size. The next start rebuilds its indexes."""
    path = kept.segment.path
    file = disk.open(path + _NEW_SUFFIX, create=True)
    file.truncate(0)
    size = 0
    for part in kept.parts:
        size += _copy(part, kept.segment, file, size)
    file.sync()
    file.close()
    _set_aside(disk, kept.segment)
    disk.rename(path + _NEW_SUFFIX, path)
    return size


def _copy(part: ValidRange | Filler, segment: Segment, file: File, position: int) -> int:
    if isinstance(part, Filler):
        delta = part.end_offset - part.first_offset - 1
        header = (part.first_offset, 0, part.epoch, MAGIC, 0, 0, delta, -1, -1, -1, -1, -1, 0)
        return file.write((emptied(header, keeps_producer=False),), position)
    for at in range(0, part.size, BLOCK_SIZE):
        content = segment.file.read(min(BLOCK_SIZE, part.size - at), part.position + at)
        file.write((content,), position + at)
    return part.size


def _set_aside(disk: Disk, segment: Segment) -> None:
    """Remove a segment from the log, but keep its file under another name."""
    path, *indexes = segment.paths()
    segment.directory.open_files.forget(path)
    disk.rename(path, f"{segment.folder}/{file_name(segment.base_offset, damage.CUT_SUFFIX)}")
    for index in indexes:
        disk.remove(index)
