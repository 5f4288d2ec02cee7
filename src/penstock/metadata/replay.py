"""The replay of the log's committed batches into images.

Called by `applier.py` when the high watermark has passed the applied image. One image per batch, except that a node
that starts gets a single image, and one that is far behind gets one for several batches. Calls `delta.py`.
Refuses records that cannot be replayed: Corruption.
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
FAR_BEHIND_MIN = 1000
"""From this many records behind, an image is published for several batches."""
RECORDS_PER_IMAGE = 300
"""As many, or those of one larger batch."""


class Replayed(NamedTuple):
    delta: Delta
    image: Image
    timestamp: int
    size: int
    """The size of the metadata records, without control records."""


def replay(log: Log, base: Snapshot, end: Offset, *, is_first: bool) -> Iterator[Replayed]:
    """Yield the images from a snapshot to an offset; `is_first` if no image has been published yet."""
    if is_first:
        records_max = end - base.image.offset
    elif end - base.image.offset > FAR_BEHIND_MIN:
        records_max = RECORDS_PER_IMAGE
    else:
        records_max = 1
    image, builder, size = base.image, Builder(base.image), 0
    offset, epoch, timestamp = image.offset, image.epoch, base.timestamp
    for header, records in read_batches(log, Offset(image.offset + 1), end):
        if header.last_offset - image.offset > records_max and offset > image.offset:
            delta, image = builder.build(offset=offset, epoch=epoch)
            yield Replayed(delta, image, timestamp, size)
            builder, size = Builder(image), 0
        offset, epoch = Offset(header.last_offset), LeaderEpoch(header.leader_epoch)
        timestamp = header.max_timestamp
        size += _replay_batch(builder, header, records)
    delta, image = builder.build(offset=offset, epoch=epoch)
    yield Replayed(Delta.whole(image) if is_first else delta, image, timestamp, size)


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
