"""Encoding of single records in plain Python, for the decision log, which has one record per batch of a query.

Imports neither numpy nor Arrow, so that the driver's short-lived processes start quickly.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from crc32c import crc32c

from penstock_client.records.batches import CONTROL, scan

_SEALED: Final = Struct(">hiqqqhii")
_UNSEALED: Final = Struct(">qiibI")


def _varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode_one(key: bytes, value: bytes, timestamp: int) -> bytes:
    """Return a batch of one record without a producer id."""
    body = b"\x00\x00\x00" + _varint(len(key)) + key + _varint(len(value)) + value + b"\x00"
    payload = _varint(len(body)) + body
    sealed = _SEALED.pack(0, 0, timestamp, timestamp, -1, -1, -1, 1)
    crc = crc32c(payload, crc32c(sealed))
    return _UNSEALED.pack(0, 49 + len(payload), -1, 2, crc) + sealed + payload


def decode_all(data: memoryview, start: int, end: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Yield (offset, key, value) of records in uncompressed batches; a control batch yields only its last offset."""
    for batch in scan(data, start, end):
        position = batch.start
        if batch.attributes & CONTROL or batch.codec:
            yield batch.last_offset, None, None
            continue
        for _ in range(batch.record_count):
            size, position = _read_varint(data, position)
            after = position + size
            _, position = _read_varint(data, position + 1)
            delta, position = _read_varint(data, position)
            key, position = _read_bytes(data, position)
            value, position = _read_bytes(data, position)
            position = after
            yield batch.base_offset + delta, key, value


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


def _read_bytes(data: memoryview, position: int) -> tuple[bytes | None, int]:
    size, position = _read_varint(data, position)
    if size < 0:
        return None, position
    return bytes(data[position : position + size]), position + size
