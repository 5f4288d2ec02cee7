"""Decompression in small steps: at most one chunk of output, and one piece of input, between two yields.

`unpack` is a generator of chunks, which are bytes and may be empty. A raw snappy block cannot be decompressed in
parts; a large one is yielded as a function to run off the event loop (model/job.py), whose result is sent back.
Refuses: InvalidRecord past the limit, CorruptMessage for garbage and cut-off streams,
UnsupportedCompressionType for an unknown codec.
"""

import sys
import zlib
from collections.abc import Callable, Generator
from functools import partial
from struct import Struct
from typing import Any, Final

import cramjam
import lz4.frame  # type: ignore[import-untyped]

from penstock.model.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from penstock.model.job import Job
from penstock.wire.codecs import GZIP, LZ4, NONE, SNAPPY, XERIAL_HEADER_SIZE, XERIAL_MAGIC, ZSTD

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DECOMPRESSED_SIZE_MAX: Final = 64 * 1024 * 1024
CHUNK_SIZE: Final = 16 * 1024
"""The most output of a step. The smallest records have seven bytes: Python scans this many bytes in a millisecond."""
_PIECE_SIZE: Final = 64 * 1024
# Kafka reads windows up to 128 MiB, and its producers write them at zstd level 22. The
# decoder reserves the window but touches only what it fills, which the limit bounds.
_ZSTD_OPTIONS: Final[dict[int, int]] = {zstd.DecompressionParameter.window_log_max: 27}
_GZIP_WINDOW_BITS: Final = 31
# Producers write one frame. Each further one costs a decoder.
_FRAME_COUNT_MAX: Final = 64
# The densest element of snappy, a copy of 64 bytes, takes three bytes.
_SNAPPY_RATIO_MAX: Final = 22
# The slowest elements take 17 ns for each byte of the block: two milliseconds for a block of this size.
_SNAPPY_INLINE_MAX: Final = 128 * 1024
_BASE_MEMORY: Final = 1024 * 1024
_INT32: Final = Struct(">i")

Chunks = Generator[bytes | Callable[[], Any], Any, None]


def unpack(codec: int, payload: memoryview, *, limit: int = DECOMPRESSED_SIZE_MAX) -> Chunks:
    """Decompress at most `limit` bytes, chunk by chunk."""
    if codec == NONE:
        return _pass(payload, limit)
    if codec == GZIP:
        return _gunzip(payload, limit)
    if codec == SNAPPY:
        return _unpack_snappy(payload, limit)
    if codec == LZ4:
        return _decompress_frames(lz4.frame.LZ4FrameDecompressor, payload, limit)
    if codec == ZSTD:
        return _decompress_frames(lambda: zstd.ZstdDecompressor(options=_ZSTD_OPTIONS), payload, limit)
    raise UnsupportedCompressionType(f"unknown compression codec {codec}")


def pull(chunks: Chunks) -> Job[bytes | None]:
    """Return the next chunk, for a job; None at the end."""
    item = next(chunks, None)
    while callable(item):
        item = chunks.send((yield item))
    return item


def memory_needed(codec: int, payload: memoryview, *, limit: int = DECOMPRESSED_SIZE_MAX) -> int:
    """Return the most bytes of memory that decompressing a payload needs, according to its header."""
    if codec == ZSTD:
        return min(_zstd_window(payload), limit) + _BASE_MEMORY
    if codec == SNAPPY and len(payload) > _SNAPPY_INLINE_MAX:
        return min(_SNAPPY_RATIO_MAX * len(payload), limit) + _BASE_MEMORY
    return _BASE_MEMORY


def _zstd_window(payload: memoryview) -> int:
    """Return the window of the first frame, or the largest possible window if it cannot be read."""
    if len(payload) < 6:
        return DECOMPRESSED_SIZE_MAX
    descriptor = payload[4]
    if descriptor & 0x20:  # A single segment: the window is the content.
        return DECOMPRESSED_SIZE_MAX if descriptor >> 6 else payload[5]
    exponent, mantissa = payload[5] >> 3, payload[5] & 7
    return (1 << (10 + exponent)) * (8 + mantissa) // 8


def _too_large(limit: int) -> InvalidRecord:
    return InvalidRecord(f"the records decompress to more than {limit} bytes")


def _too_many_frames() -> InvalidRecord:
    return InvalidRecord(f"the records are split into more than {_FRAME_COUNT_MAX} compressed frames")


def _pass(payload: memoryview, limit: int) -> Chunks:
    if len(payload) > limit:
        raise _too_large(limit)
    for start in range(0, len(payload), CHUNK_SIZE):
        yield bytes(payload[start : start + CHUNK_SIZE])


class _Gzip:
    """A gzip stream in the shape of Python's other decompressors."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        self._has_more = False

    def decompress(self, data: bytes, max_length: int) -> bytes:
        stream = self._stream
        try:
            chunk = stream.decompress(stream.unconsumed_tail + data, max_length)
        except zlib.error as error:
            raise CorruptMessage(f"the gzip stream is damaged: {error}") from None
        # Without input left there may still be output that did not fit.
        self._has_more = bool(stream.unconsumed_tail) or len(chunk) == max_length
        return chunk

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._has_more


def _gunzip(payload: memoryview, limit: int) -> Chunks:
    return _decompress_frames(_Gzip, payload, limit)


def _decompress_frames(open_frame: Callable[[], Any], payload: memoryview, limit: int) -> Chunks:
    """Decompress frame after frame with a decompressor that has the interface of Python's own."""
    size = position = 0
    frame_count = 1
    frame = open_frame()
    piece = b""
    while True:
        if not piece and frame.needs_input:
            if position >= len(payload):
                raise CorruptMessage("the compressed records are cut short")
            piece = bytes(payload[position : position + _PIECE_SIZE])
            position += len(piece)
        try:
            chunk = frame.decompress(piece, max_length=CHUNK_SIZE)
        except (RuntimeError, EOFError, MemoryError, zstd.ZstdError) as error:
            raise CorruptMessage(f"the compressed records are damaged: {error}") from None
        if not (chunk or piece or frame.eof or frame.needs_input):
            raise CorruptMessage("the compressed records are cut short")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        piece = b""
        if frame.eof:
            piece = frame.unused_data or b""
            if not piece and position >= len(payload):
                yield chunk
                return
            if frame_count == _FRAME_COUNT_MAX:
                raise _too_many_frames()
            frame = open_frame()
            frame_count += 1
        yield chunk


def _unpack_snappy(data: memoryview, limit: int) -> Chunks:
    if bytes(data[:8]) != XERIAL_MAGIC:
        yield from _unpack_snappy_block(data, 0, limit)
        return
    size = 0
    position = XERIAL_HEADER_SIZE
    while position < len(data):
        # Streams may be concatenated, each with its own header.
        if bytes(data[position : position + 8]) == XERIAL_MAGIC:
            position += XERIAL_HEADER_SIZE
            yield b""
            continue
        if len(data) - position < 4:
            raise CorruptMessage("the snappy stream is cut short")
        block_size = _INT32.unpack_from(data, position)[0]
        position += 4
        if not 0 < block_size <= len(data) - position:
            raise CorruptMessage(f"a snappy block claims {block_size} bytes but only {len(data) - position} are left")
        size = yield from _unpack_snappy_block(data[position : position + block_size], size, limit)
        position += block_size
    if position != len(data):
        raise CorruptMessage("the snappy stream is cut short")


def _unpack_snappy_block(
    block: memoryview, size_before: int, limit: int
) -> Generator[bytes | Callable[[], Any], Any, int]:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _SNAPPY_RATIO_MAX * len(block):
            raise CorruptMessage(f"{len(block)} bytes of snappy cannot decompress to {size} bytes")
        if size_before + size > limit:
            raise _too_large(limit)
        if len(block) <= _SNAPPY_INLINE_MAX:
            content = cramjam.snappy.decompress_raw(block)
        else:
            content = yield partial(cramjam.snappy.decompress_raw, block)
    except cramjam.DecompressionError as error:
        raise CorruptMessage(f"the snappy stream is damaged: {error}") from None
    view = memoryview(content)
    for start in range(0, max(len(view), 1), CHUNK_SIZE):
        yield bytes(view[start : start + CHUNK_SIZE])
    return size_before + size
