"""Decoding and encoding of batches for compaction.

`open_records` finds the position of each record without copying values; `with_records` encodes the remaining records
of a batch, `emptied` a batch without records. Offsets, producer fields and epoch stay. Raises MalformedRecords.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.model.errors import Corruption, Refusal
from penstock.model.ids import NO_TIMESTAMP
from penstock.wire.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LENGTH_LEAST,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    Buffer,
    HeaderTuple,
)
from penstock.wire.compression import NONE, compress, decompress

_UNSEALED: Final = Struct(">qiibI")
_SEALED: Final = Struct(">hiqqqhii")
NO_PRODUCER: Final = -1


class MalformedRecords(Corruption):
    """The records of a batch cannot be decoded."""


class RecordSpan(NamedTuple):
    """The position of one record in an uncompressed payload, and the fields that compaction needs."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def payload_of(header: HeaderTuple, batch: memoryview) -> Buffer:
    """Return the records of a batch, uncompressed."""
    packed = batch[HEADER_SIZE:]
    codec = header[5] & CODEC_MASK
    if codec == NONE or header[12] == 0:
        return packed
    try:
        return decompress(codec, packed)
    except Refusal as error:
        raise MalformedRecords(f"cannot decompress the batch at offset {header[0]}: {error}") from error


def open_records(header: HeaderTuple, payload: Buffer) -> list[RecordSpan]:
    """Return the positions of the records of a batch."""
    spans: list[RecordSpan] = []
    at, count, most = 0, header[12], header[6]
    previous = -1
    try:
        for _ in range(count):
            start = at
            size, at = _varint(payload, at)
            end = at + size
            timestamp_delta, at = _varint(payload, at + 1)
            offset_delta, at = _varint(payload, at)
            key_size, at = _varint(payload, at)
            if key_size >= 0:
                key: bytes | None = bytes(payload[at : at + key_size])
                at += key_size
            else:
                key = None
            value_size, at = _varint(payload, at)
            if value_size > 0:
                at += value_size
            if not (at < end <= len(payload) and previous < offset_delta <= most) or key_size < -1 or value_size < -1:
                raise IndexError
            spans.append(RecordSpan(start, end, timestamp_delta, offset_delta, key, value_size >= 0))
            previous, at = offset_delta, end
    except IndexError:
        raise MalformedRecords(f"record {len(spans)} of the batch at offset {header[0]} is malformed") from None
    if at != len(payload):
        raise MalformedRecords(f"{len(payload) - at} bytes follow the records of the batch at offset {header[0]}")
    return spans


def with_records(
    header: HeaderTuple, payload: Buffer, spans: Sequence[RecordSpan], *, horizon_ms: int | None = None
) -> bytes:
    """Encode a batch with some of its records; a delete horizon becomes its base timestamp."""
    attributes, base_timestamp = header[5], header[7]
    view = memoryview(payload)
    latest = base_timestamp + max(each.timestamp_delta for each in spans)
    if horizon_ms is None:
        records = b"".join([view[each.start : each.end] for each in spans])
    else:
        shift = base_timestamp - horizon_ms
        records = b"".join([_shifted(view, each, shift) for each in spans])
        attributes, base_timestamp = attributes | DELETE_HORIZON, horizon_ms
    if attributes & LOG_APPEND_TIME:
        latest = header[8]
    packed = compress(attributes & CODEC_MASK, records)
    return _seal(header, attributes, base_timestamp, latest, len(spans), packed)


def emptied(header: HeaderTuple, *, keeps_producer: bool) -> bytes:
    """Return a batch without records, which keeps offsets and epoch, and optionally the producer's sequence."""
    if keeps_producer:
        attributes = header[5] & (TRANSACTIONAL | CONTROL)
        return _seal(header, attributes, NO_TIMESTAMP, NO_TIMESTAMP, 0, b"")
    anonymous = (*header[:9], NO_PRODUCER, -1, -1, 0)
    return _seal(anonymous, 0, NO_TIMESTAMP, NO_TIMESTAMP, 0, b"")


def _seal(
    header: HeaderTuple, attributes: int, base_timestamp: int, max_timestamp: int, count: int, payload: bytes
) -> bytes:
    sealed = _SEALED.pack(
        attributes, header[6], base_timestamp, max_timestamp, header[9], header[10], header[11], count
    )
    crc = crc32c(payload, crc32c(sealed))
    return _UNSEALED.pack(header[0], LENGTH_LEAST + len(payload), header[2], MAGIC, crc) + sealed + payload


def _shifted(view: memoryview, span: RecordSpan, shift: int) -> bytes:
    """Return a record with a shifted timestamp delta."""
    _, at = _varint(view, span.start)
    attributes = view[at : at + 1]
    _, rest = _varint(view, at + 1)
    timestamp_delta = _encoded(span.timestamp_delta + shift)
    body_size = 1 + len(timestamp_delta) + span.end - rest
    return b"".join((_encoded(body_size), attributes, timestamp_delta, view[rest : span.end]))


def _varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return a zigzag integer and the position after it; raise IndexError if it is malformed."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    raw, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at + 1
        shift += 7
        if shift > 63:
            raise IndexError


def _encoded(value: int) -> bytes:
    rest = value << 1 if value >= 0 else ~(value << 1)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
