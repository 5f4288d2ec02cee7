"""The four codecs of record batches, bounded.

`decompress` and `compress` run in one step, for tools, tests and internal work of this node. Data from clients
goes through unpacking.py and packing.py in small steps that do not block the event loop.
Refuses: InvalidRecord past the limit, CorruptMessage for garbage and cut-off streams,
UnsupportedCompressionType for an unknown codec.
"""

from typing import Final

from penstock.model.errors import UnsupportedCompressionType
from penstock.wire.codecs import GZIP, LZ4, NAMES, NONE, SNAPPY, XERIAL_MAGIC, ZSTD, Codec
from penstock.wire.packing import packer
from penstock.wire.unpacking import DECOMPRESSED_SIZE_MAX, unpack

__all__ = [
    "DECOMPRESSED_SIZE_MAX",
    "GZIP",
    "LZ4",
    "NAMES",
    "NONE",
    "SNAPPY",
    "ZSTD",
    "Buffer",
    "Codec",
    "check_codec_frame",
    "compress",
    "decompress",
]

Buffer = bytes | bytearray | memoryview

# The densest element of snappy, a copy of 64 bytes, takes three bytes.
_SNAPPY_RATIO_MAX: Final = 22
_MAGICS: Final = {GZIP: b"\x1f\x8b\x08", LZ4: b"\x04\x22\x4d\x18", ZSTD: b"\x28\xb5\x2f\xfd"}


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress in the framing that Kafka clients read; levels are the codec's, None is Kafka's default."""
    if codec == NONE:
        return bytes(data)
    stream = packer(codec, level)
    return stream.add(data) + stream.end()


def decompress(codec: int, data: Buffer, *, limit: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Decompress at most `limit` bytes."""
    parts: list[bytes] = []
    chunks = unpack(codec, memoryview(data), limit=limit)
    item = next(chunks, None)
    while item is not None:
        if callable(item):
            item = chunks.send(item())
            continue
        parts.append(item)
        item = next(chunks, None)
    return b"".join(parts)


def check_codec_frame(codec: int, payload: Buffer) -> bool:
    """Return whether a payload begins like a frame of its codec: a cheap check that catches plain garbage.

    Raw snappy has no magic; its announced size must be possible for the bytes that follow,
    and its first element must be a literal, since there is nothing to copy from yet.
    """
    if codec == NONE:
        return True
    if codec == SNAPPY:
        return bytes(payload[:8]) == XERIAL_MAGIC or _looks_like_raw_snappy(payload)
    magic = _MAGICS.get(codec)
    if magic is None:
        raise UnsupportedCompressionType(f"unknown compression codec {codec}")
    return bytes(payload[: len(magic)]) == magic


def _looks_like_raw_snappy(payload: Buffer) -> bool:
    size = 0
    for index, byte in enumerate(bytes(payload[:5])):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            follows = len(payload) - index - 1
            if size == 0 or follows == 0:
                return size == follows
            tag = payload[index + 1]
            # A literal of more than 60 bytes has its size in the bytes behind the tag.
            literal_size = 0 if tag >= 60 << 2 else (tag >> 2) + 1
            return tag & 3 == 0 and size <= _SNAPPY_RATIO_MAX * follows and literal_size <= min(size, follows - 1)
    return False
