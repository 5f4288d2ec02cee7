"""Decoding of batches into columns: numpy arrays of positions and numbers, then Arrow arrays.

`decode` decodes the records of all visible batches together, so that its cost is per row and not per batch. Values
are shared with the buffer or copied once. Calls walk.py for record positions, and compression.py. Raises Corrupt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_client.errors import Corrupt
from penstock_client.protocol.connection import PAD
from penstock_client.records.batches import LOG_APPEND_TIME, Batch
from penstock_client.records.compression import decompress
from penstock_client.records.walk import Int64s, record_starts

_U64 = np.uint64


def _short_numbers() -> tuple[Int64s, Int64s]:
    """Return tables indexed by two bytes (low byte first): the zigzag number they start, and its size (0: longer)."""
    low = np.arange(65536, dtype=np.int32) & 0xFF
    high = np.arange(65536, dtype=np.int32) >> 8
    plain = np.where(low < 0x80, low, (low & 0x7F) | (high << 7))
    size = np.where(low < 0x80, 1, np.where(high < 0x80, 2, 0)).astype(np.int64)
    return ((plain >> 1) ^ -(plain & 1)).astype(np.int64), size


_NUMBERS, _SIZES = _short_numbers()


@dataclass(slots=True)
class Records:
    """The records of some batches: the positions of their fields in `data`. A length of -1 is null."""

    data: bytes | bytearray
    offsets: Int64s
    timestamps: Int64s
    timestamp_types: npt.NDArray[np.int32]
    key_at: Int64s
    key_size: Int64s
    value_at: Int64s
    value_size: Int64s
    headers_at: Int64s
    header_count: Int64s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    def select(self, rows: npt.NDArray[Any] | slice) -> Records:
        return Records(
            self.data,
            *(
                getattr(self, name)[rows]
                for name in (
                    "offsets", "timestamps", "timestamp_types", "key_at", "key_size", "value_at", "value_size",
                    "headers_at", "header_count", "ends",
                )
            ),
        )  # fmt: skip

    def keys(self) -> pa.Array:
        return _binary(self.data, self.key_at, self.key_size)

    def values(self) -> pa.Array:
        return _binary(self.data, self.value_at, self.value_size)


def decode(data: bytearray, batches: Sequence[Batch]) -> Records:
    """Decode the records of batches that `scan` found in `data`, which is padded by PAD bytes."""
    plain, placed = _uncompressed(data, batches)
    starts = record_starts(plain, placed)
    counts = np.array([batch.record_count for batch in placed], dtype=np.int64)
    view = _View(plain)
    size, body = view.varints(starts)
    ends = body + size
    stamp_delta, position = view.varints(body + 1)
    offset_delta, position = view.varints(position)
    key_size, key_at = view.varints(position)
    value_size, value_at = view.varints(key_at + np.maximum(key_size, 0))
    header_count, headers_at = view.varints(value_at + np.maximum(value_size, 0))
    if ((headers_at != ends) & (header_count == 0)).any() or (headers_at > ends).any() or (header_count < 0).any():
        raise Corrupt(f"a record near offset {placed[0].base_offset if placed else 0} does not fill its length")
    offsets = np.repeat(np.array([batch.base_offset for batch in placed], dtype=np.int64), counts) + offset_delta
    stamps, types = _timestamps(placed, counts, stamp_delta)
    return Records(
        plain, offsets, stamps, types, key_at, key_size, value_at, value_size, headers_at, header_count, ends
    )


def _uncompressed(data: bytearray, batches: Sequence[Batch]) -> tuple[bytes | bytearray, Sequence[Batch]]:
    """Return the same buffer if nothing is compressed, else a new one with all decompressed payloads."""
    if not any(batch.attributes & 7 for batch in batches):
        return data, batches
    view = memoryview(data)
    parts: list[bytes | bytearray | memoryview] = []
    placed = []
    position = 0
    for batch in batches:
        payload: bytes | bytearray | memoryview = view[batch.start : batch.end]
        # Compaction may leave a batch without records, which has no compressed frame.
        if batch.codec and len(payload):
            payload = decompress(batch.codec, payload)
        parts.append(payload)
        placed.append(batch._replace(start=position, end=position + len(payload)))
        position += len(payload)
    parts.append(bytes(PAD))
    return b"".join(parts), placed


def _timestamps(batches: Sequence[Batch], counts: Int64s, deltas: Int64s) -> tuple[Int64s, npt.NDArray[np.int32]]:
    by_append = [bool(batch.attributes & LOG_APPEND_TIME) for batch in batches]
    base = np.repeat(np.array([batch.base_timestamp for batch in batches], dtype=np.int64), counts) + deltas
    if not any(by_append):
        return base, np.zeros(len(base), dtype=np.int32)
    types = np.repeat(np.array(by_append, dtype=np.int32), counts)
    latest = np.repeat(np.array([batch.max_timestamp for batch in batches], dtype=np.int64), counts)
    return np.where(types == 1, latest, base), types


class _View:
    """A reader of variable-length numbers at many positions at the same time."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._bytes = np.frombuffer(data, np.uint8)
        self._pairs = np.ndarray((max(0, len(data) - 1),), "<u2", data, strides=(1,))
        self._words = np.ndarray((max(0, len(data) - 7),), "<u8", data, strides=(1,))

    def varints(self, at: Int64s) -> tuple[Int64s, Int64s]:
        """Return the zigzag numbers at these positions, and the positions after them."""
        try:
            pair = self._pairs[at]
            size = _SIZES.take(pair)
            if size.all():
                return _NUMBERS.take(pair), at + size
            word = self._words[at]
        except IndexError:
            raise Corrupt("a record reaches past the end of its batch") from None
        stop = ~word & _U64(0x8080808080808080)
        if not stop.all():
            return self._long_varints(at)
        lowest = stop & (_U64(0) - stop)
        mask = lowest | (lowest - _U64(1))
        word &= mask
        # Remove the marker bits: combine 7 bits of each byte, then 14 of each pair, then 28 of each four.
        word = (word & _U64(0x007F007F007F007F)) | ((word & _U64(0x7F007F007F007F00)) >> _U64(1))
        word = (word & _U64(0x00003FFF00003FFF)) | ((word & _U64(0x3FFF00003FFF0000)) >> _U64(2))
        word = (word & _U64(0x000000000FFFFFFF)) | ((word & _U64(0x0FFFFFFF00000000)) >> _U64(4))
        number = (word >> _U64(1)).astype(np.int64) ^ -((word & _U64(1)).astype(np.int64))
        return number, at + (np.bitwise_count(mask) >> 3)

    def _long_varints(self, at: Int64s) -> tuple[Int64s, Int64s]:
        """Decode numbers that include nine or ten bytes: byte by byte, still for all rows together."""
        value = np.zeros(len(at), dtype=np.uint64)
        position = at.copy()
        going = np.arange(len(at))
        for index in range(10):
            byte = self._bytes[position[going]]
            value[going] |= (byte & 0x7F).astype(np.uint64) << _U64(7 * index)
            position[going] += 1
            going = going[byte >= 0x80]
            if not going.size:
                break
        else:
            raise Corrupt("a record has a varint of more than ten bytes")
        return (value >> _U64(1)).astype(np.int64) ^ -((value & _U64(1)).astype(np.int64)), position


def _binary(data: bytes | bytearray, at: Int64s, size: Int64s) -> pa.Array:
    """Return the slices as an Arrow array: first including the gaps between them as elements, then without."""
    count = len(at)
    null = size < 0
    edges = np.empty(2 * count, dtype=np.int32)
    edges[0::2] = at
    edges[1::2] = at + np.maximum(size, 0)
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=null if null.any() else None)
    if not count:
        return pa.array([], pa.binary())
    with_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])
    return with_gaps.take(wanted)


def headers(records: Records, kind: pa.DataType) -> pa.Array:
    """Return the headers of each row as a list of (key, value); null if there are none."""
    count = records.header_count
    if not count.any():
        return pa.nulls(len(records), kind)
    view = _View(records.data)
    position = records.headers_at.copy()
    rows = np.nonzero(count > 0)[0]
    found: list[tuple[Int64s, ...]] = []
    index = 0
    while rows.size:
        name_size, name_at = view.varints(position[rows])
        if (name_size < 0).any():
            raise Corrupt("a header has no key")
        value_size, value_at = view.varints(name_at + name_size)
        position[rows] = value_at + np.maximum(value_size, 0)
        found.append((rows, name_at, name_size, value_at, value_size))
        index += 1
        rows = rows[count[rows] > index]
    has = count > 0
    if (position[has] != records.ends[has]).any():
        raise Corrupt("the headers of a record do not fill its length")
    row, name_at, name_size, value_at, value_size = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(row, kind="stable")
    names = _binary(records.data, name_at[order], name_size[order]).cast(pa.string())
    values = _binary(records.data, value_at[order], value_size[order])
    struct = pa.StructArray.from_arrays([names, values], fields=list(kind.value_type))
    edges = np.concatenate(([0], np.cumsum(count))).astype(np.int32)
    # A null boundary makes its row null.
    null_edges = np.concatenate((~has, [False]))
    return pa.ListArray.from_arrays(pa.array(edges, mask=null_edges), struct, type=kind)
