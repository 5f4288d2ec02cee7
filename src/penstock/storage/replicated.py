"""Append of batches that already have offsets, from a leader or created by this node.

They were validated when they were first written, so only what the transfer could have damaged is checked: size, magic,
checksum and order. Refuses: CorruptMessage, InvalidRecord, StorageError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crc32c import crc32c

from penstock.model.errors import CorruptMessage, InvalidRecord
from penstock.storage.appended import Appended
from penstock.storage.marker import read_marker
from penstock.storage.marker_append import note_marker
from penstock.wire.batch import (
    ATTRIBUTES_AT,
    CONTROL,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    batch_size,
    check_magic,
    crc_ok,
    iter_batches,
    unpack_header,
)

if TYPE_CHECKING:
    from penstock.storage.log import Log


def check_own_batch(records: memoryview) -> None:
    """Check a batch that this node created: it must be one complete batch of the current format."""
    if batch_size(records) != len(records):
        raise InvalidRecord("exactly one batch must be appended at a time")
    check_magic(records)
    if not crc_ok(records):
        raise CorruptMessage("the checksum of the batch does not match")


def append_replicated(
    log: Log, records: memoryview, now_ms: int, gaps_below: int | None = None, gaps_before_epoch: int = 0
) -> Appended:
    """Append one or more batches unchanged, in one write."""
    one = _append_one(log, records, now_ms)
    if one is not None:
        return one
    headers: list[BatchHeader] = []
    expected = log.end_offset
    for batch in iter_batches(records):
        check_own_batch(batch)
        header = BatchHeader.at(batch)
        if header.base_offset < expected or header.last_offset_delta < 0:
            raise InvalidRecord(f"base offset {header.base_offset} is below the expected {expected}")
        if (
            gaps_below is not None
            and expected < header.base_offset > gaps_below
            and header.leader_epoch >= gaps_before_epoch
        ):
            raise CorruptMessage(f"base offset {header.base_offset} is not the expected {expected}")
        headers.append(header)
        expected = header.next_offset
    if not headers:
        raise InvalidRecord("there is no batch to append")
    latest = max(header.max_timestamp for header in headers)
    position = log.writer.write(
        records, headers[0].base_offset, headers[-1].last_offset, latest, now_ms, any_size=True, is_one=False
    )
    # Nothing below may fail: batches that are written but not recorded would be appended a second time.
    segment, expected, start = log.segments.active, log.end_offset, 0
    for header in headers:
        if header.base_offset != expected:
            # After a gap, the end of a batch is not the beginning of the next one.
            segment.forget_boundaries()
        expected = header.next_offset
        segment.added(header.base_offset, header.last_offset, position, header.size, header.max_timestamp)
        if not position:
            log.writer.note_first(header.max_timestamp, now_ms)
        position += header.size
        log.begin_epoch(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            _note(log, header, records[start : start + header.size], now_ms)
        start += header.size
    log.flusher.appended(headers[-1].next_offset)
    return Appended(headers[0].base_offset, headers[-1].last_offset, -1, log.start_offset, False)


def _append_one(log: Log, records: memoryview, now_ms: int) -> Appended | None:
    """Append a single data batch that directly follows the last one; otherwise return None without any change."""
    size = len(records)
    if size < HEADER_SIZE:
        return None
    base, length, leader_epoch, magic, crc, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = (
        unpack_header(records)
    )
    if (
        length + LOG_OVERHEAD != size
        or magic != MAGIC
        or base != log.offsets.end
        or delta < 0
        or attributes & CONTROL
        or crc32c(records[ATTRIBUTES_AT:]) != crc
    ):
        return None
    last_offset = base + delta
    log.writer.write(records, base, last_offset, timestamp, now_ms, True)
    # Nothing below may fail, as in `append_replicated`.
    log.begin_epoch(leader_epoch, base)
    if producer_id >= 0:
        log.producer_state.batch_appended(
            producer_id, epoch, sequence, base, last_offset, timestamp, now_ms, attributes & TRANSACTIONAL
        )
    log.flusher.appended(last_offset + 1)
    return Appended(base, last_offset, -1, log.offsets.start, False)


def _note(log: Log, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
    state = log.producer_state
    if not header.is_control:
        state.batch_appended(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            now_ms,
            header.attributes & TRANSACTIONAL,
        )
        return
    marker = read_marker(batch)
    if marker is not None:
        note_marker(
            log, header.producer_id, header.producer_epoch, marker, header.last_offset, header.max_timestamp, now_ms
        )
