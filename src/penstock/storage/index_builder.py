"""Building the offset and time index of a segment from the headers of its batches.

Used by segment.py to rebuild damaged indexes, and by recovery.py while it scans a segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.ids import NO_TIMESTAMP
from penstock.storage.offset_index import OffsetIndex
from penstock.storage.time_index import TimeIndex
from penstock.wire.batch import LOG_OVERHEAD, HeaderTuple

if TYPE_CHECKING:
    from penstock.storage.segment import Segment


class IndexBuilder:
    """New indexes of one segment. `Segment.use_indexes` puts them in place."""

    __slots__ = ("_interval", "max_timestamp", "max_timestamp_offset", "offset_index", "time_index", "unindexed")

    def __init__(self, segment: Segment) -> None:
        self.offset_index = OffsetIndex(segment.offset_index.path, segment.base_offset)
        self.time_index = TimeIndex(segment.time_index.path, segment.base_offset)
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
