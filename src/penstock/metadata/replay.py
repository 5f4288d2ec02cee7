"""The replay of the log's committed batches into images.

Called by `applier.py` when the high watermark has passed the applied image. One image per batch, except
that a node far behind gets a single image for all of them. Calls `delta.py`. Refuses records that cannot be replayed:
Corruption.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.metadata.delta import Builder, Delta
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import decode
from penstock.metadata.snapshot import Snapshot
from penstock.model.errors import Corruption
from penstock.model.ids import LeaderEpoch, Offset
from penstock.storage.log import Log
from penstock.wire.batch import BatchHeader, iter_batches
from penstock.wire.records import Record, decode_batch

_READ_BYTES = 1 << 20
SINGLE_IMAGE_MIN = 1000
"""From this many records behind, intermediate images are skipped."""


class Replayed(NamedTuple):
    delta: Delta
    image: Image
    timestamp: int
    size: int
    """The size of the metadata records, without control records."""


def replay(log: Log, base: Snapshot, end: Offset, *, is_first: bool) -> Iterator[Replayed]:
    """Yield the images from a snapshot to an offset; `is_first` if no image has been published yet."""
    if is_first or end - base.image.offset > SINGLE_IMAGE_MIN:
        yield _replay_as_one(log, base, end, is_first=is_first)
        return
    image = base.image
    for header, records in read_batches(log, Offset(image.offset + 1), end):
        builder = Builder(image)
        size = _replay_batch(builder, header, records)
        delta, image = builder.build(offset=Offset(header.last_offset), epoch=LeaderEpoch(header.leader_epoch))
        yield Replayed(delta, image, header.max_timestamp, size)


def _replay_as_one(log: Log, base: Snapshot, end: Offset, *, is_first: bool) -> Replayed:
    builder = Builder(base.image)
    offset, epoch = base.image.offset, base.image.epoch
    timestamp, size = base.timestamp, 0
    for header, records in read_batches(log, Offset(base.image.offset + 1), end):
        offset, epoch = Offset(header.last_offset), LeaderEpoch(header.leader_epoch)
        timestamp = header.max_timestamp
        size += _replay_batch(builder, header, records)
    delta, image = builder.build(offset=offset, epoch=epoch)
    return Replayed(Delta.whole(image) if is_first else delta, image, timestamp, size)


def _replay_batch(builder: Builder, header: BatchHeader, records: list[Record]) -> int:
    if header.is_control:
        return 0
    for record in records:
        builder.replay(decode(record.value or b""))
    return header.size


def read_batches(log: Log, start: Offset, end: Offset) -> Iterator[tuple[BatchHeader, list[Record]]]:
    for view in batches_between(log, start, end):
        yield BatchHeader.at(view), decode_batch(view)


def batches_between(log: Log, start: Offset, end: Offset) -> Iterator[memoryview]:
    offset = start
    while offset < end:
        piece = log.read(offset, max_bytes=_READ_BYTES, end=end, at_least_one=True)
        if piece is None:
            raise Corruption(f"{log.folder} has no batch at offset {offset}, which is below its high watermark {end}")
        for view in iter_batches(piece.file.read(piece.size, piece.position)):
            yield view
            offset = Offset(BatchHeader.at(view).next_offset)


NOTHING = Snapshot(EMPTY, -1)
