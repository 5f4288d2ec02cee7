"""Record batches for requests, valid and invalid, and summaries of those in responses.

Independent of the broker's codec, so that a mistake there is not repeated here.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c

START = 1_700_000_000_000
"""The CreateTime of the first record of a batch, unless a scenario sets another."""

_HEAD = struct.Struct(">qiib")
_SEALED = struct.Struct(">hiqqqhii")


def varint(number: int) -> bytes:
    """Encode a zigzag varint."""
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sized(text: bytes | None) -> bytes:
    return varint(-1) if text is None else varint(len(text)) + text


def record(
    index: int,
    *,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    time_delta: int = 0,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
) -> bytes:
    """Encode one record of a batch."""
    parts = [b"\0", varint(time_delta), varint(index)]
    parts += [_sized(key), _sized(value), varint(len(headers))]
    for name, text in headers:
        parts += [_sized(name), _sized(text)]
    body = b"".join(parts)
    return varint(len(body)) + body


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A record batch whose fields can all be set to wrong values. `None` means the correct value."""

    records: tuple[bytes, ...] = (record(0),)
    base_offset: int = 0
    length: int | None = None
    leader_epoch: int = -1
    magic: int = 2
    crc: int | None = None
    attributes: int = 0
    last_offset_delta: int | None = None
    base_timestamp: int = START
    max_timestamp: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int | None = None
    payload: bytes | None = None

    def encode(self) -> bytes:
        payload = b"".join(self.records) if self.payload is None else self.payload
        count = len(self.records) if self.count is None else self.count
        delta = len(self.records) - 1 if self.last_offset_delta is None else self.last_offset_delta
        last = self.base_timestamp if self.max_timestamp is None else self.max_timestamp
        sealed = _SEALED.pack(
            self.attributes, delta, self.base_timestamp, last,
            self.producer_id, self.producer_epoch, self.base_sequence, count,
        )  # fmt: skip
        sealed += payload
        crc = crc32c(sealed) if self.crc is None else self.crc
        length = len(sealed) + 9 if self.length is None else self.length
        return _HEAD.pack(self.base_offset, length, self.leader_epoch, self.magic) + struct.pack(">I", crc) + sealed


def batch(count: int = 1, *, value_size: int = 10, **fields: Any) -> bytes:
    """Return a valid batch of `count` records, one second apart."""
    records = tuple(record(n, value=b"%d" % n * value_size, time_delta=n * 1000) for n in range(count))
    return Batch(records=records, max_timestamp=START + (count - 1) * 1000, **fields).encode()


def gzipped(count: int = 3) -> bytes:
    """Return a valid batch compressed with gzip."""
    records = tuple(record(n) for n in range(count))
    return Batch(records=records, attributes=1, payload=gzip.compress(b"".join(records), mtime=0)).encode()


def summarise(data: bytes) -> list[dict[str, Any]]:
    """Summarize the records of a response, batch by batch, with a digest of the records."""
    found: list[dict[str, Any]] = []
    at = 0
    while at + 61 <= len(data):
        base_offset, length, leader_epoch, magic = _HEAD.unpack_from(data, at)
        (crc,) = struct.unpack_from(">I", data, at + 17)
        sealed = data[at + 21 : at + 12 + length]
        attributes, delta, _, last, producer_id, epoch, sequence, count = _SEALED.unpack_from(data, at + 21)
        found.append(
            {
                "base_offset": base_offset,
                "size": length + 12,
                "whole": len(sealed) == length - 9,
                "leader_epoch": leader_epoch,
                "magic": magic,
                "attributes": attributes,
                "last_offset_delta": delta,
                "max_timestamp": last,
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "base_sequence": sequence,
                "count": count,
                "crc_good": crc32c(sealed) == crc,
                "digest": hashlib.sha256(sealed[_SEALED.size :]).hexdigest()[:12],
            }
        )
        at += 12 + length
    if at < len(data):
        found.append({"bytes_left_over": len(data) - at})
    return found
