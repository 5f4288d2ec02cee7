"""Finding records by time.

The segments' largest timestamps say where to look, the time index how far in, headers
which batch; only that one batch is opened. Raises Damaged where the log is broken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.model.errors import CorruptMessage, InvalidRecord
from penstock.model.ids import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Damaged, Segment
from penstock.wire.batch import LOG_APPEND_TIME, HeaderTuple, crc_ok
from penstock.wire.records import decode_batch

if TYPE_CHECKING:
    from penstock.storage.rolling import RollingLog


def by_time(log: RollingLog, timestamp: int) -> tuple[int, int, int] | None:
    """Return timestamp, offset and epoch of the first record at or after a point in time."""
    for segment in _readable(log):
        try:
            segment.ensure_timed()
            if segment.max_timestamp < timestamp or segment.size == 0:
                continue
            for position, header in segment.headers_from(_start(segment, timestamp)):
                if header[0] + header[6] < log.start_offset or header[8] < timestamp:
                    continue
                if log.damaged_from is not None and header[0] >= log.damaged_from:
                    return None
                found = _first_record(segment, position, header, timestamp, log.start_offset)
                if found is not None:
                    return (*found, header[2])
        except BadBatch as bad:
            raise Damaged(segment, bad) from bad
    return None


def of_max_timestamp(log: RollingLog) -> tuple[int, int, int]:
    """Return timestamp, offset and epoch of the record with the largest timestamp; -1 each if there is none."""
    largest: int = NO_TIMESTAMP
    found: tuple[Segment, int, HeaderTuple] | None = None
    for segment in _readable(log):
        try:
            segment.ensure_timed()
            if segment.max_timestamp > largest:
                for position, header in _candidates(segment, log.start_offset):
                    if header[8] > largest:
                        largest, found = header[8], (segment, position, header)
        except BadBatch as bad:
            raise Damaged(segment, bad) from bad
    if found is None:
        return NO_TIMESTAMP, NO_OFFSET, NO_EPOCH
    segment, position, header = found
    try:
        record = _first_record(segment, position, header, largest, log.start_offset)
    except BadBatch as bad:
        raise Damaged(segment, bad) from bad
    return (*(record or (largest, max(header[0], log.start_offset))), header[2])


def _candidates(segment: Segment, start_offset: int) -> Iterable[tuple[int, HeaderTuple]]:
    """Return the batches among which a segment's largest timestamp is: one, unless that one is hidden."""
    if segment.max_timestamp_offset >= start_offset:
        position = segment.find(segment.max_timestamp_offset)
        return () if position is None else ((position, segment.header_at(position)),)
    position = segment.find(start_offset)
    return () if position is None else segment.headers_from(position)


def _readable(log: RollingLog) -> list[Segment]:
    """Return the segments that hold anything before the damage, if there is any."""
    if log.damaged_from is None:
        return log.segments
    return [each for each in log.segments if each.base_offset < log.damaged_from]


def _start(segment: Segment, timestamp: int) -> int:
    """Return a position before which no batch reaches the timestamp, by an entry that was checked."""
    entry = segment.time_index.lookup(timestamp)
    if entry is None:
        return 0
    position = segment.find(entry[1])
    if position is not None:
        header = segment.header_at(position)
        if header[0] + header[6] == entry[1] and header[8] == entry[0]:
            return position
    segment.rebuild_indexes()
    return 0


def _first_record(
    segment: Segment, position: int, header: HeaderTuple, timestamp: int, start_offset: int
) -> tuple[int, int] | None:
    """Return timestamp and offset of the batch's first record that is late enough and not hidden."""
    batch = segment.batch_at(position)
    if header[5] & LOG_APPEND_TIME and crc_ok(batch):
        return header[8], max(header[0], start_offset)
    try:
        records = decode_batch(batch)
    except (CorruptMessage, InvalidRecord) as error:
        raise BadBatch(position, error.message) from error
    for record in records:
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset
    return None
