"""The four codecs of record batches, with a limit on the decompressed size.

Raises Corrupt for invalid data, for an unknown codec, and above the limit, to protect the executor's memory.
"""

from __future__ import annotations

import sys
import zlib
from struct import Struct
from typing import Final

import cramjam
import lz4.frame  # type: ignore[import-untyped]

from penstock_client.errors import Corrupt

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Buffer = bytes | bytearray | memoryview

SIZE_MAX: Final = 256 * 1024 * 1024
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK: Final = 32 * 1024
_INT32: Final = Struct(">i")
# Kafka's producers use windows of up to 128 MiB.
_ZSTD_OPTIONS: Final[dict[int, int]] = {zstd.DecompressionParameter.window_log_max: 27}


def compress(codec: int, data: Buffer) -> Buffer:
    """Compress in the framing that Kafka clients expect."""
    if codec == 0:
        return data
    if codec == 1:
        packer = zlib.compressobj(wbits=31)
        return packer.compress(data) + packer.flush()
    if codec == 2:
        view = memoryview(data)
        parts = [_XERIAL_HEADER]
        for start in range(0, len(view), _XERIAL_BLOCK):
            block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
            parts += (_INT32.pack(len(block)), block)
        return b"".join(parts)
    if codec == 3:
        # Java readers reject linked blocks.
        return bytes(lz4.frame.compress(data, block_linked=False, store_size=False))
    assert codec == 4, f"codec {codec} passed the check of the options"
    return bytes(zstd.compress(data, level=3))


def decompress(codec: int, data: Buffer) -> Buffer:
    try:
        if codec == 1:
            return _gunzip(data)
        if codec == 2:
            return _unsnappy(memoryview(data))
        if codec == 3:
            # lz4 expands a byte to at most 255, so a batch of the size that brokers accept can be checked afterwards.
            plain = bytes(cramjam.lz4.decompress(data))
            _checked(len(plain))
            return plain
        if codec == 4:
            return _unzstd(data)
    except (zlib.error, cramjam.DecompressionError, zstd.ZstdError, RuntimeError, EOFError) as error:
        raise Corrupt(f"the compressed records are corrupt: {error}") from None
    raise Corrupt(f"unknown compression codec {codec}")


def _checked(size: int) -> None:
    if size > SIZE_MAX:
        raise Corrupt(f"a batch decompresses to more than {SIZE_MAX} bytes")


def _gunzip(data: Buffer) -> bytes:
    parts: list[bytes] = []
    size = 0
    while data:
        unpacker = zlib.decompressobj(wbits=31)
        part = unpacker.decompress(data, SIZE_MAX - size + 1)
        size += len(part)
        _checked(size)
        if not unpacker.eof:
            raise Corrupt("the gzip stream is truncated")
        parts.append(part)
        data = unpacker.unused_data
    return b"".join(parts)


def _unzstd(data: Buffer) -> bytes:
    parts: list[bytes] = []
    size = 0
    while data:
        unpacker = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
        part = unpacker.decompress(data, max_length=SIZE_MAX - size + 1)
        size += len(part)
        _checked(size)
        if not unpacker.eof:
            raise Corrupt("the zstd stream is truncated")
        parts.append(part)
        data = unpacker.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnappy(data: memoryview) -> bytes:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        _checked(cramjam.snappy.decompress_raw_len(data))
        return bytes(cramjam.snappy.decompress_raw(data))
    parts: list[bytes] = []
    size, position = 0, len(_XERIAL_HEADER)
    while position < len(data):
        if bytes(data[position : position + 8]) == _XERIAL_MAGIC:  # concatenated streams
            position += len(_XERIAL_HEADER)
            continue
        if len(data) - position < 4:
            raise Corrupt("the snappy stream is truncated")
        (block_size,) = _INT32.unpack_from(data, position)
        position += 4
        block = data[position : position + block_size]
        if block_size <= 0 or len(block) != block_size:
            raise Corrupt("the snappy stream is truncated")
        size += cramjam.snappy.decompress_raw_len(block)
        _checked(size)
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        position += block_size
    return b"".join(parts)
