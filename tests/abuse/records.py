"""Record batches: ordinary ones of a given size, and decompression bombs."""

from __future__ import annotations

import gzip
import struct
import sys
import time
from random import Random

import cramjam
import lz4.frame  # type: ignore[import-untyped]
from crc32c import crc32c

from tests.differential.batches import Batch, record, varint

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
TWO_HOURS_MS = 2 * 60 * 60 * 1000
_CRC_AT, _SEALED_AT, _LENGTH_AT = 17, 21, 8


def now_ms() -> int:
    return int(time.time() * 1000)


def plain(size: int, random: Random) -> bytes:
    """Return an uncompressed batch of one record with this many random bytes."""
    now = now_ms()
    return Batch(records=(record(0, value=random.randbytes(size)),), base_timestamp=now).encode()


def crc_of(batch: bytes) -> int:
    """Return the checksum in a batch's header: it identifies the batch, since a broker does not change these bytes."""
    return int(struct.unpack_from(">I", batch, _CRC_AT)[0])


def split(data: bytes) -> list[tuple[int, int, bool]]:
    """Yield base offset, checksum and whether it is valid, of each complete batch."""
    found = []
    at = 0
    while at + _SEALED_AT <= len(data):
        base_offset, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        crc = crc_of(data[at : at + _SEALED_AT])
        found.append((base_offset, crc, crc32c(data[at + _SEALED_AT : end]) == crc))
        at = end
    return found


def bomb(codec: str, size: int, *, ahead_ms: int = TWO_HOURS_MS) -> bytes:
    """Return a batch with one record of `size` zeros and a timestamp so far ahead that a broker decompresses it."""
    return _sealed(codec, record(0, value=bytes(size)), count=1, ahead_ms=ahead_ms)


def crowd(codec: str, count: int, *, ahead_ms: int = TWO_HOURS_MS) -> bytes:
    """Return a batch of this many records, each of the minimum size with a key."""
    parts = []
    for index in range(count):
        # Attributes and time; then the offset; then a key of one byte, an empty value and no headers.
        body = b"\0\0" + varint(index) + b"\2k\0\0"
        parts.append(bytes((2 * len(body),)) + body)
    return _sealed(codec, b"".join(parts), count=count, ahead_ms=ahead_ms)


def _sealed(codec: str, payload: bytes, *, count: int, ahead_ms: int) -> bytes:
    then = now_ms() + ahead_ms
    return Batch(
        payload=_compressed(codec, payload), attributes=CODECS[codec], count=count, last_offset_delta=count - 1,
        base_timestamp=then, max_timestamp=then,
    ).encode()  # fmt: skip


def _compressed(codec: str, payload: bytes) -> bytes:
    if codec == "gzip":
        return gzip.compress(payload, mtime=0)
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(payload))
    if codec == "lz4":
        return bytes(lz4.frame.compress(payload, block_linked=False, store_size=False))
    return bytes(zstd.compress(payload, level=3))
