"""The default partitioner: murmur2 as in Java clients, vectorized over a column."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)


def partitions_of(keys: pa.Array, count: int) -> npt.NDArray[np.int64]:
    """Return the partition of each key; results for null keys are undefined."""
    return ((murmur2(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int64)


def murmur2(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Return the 32-bit hash of each element of a binary array."""
    _, edge_buffer, data_buffer = keys.buffers()
    edges = np.frombuffer(edge_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    # Padded, so that four bytes can be read at any position.
    data = np.zeros((0 if data_buffer is None else len(data_buffer)) + 4, dtype=np.uint8)
    if data_buffer is not None:
        data[:-4] = np.frombuffer(data_buffer, np.uint8)
    words = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))
    at, size = edges[:-1], np.diff(edges)
    hashed = (np.uint32(_SEED) ^ size.astype(np.uint32)).astype(np.uint32)
    rows = np.arange(len(keys))
    for index in range(int(size.max(initial=0)) // 4):
        rows = rows[size[rows] >= 4 * (index + 1)]
        mixed = words[at[rows] + 4 * index] * _M
        mixed ^= mixed >> np.uint32(24)
        mixed *= _M
        hashed[rows] = hashed[rows] * _M ^ mixed
    rest = size % 4
    tail = words[at + size - rest]
    with_tail = rest > 0
    keep = (np.uint32(1) << (8 * rest[with_tail]).astype(np.uint32)) - np.uint32(1)
    hashed[with_tail] = (hashed[with_tail] ^ (tail[with_tail] & keep)) * _M
    hashed ^= hashed >> np.uint32(13)
    hashed *= _M
    return hashed ^ (hashed >> np.uint32(15))
