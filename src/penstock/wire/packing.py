"""Compression in steps, in the framing that Kafka clients read.

A packer accepts data with `add` and returns the rest of its output with `end`. Its calls run C code that
releases the interpreter lock, so that a job can run them off the event loop (`is_quick`).
Refuses: UnsupportedCompressionType for an unknown codec.
"""

import sys
import zlib
from struct import Struct
from typing import Any, Final, Protocol

import cramjam
import lz4.frame  # type: ignore[import-untyped]

from penstock.model.errors import UnsupportedCompressionType
from penstock.wire.codecs import GZIP, LZ4, NONE, SNAPPY, XERIAL_HEADER, ZSTD

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Buffer = bytes | bytearray | memoryview

_GZIP_WINDOW_BITS: Final = 31
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_INT32: Final = Struct(">i")
_QUICK_SIZE_MAX: Final = 16 * 1024
_QUICK_LEVELS: Final = {NONE: 0, GZIP: 6, SNAPPY: 0, LZ4: 9, ZSTD: 6}


class Packer(Protocol):
    def add(self, data: Buffer) -> bytes:
        """Add data; return the output that is ready."""
        ...

    def end(self) -> bytes:
        """Return the rest of the output."""
        ...


def packer(codec: int, level: int | None = None) -> Packer:
    """Return a packer for one stream; levels are the codec's, None is Kafka's default."""
    if codec == NONE:
        return _Plain()
    if codec == GZIP:
        return _Flushed(zlib.compressobj(-1 if level is None else level, wbits=_GZIP_WINDOW_BITS))
    if codec == SNAPPY:
        return _Xerial()
    if codec == LZ4:
        return _Lz4(level)
    if codec == ZSTD:
        return _Flushed(zstd.ZstdCompressor(level=3 if level is None else level))
    raise UnsupportedCompressionType(f"unknown compression codec {codec}")


def is_quick(codec: int, level: int | None, size: int) -> bool:
    """Return whether compressing this many bytes takes about a millisecond at most."""
    return size <= _QUICK_SIZE_MAX and (level is None or level <= _QUICK_LEVELS[codec])


class _Plain:
    def add(self, data: Buffer) -> bytes:
        return bytes(data)

    def end(self) -> bytes:
        return b""


class _Flushed:
    """Compressor of zlib or zstd, which share an interface."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def add(self, data: Buffer) -> bytes:
        return bytes(self._stream.compress(data))

    def end(self) -> bytes:
        return bytes(self._stream.flush())


class _Lz4:
    """Compressor of LZ4 frames that Java clients can read: blocks are not linked, as they reject linked ones.

    Like Kafka's writer it sets neither size nor checksum. Kafka's default level, 9, means the fast compressor; only
    other levels mean the slow one.
    """

    def __init__(self, level: int | None) -> None:
        self._stream = lz4.frame.LZ4FrameCompressor(
            compression_level=0 if level is None or level == 9 else min(max(level, 3), 12),
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
        )
        self._has_begun = False

    def _begin(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        return bytes(self._stream.begin())

    def add(self, data: Buffer) -> bytes:
        return self._begin() + bytes(self._stream.compress(data))

    def end(self) -> bytes:
        return self._begin() + bytes(self._stream.flush())


class _Xerial:
    def __init__(self) -> None:
        self._kept = bytearray()
        self._has_begun = False

    def add(self, data: Buffer) -> bytes:
        self._kept += data
        whole = len(self._kept) // _XERIAL_BLOCK_SIZE * _XERIAL_BLOCK_SIZE
        packed = self._pack(self._kept[:whole])
        del self._kept[:whole]
        return packed

    def end(self) -> bytes:
        return self._pack(self._kept)

    def _pack(self, data: bytearray) -> bytes:
        parts = [] if self._has_begun else [XERIAL_HEADER]
        self._has_begun = True
        for start in range(0, len(data), _XERIAL_BLOCK_SIZE):
            block = bytes(cramjam.snappy.compress_raw(bytes(data[start : start + _XERIAL_BLOCK_SIZE])))
            parts.append(_INT32.pack(len(block)))
            parts.append(block)
        return b"".join(parts)
