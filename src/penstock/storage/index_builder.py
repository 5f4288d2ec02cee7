"""The offset and time index of a segment, built from the headers of its batches or compared with them.

Used by segment.py to rebuild damaged indexes, and by recovery.py while it scans a segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.model.errors import Corruption
from penstock.model.ids import NO_TIMESTAMP
from penstock.model.job import Job
from penstock.storage.offset_index import OffsetIndex
from penstock.storage.time_index import TimeIndex
from penstock.wire.batch import LOG_OVERHEAD, HeaderTuple

if TYPE_CHECKING:
    from penstock.storage.segment import Segment


HEADERS_PER_SLICE: Final = 64
"""A job yields after reading this many headers, each of which is a system call if batches are large."""


class IndexBuilder:
    """New indexes of one segment. `Segment.use_indexes` puts them in place."""

    __slots__ = ("_interval", "max_timestamp", "max_timestamp_offset", "offset_index", "time_index", "unindexed")

    def __init__(self, segment: Segment) -> None:
        self.offset_index = OffsetIndex(segment.path, segment.base_offset)
        self.time_index = TimeIndex(segment.path, segment.base_offset)
        self.max_timestamp: int = NO_TIMESTAMP
        self.max_timestamp_offset = segment.base_offset
        self.unindexed = 0
        self._interval = segment.index_interval

    def add(self, position: int, header: HeaderTuple) -> None:
        """Add the next batch."""
        if header[8] > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = header[8], header[0] + header[6]
        if self.unindexed > self._interval:
            self.offset_index.append(header[0] + header[6], position)
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self.unindexed = 0
        self.unindexed += header[1] + LOG_OVERHEAD


def indexed_max_timestamp(segment: Segment) -> Job[tuple[int, int]]:
    """Return the largest timestamp from the end of the time index; raise Corruption if the log contradicts it."""
    timestamp, offset = segment.time_index.last()
    position = segment.find(offset) if timestamp >= 0 else 0
    left = HEADERS_PER_SLICE
    for at, header in segment.headers_from(position) if position is not None else ():
        # The first batch must be that of the entry, and no later batch may have a larger timestamp.
        if header[8] > timestamp or (at == position and timestamp >= 0 and header[0] + header[6] != offset):
            position = None
            break
        left -= 1
        if not left:
            left = HEADERS_PER_SLICE
            yield None
    if position is None or (timestamp >= 0 and segment.header_at(position)[8] != timestamp):
        raise Corruption(
            f"{segment.time_index.path}: the last entry does not point to the batch with the largest timestamp"
        )
    return timestamp, offset
