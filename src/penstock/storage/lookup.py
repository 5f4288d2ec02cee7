"""Lookup of records by timestamp.

Finds the segment by its largest timestamp, the position by the time index and the batch by its header, and decodes the
records of that batch only, unless its header is wrong. Runs in slices (model/job.py): a segment may have millions of
batches, a batch millions of records. Raises Damaged if the log is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.model.errors import CorruptMessage, InvalidRecord
from penstock.model.ids import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from penstock.model.job import Job
from penstock.storage.index_builder import HEADERS_PER_SLICE
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Damaged, Segment
from penstock.wire.batch import HEADER_SIZE, LOG_APPEND_TIME, BatchHeader, HeaderTuple, crc_ok
from penstock.wire.record_heads import RecordHeads

if TYPE_CHECKING:
    from penstock.storage.log import Log


def by_time(log: Log, timestamp: int) -> Job[tuple[int, int, int] | None]:
    """Find timestamp, offset and epoch of the first record at or after a timestamp."""
    for segment in _readable(log):
        try:
            yield from segment.ensure_timed_job()
            if segment.max_timestamp < timestamp or segment.size == 0:
                continue
            left = HEADERS_PER_SLICE
            start = yield from _start(segment, timestamp)
            for position, header in segment.headers_from(start):
                left -= 1
                if not left:
                    left = HEADERS_PER_SLICE
                    yield None
                if header[0] + header[6] < log.start_offset or header[8] < timestamp:
                    continue
                if log.damaged_from is not None and header[0] >= log.damaged_from:
                    return None
                found = yield from _first_record(segment, position, header, timestamp, log.start_offset)
                if found is not None:
                    return (*found, header[2])
        except BadBatch as bad:
            raise Damaged(segment, bad) from bad
        yield None
    return None


def of_max_timestamp(log: Log) -> Job[tuple[int, int, int]]:
    """Find timestamp, offset and epoch of the record with the largest timestamp; -1 each if there is none."""
    largest: int = NO_TIMESTAMP
    found: tuple[Segment, int, HeaderTuple] | None = None
    for segment in _readable(log):
        try:
            yield from segment.ensure_timed_job()
            if segment.max_timestamp > largest:
                left = HEADERS_PER_SLICE
                for position, header in _candidates(segment, log.start_offset):
                    if header[8] > largest:
                        largest, found = header[8], (segment, position, header)
                    left -= 1
                    if not left:
                        left = HEADERS_PER_SLICE
                        yield None
        except BadBatch as bad:
            raise Damaged(segment, bad) from bad
        yield None
    if found is None:
        return NO_TIMESTAMP, NO_OFFSET, NO_EPOCH
    segment, position, header = found
    try:
        record = yield from _first_record(segment, position, header, largest, log.start_offset)
    except BadBatch as bad:
        raise Damaged(segment, bad) from bad
    return (*(record or (largest, max(header[0], log.start_offset))), header[2])


def _candidates(segment: Segment, start_offset: int) -> Iterable[tuple[int, HeaderTuple]]:
    """Return the batches that may have a segment's largest timestamp: one, unless it is before the log start."""
    if segment.max_timestamp_offset >= start_offset:
        position = segment.find(segment.max_timestamp_offset)
        return () if position is None else ((position, segment.header_at(position)),)
    position = segment.find(start_offset)
    return () if position is None else segment.headers_from(position)


def _readable(log: Log) -> list[Segment]:
    """Return the segments with records before the damage; all of them if there is none."""
    if log.damaged_from is None:
        return list(log.segments)
    return [each for each in log.segments if each.base_offset < log.damaged_from]


def _start(segment: Segment, timestamp: int) -> Job[int]:
    """Find a position before which all timestamps are lower, from an index entry that is verified."""
    entry = segment.time_index.lookup(timestamp)
    if entry is None:
        return 0
    position = segment.find(entry[1])
    if position is not None:
        header = segment.header_at(position)
        if header[0] + header[6] == entry[1] and header[8] == entry[0]:
            return position
    yield from segment.rebuild_indexes_job()
    return 0


def _first_record(
    segment: Segment, position: int, header: HeaderTuple, timestamp: int, start_offset: int
) -> Job[tuple[int, int] | None]:
    """Find timestamp and offset of the batch's first record that is late enough and not before the log start."""
    batch = segment.batch_at(position)
    if not crc_ok(batch):
        raise BadBatch(position, f"the batch at offset {header[0]} fails its checksum")
    if header[5] & LOG_APPEND_TIME:
        return header[8], max(header[0], start_offset)
    base_offset, base_timestamp = header[0], header[7]
    heads = RecordHeads(BatchHeader.at(batch), memoryview(batch)[HEADER_SIZE:])
    try:
        while (found := (yield from heads.read())) is not None:
            for timestamp_delta, delta, _ in found:
                if base_timestamp + timestamp_delta >= timestamp and base_offset + delta >= start_offset:
                    return base_timestamp + timestamp_delta, base_offset + delta
            yield None
    except (CorruptMessage, InvalidRecord) as error:
        raise BadBatch(position, error.message) from error
    return None
