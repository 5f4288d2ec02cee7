"""The four codecs of record batches, bounded.

Decompression stops as soon as the output passes a limit, so a small batch cannot make the
broker hold or compute more than that. It may still take milliseconds: callers with an
event loop to keep run it in a thread (every library here lets go of the interpreter lock).
Refuses: InvalidRecord past the limit, CorruptMessage for garbage and cut-off streams,
UnsupportedCompressionType for an unknown codec.
"""

import sys
import zlib
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

import cramjam
import lz4.frame  # type: ignore[import-untyped]

from penstock.model.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Buffer = bytes | bytearray | memoryview


NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
NAMES: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


class Codec:
    """The codec ids in the lowest three bits of a batch's attributes, under one name."""

    NONE: Final = NONE
    GZIP: Final = GZIP
    SNAPPY: Final = SNAPPY
    LZ4: Final = LZ4
    ZSTD: Final = ZSTD


DECOMPRESSED_SIZE_MAX: Final = 64 * 1024 * 1024

# Kafka reads windows up to 128 MiB, and its producers write them at zstd level 22. The
# decoder reserves the window but touches only what it fills, which the limit bounds.
_ZSTD_OPTIONS: Final[dict[int, int]] = {zstd.DecompressionParameter.window_log_max: 27}
_GZIP_WINDOW_BITS: Final = 31
# Output is drawn in steps because the lz4 reader reserves a whole step at once.
_STEP_SIZE: Final = 1024 * 1024
# Producers write one frame. Each further one copies the rest of the input, so thousands of
# empty frames would cost the square of the batch's size.
_FRAME_COUNT_MAX: Final = 64

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
# The densest element of snappy, a copy of 64 bytes, takes three bytes.
_SNAPPY_RATIO_MAX: Final = 22
_INT32: Final = Struct(">i")

_MAGICS: Final = {GZIP: b"\x1f\x8b\x08", LZ4: b"\x04\x22\x4d\x18", ZSTD: b"\x28\xb5\x2f\xfd"}


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress in the framing that Kafka clients read. Levels are the codec's own; None is Kafka's default."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        packer = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_WINDOW_BITS)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:
        return _compress_xerial(data)
    if codec == LZ4:
        return _compress_lz4(data, level)
    if codec == ZSTD:
        return bytes(zstd.compress(data, level=3 if level is None else level))
    raise UnsupportedCompressionType(f"there is no compression codec {codec}")


def decompress(codec: int, data: Buffer, *, limit: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Decompress at most `limit` bytes."""
    if codec == NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return bytes(data)
    if codec == GZIP:
        return _gunzip(data, limit)
    if codec == SNAPPY:
        return _decompress_snappy(memoryview(data), limit)
    if codec == LZ4:
        return _draw(lz4.frame.LZ4FrameDecompressor, data, limit)
    if codec == ZSTD:
        return _draw(lambda: zstd.ZstdDecompressor(options=_ZSTD_OPTIONS), data, limit)
    raise UnsupportedCompressionType(f"there is no compression codec {codec}")


def check_codec_frame(codec: int, payload: Buffer) -> bool:
    """Whether a payload begins as its codec's frames do: a cheap look that catches plain garbage.

    Raw snappy has no magic; its announced size must be possible for the bytes that follow,
    and its first element must be a literal, since there is nothing to copy from yet.
    """
    if codec == NONE:
        return True
    if codec == SNAPPY:
        return bytes(payload[:8]) == _XERIAL_MAGIC or _looks_like_raw_snappy(payload)
    magic = _MAGICS.get(codec)
    if magic is None:
        raise UnsupportedCompressionType(f"there is no compression codec {codec}")
    return bytes(payload[: len(magic)]) == magic


def _too_large(limit: int) -> InvalidRecord:
    return InvalidRecord(f"the records decompress to more than {limit} bytes")


def _too_many_frames() -> InvalidRecord:
    return InvalidRecord(f"the records are split into more than {_FRAME_COUNT_MAX} compressed frames")


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    # Kafka's default level, 9, means the fast compressor; only other levels mean the slow one.
    # Java readers refuse linked blocks, and Kafka's own writer sets neither size nor checksum.
    return bytes(
        lz4.frame.compress(
            data,
            compression_level=0 if level is None or level == 9 else min(max(level, 3), 12),
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
    )


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _gunzip(data: Buffer, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    for _ in range(_FRAME_COUNT_MAX):
        unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        try:
            part = unpacker.decompress(data, limit - size + 1)
        except zlib.error as error:
            raise CorruptMessage(f"the gzip stream is damaged: {error}") from None
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        if not unpacker.eof:
            raise CorruptMessage("the gzip stream is cut short")
        parts.append(part)
        data = unpacker.unused_data
        if not data:
            return b"".join(parts)
    raise _too_many_frames()


def _draw(open_frame: Callable[[], Any], data: Buffer, limit: int) -> bytes:
    """Read frame after frame through a decompressor of the shape that Python's own have."""
    parts: list[bytes] = []
    size = frame_count = 0
    frame = open_frame()
    while frame_count < _FRAME_COUNT_MAX:
        try:
            part = frame.decompress(data, max_length=min(_STEP_SIZE, limit - size + 1))
        except (RuntimeError, EOFError, MemoryError, zstd.ZstdError) as error:
            raise CorruptMessage(f"the compressed records are damaged: {error}") from None
        parts.append(part)
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        data = b""
        if frame.eof:
            data = frame.unused_data or b""
            if not data:
                return b"".join(parts)
            frame = open_frame()
            frame_count += 1
        elif frame.needs_input or not part:
            raise CorruptMessage("the compressed records are cut short")
    raise _too_many_frames()


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _decompress_raw_snappy(data, 0, limit)
    parts: list[bytes] = []
    size = 0
    position = len(_XERIAL_HEADER)
    while position < len(data):
        # Streams may be joined end to end, each with its own header.
        if bytes(data[position : position + 8]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        if len(data) - position < 4:
            raise CorruptMessage("the snappy stream is cut short")
        block_size = _INT32.unpack_from(data, position)[0]
        position += 4
        if not 0 < block_size <= len(data) - position:
            raise CorruptMessage(f"a snappy block claims {block_size} bytes and {len(data) - position} are there")
        part = _decompress_raw_snappy(data[position : position + block_size], size, limit)
        parts.append(part)
        size += len(part)
        position += block_size
    if position != len(data):
        raise CorruptMessage("the snappy stream is cut short")
    return b"".join(parts)


def _decompress_raw_snappy(block: memoryview, size_before: int, limit: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _SNAPPY_RATIO_MAX * len(block):
            raise CorruptMessage(f"{len(block)} bytes of snappy cannot hold the {size} that they announce")
        if size_before + size > limit:
            raise _too_large(limit)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptMessage(f"the snappy stream is damaged: {error}") from None


def _looks_like_raw_snappy(payload: Buffer) -> bool:
    size = 0
    for index, byte in enumerate(bytes(payload[:5])):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            follows = len(payload) - index - 1
            if size == 0 or follows == 0:
                return size == follows
            tag = payload[index + 1]
            # Literals of more than 60 bytes have their size in the bytes behind the tag.
            literal_size = 0 if tag >= 60 << 2 else (tag >> 2) + 1
            return tag & 3 == 0 and size <= _SNAPPY_RATIO_MAX * follows and literal_size <= min(size, follows - 1)
    return False
