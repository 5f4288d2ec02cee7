"""Encoding of columns as batches: numpy encodes the varints of all rows, Arrow joins them with keys and values.

`payloads` splits rows into batches of a limited size and encodes their records; `seal` adds the header with its
checksum. A header without a key raises PenstockClientError.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from penstock_client.errors import PenstockClientError
from penstock_client.records.batches import HEADER_SIZE, TRANSACTIONAL
from penstock_client.records.compression import Buffer, compress

Int64s = npt.NDArray[np.int64]
_SEALED: Final = Struct(">hiqqqhii")
_UNSEALED: Final = Struct(">qiibI")
_LENGTH_LEAST: Final = HEADER_SIZE - 12
# Maximum size of a record's varints: its length, two deltas, two sizes, the header count.
_OVERHEAD_MAX: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5


@dataclass(slots=True)
class Payload:
    """The records of one batch, uncompressed."""

    data: memoryview
    count: int
    base_timestamp: int
    max_timestamp: int


def seal(
    payload: Payload, *, codec: int, producer_id: int, epoch: int, sequence: int, transactional: bool
) -> list[Buffer]:
    """Return the batch as a list of buffers to send in order."""
    packed = compress(codec, payload.data)
    sealed = _SEALED.pack(
        codec | (TRANSACTIONAL if transactional else 0),
        payload.count - 1,
        payload.base_timestamp,
        payload.max_timestamp,
        producer_id,
        epoch,
        sequence,
        payload.count,
    )
    crc = crc32c(packed, crc32c(sealed))
    return [_UNSEALED.pack(0, _LENGTH_LEAST + len(packed), -1, 2, crc) + sealed, packed]


def payloads(
    keys: pa.Array, values: pa.Array, timestamps: Int64s, headers: pa.Array | None, *, size_max: int
) -> list[Payload]:
    """Encode the rows as records, in batches of at most `size_max` bytes before compression."""
    count = len(values)
    if not count:
        return []
    key_size, value_size = _sizes(keys, count), _sizes(values, count)
    tail, tail_size = _tails(headers, count)
    bounds = np.maximum(key_size, 0) + np.maximum(value_size, 0) + tail_size + _OVERHEAD_MAX
    starts = _cut(bounds, size_max)
    lengths = np.diff(np.append(starts, count))
    stamp_delta = timestamps - np.repeat(timestamps[starts], lengths)
    offset_delta = np.arange(count) - np.repeat(starts, lengths)
    head = [_varint(_zigzag(stamp_delta)), _varint(_zigzag(offset_delta)), _varint(_zigzag(key_size))]
    middle = _varint(_zigzag(value_size))
    body_size = 1 + np.maximum(key_size, 0) + np.maximum(value_size, 0) + tail_size + middle.sizes
    for part in head:
        body_size = body_size + part.sizes
    before_key = _flat([_varint(_zigzag(body_size)), _zeros(count), *head])
    parts = [before_key] if keys is None else [before_key, keys]
    joined = pc.binary_join_element_wise(
        *parts, _flat([middle]), values, tail, b"", null_handling="replace", null_replacement=b""
    )
    _, edge_buffer, data = joined.buffers()
    edges = np.frombuffer(edge_buffer, np.int32)[joined.offset : joined.offset + count + 1]
    view = memoryview(data)
    tops = np.maximum.reduceat(timestamps, starts)
    return [
        Payload(view[int(edges[start]) : int(edges[start + length])], int(length), int(timestamps[start]), int(top))
        for start, length, top in zip(starts.tolist(), lengths.tolist(), tops.tolist(), strict=True)
    ]


def _sizes(column: pa.Array | None, count: int) -> Int64s:
    """Return the size of each element; -1 if it is null."""
    if column is None:
        return np.full(count, -1, dtype=np.int64)
    sizes = pc.binary_length(column)
    if column.null_count:
        sizes = sizes.fill_null(-1)
    return np.asarray(sizes.to_numpy(zero_copy_only=False), dtype=np.int64)


def _cut(bounds: Int64s, size_max: int) -> Int64s:
    """Return where batches start, each as full as possible."""
    total = np.cumsum(bounds)
    starts = [0]
    while True:
        begun = int(total[starts[-1] - 1]) if starts[-1] else 0
        # A row that is larger than a batch gets its own batch; the broker rejects it if that is too large.
        after = max(starts[-1] + 1, int(np.searchsorted(total, begun + size_max, side="right")))
        if after >= len(total):
            return np.array(starts, dtype=np.int64)
        starts.append(after)


@dataclass(slots=True)
class _Varints:
    """Encoded numbers: a row of bytes each, of which the first `sizes` are used."""

    columns: list[npt.NDArray[np.uint8]]
    sizes: Int64s


def _zigzag(numbers: Int64s) -> npt.NDArray[np.uint64]:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _varint(numbers: npt.NDArray[np.uint64]) -> _Varints:
    columns: list[npt.NDArray[np.uint8]] = []
    sizes = np.ones(len(numbers), dtype=np.int64)
    rest = numbers
    while True:
        low = (rest & np.uint64(0x7F)).astype(np.uint8)
        rest = rest >> np.uint64(7)
        more = rest != 0
        if not more.any():
            columns.append(low)
            return _Varints(columns, sizes)
        columns.append(low | (more.astype(np.uint8) << 7))
        sizes += more


def _zeros(count: int) -> _Varints:
    return _Varints([np.zeros(count, dtype=np.uint8)], np.ones(count, dtype=np.int64))


def _flat(numbers: list[_Varints]) -> pa.Array:
    """Return several numbers per row, concatenated, as one binary array."""
    count = len(numbers[0].sizes)
    columns: list[npt.NDArray[np.uint8]] = []
    kept: list[Any] = []
    for one in numbers:
        for index, column in enumerate(one.columns):
            columns.append(column)
            kept.append(True if index == 0 else one.sizes > index)
    table = np.stack(columns, axis=1)
    if all(flag is True for flag in kept):
        edges = np.arange(count + 1, dtype=np.int32) * len(columns)
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(table)])
    mask = np.empty(table.shape, dtype=bool)
    for index, flag in enumerate(kept):
        mask[:, index] = flag
    edges = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(sum((one.sizes for one in numbers), start=np.zeros(count, dtype=np.int64)), out=edges[1:])
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(table[mask])])


def _tails(headers: pa.Array | None, count: int) -> tuple[Any, Any]:
    """Return the bytes after the value: the header count and the headers."""
    if headers is None or headers.null_count == count:
        return pa.scalar(b"\x00", pa.binary()), 1
    elements = headers.flatten()
    counts = np.asarray(pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    names = elements.field(0).cast(pa.binary())
    values = elements.field(1)
    if names.null_count:
        raise PenstockClientError("a header has no key: headers must be array<struct<key: string, value: binary>>")
    written = pc.binary_join_element_wise(
        _flat([_varint(_zigzag(_sizes(names, len(names))))]),
        names,
        _flat([_varint(_zigzag(_sizes(values, len(values))))]),
        values,
        b"",
        null_handling="replace",
        null_replacement=b"",
    )
    _, edge_buffer, data = written.buffers()
    element_edges = np.frombuffer(edge_buffer, np.int32)[written.offset : written.offset + len(written) + 1]
    edges = element_edges[np.concatenate(([0], np.cumsum(counts)))].astype(np.int32)
    per_row = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), data])
    tails = pc.binary_join_element_wise(_flat([_varint(_zigzag(counts))]), per_row, b"")
    return tails, _sizes(tails, count)
