"""The positions of all records in a run of batches.

Each record begins with its length, so the positions form a chain that must be followed step by step. If records have
the same size, the next positions are predicted and only checked. Otherwise many chains are followed at the same time,
one numpy step for all: each batch starts one, and large batches are split at positions that look like the start of a
record. A split is accepted only if the preceding chain ends at it; else that batch is followed alone.
Raises Corrupt if the chain does not end with the batch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock_client.errors import Corrupt
from penstock_client.records.batches import Batch

Int64s = npt.NDArray[np.int64]

_CHAIN_COUNT_MAX: Final = 256
_LINKS_WORTH_A_CUT: Final = 100
_PIECE_SIZE_LEAST: Final = 4096
_RECORDS_WORTH_IT: Final = 1024
_RECORDS_WORTH_A_RUN: Final = 128
_RUN_LEAST: Final = 32
_BLOCK: Final = 16
_TRIES: Final = 6
# The end of a record without headers, the next record's length in one or two bytes, and its attributes.
_BETWEEN: Final = re.compile(rb"\x00(?=(?:[\x80-\xff][\x00-\x7f]|[\x00-\x7f])\x00)", re.DOTALL)


def _steps() -> npt.NDArray[np.int32]:
    """Return the distance to the next record by the first two bytes of this one; -1 if its length is longer."""
    low = np.arange(65536, dtype=np.int32) & 0xFF
    high = np.arange(65536, dtype=np.int32) >> 8
    two = ((low & 0x7F) | (high << 7)) >> 1
    return np.where(low < 0x80, 1 + (low >> 1), np.where(high < 0x80, 2 + two, -1)).astype(np.int32)


_STEPS: Final = _steps()


def _pairs(data: bytes | bytearray) -> npt.NDArray[np.uint16]:
    """Return the two bytes at each position."""
    return np.ndarray((len(data) - 1,), "<u2", data, strides=(1,))


def record_starts(data: bytes | bytearray, batches: Sequence[Batch]) -> Int64s:
    """Return the position of every record's length, batch by batch. `data` is padded after its end."""
    count = sum(batch.record_count for batch in batches)
    if count < _RECORDS_WORTH_IT:
        return np.array([start for batch in batches for start in _follow(data, batch)], dtype=np.int64)
    size = sum(batch.end - batch.start for batch in batches)
    if size > count * 2048:  # large records: few steps
        return np.array([start for batch in batches for start in _follow(data, batch)], dtype=np.int64)
    if count >= len(batches) * _RECORDS_WORTH_A_RUN and (even := _even_starts(data, batches)) is not None:
        return even
    # A split costs as much as some tens of steps.
    piece_size = max(_PIECE_SIZE_LEAST, size // min(_CHAIN_COUNT_MAX, count // _LINKS_WORTH_A_CUT))
    begins: list[int] = []
    owners: list[int] = []
    for index, batch in enumerate(batches):
        cuts = _cuts(data, batch, piece_size)
        begins += cuts
        owners += [index] * len(cuts)
    return _together(data, batches, begins, owners)


def _even_starts(data: bytes | bytearray, batches: Sequence[Batch]) -> Int64s | None:
    """Return the positions if nearly all records are as long as the preceding one, else None."""
    pairs = _pairs(data)
    found: list[Int64s] = []
    for batch in batches:
        position, left, odd_count = batch.start, batch.record_count, 0
        while left:
            step = int(_STEPS[pairs[position]])
            fitting = (batch.end - position) // step if step > 0 else 0
            if not fitting:
                return None  # a length of three bytes, or a wrong one
            count = _run_length(pairs, position, step, min(left, fitting))
            found.append(np.arange(position, position + count * step, step))
            position += count * step
            left -= count
            odd_count += count < _RUN_LEAST
            if odd_count * _RUN_LEAST > batch.record_count - left + 2 * _RUN_LEAST:
                return None
        if position != batch.end:
            return None
    return np.concatenate(found)


def _run_length(pairs: npt.NDArray[np.uint16], position: int, step: int, count_max: int) -> int:
    """Return how many records from this position on have this size."""
    count, size = 1, _RUN_LEAST
    while count < count_max:
        after = min(count + size, count_max)
        others = np.flatnonzero(_STEPS.take(pairs[position + count * step : position + after * step : step]) != step)
        if others.size:
            return count + int(others[0])
        count, size = after, size * 4
    return count


def _together(data: bytes | bytearray, batches: Sequence[Batch], begins: list[int], owners: list[int]) -> Int64s:
    owner = np.array(owners, dtype=np.int64)
    begin = np.array(begins, dtype=np.int64)
    batch_ends = np.array([batch.end for batch in batches], dtype=np.int64)
    end = batch_ends[owner]
    same = owner[1:] == owner[:-1]
    end[:-1][same] = begin[1:][same]
    rows, arrived = _run_chains(data, begin, end)
    counts = np.bincount(owner[rows[0]], minlength=len(batches))
    expected = np.array([batch.record_count for batch in batches], dtype=np.int64)
    arrived_right = np.ones(len(batches), dtype=bool)
    arrived_right[owner[arrived != end]] = False
    bad = np.nonzero((counts != expected) | ~arrived_right)[0]
    if not bad.size:
        return rows[1]
    # A split inside a value, or a length of three bytes: follow these batches step by step.
    parts = np.split(rows[1], np.cumsum(counts)[:-1])
    for index in bad.tolist():
        parts[index] = np.array(_follow(data, batches[index]), dtype=np.int64)
    return np.concatenate(parts)


def _run_chains(data: bytes | bytearray, begin: Int64s, end: Int64s) -> tuple[tuple[Int64s, Int64s], Int64s]:
    """Follow every chain to its end; return (chain of each record, its position), and where each chain ended."""
    pairs = _pairs(data)
    last = len(data) - 2
    alive = np.arange(len(begin))
    position = begin.copy()
    arrived = begin.copy()
    chains: list[Int64s] = []
    found: list[Int64s] = []
    while alive.size:
        block = np.empty((_BLOCK + 1, alive.size), dtype=np.int64)
        block[0] = position
        for step in range(_BLOCK):
            position = position + _STEPS.take(pairs[position])
            np.minimum(position, last, out=position)
            block[step + 1] = position
        limit = end[alive]
        inside = block < limit
        # At a length of three bytes a chain steps back. After its end its position does not matter.
        stuck = ((block[1:] <= block[:-1]) & inside[:-1]).any(axis=0)
        kept = inside[:-1] & ~stuck
        steps = kept.sum(axis=0)
        arrived[alive] = np.where(stuck, -1, block[np.minimum(inside.sum(axis=0), _BLOCK), np.arange(alive.size)])
        chains.append(np.repeat(alive, steps))
        found.append(block[:-1].T[kept.T])
        going = inside[-1] & ~stuck
        alive, position = alive[going], position[going]
    chain = np.concatenate(chains)
    order = np.argsort(chain, kind="stable")
    return (chain[order], np.concatenate(found)[order]), arrived


def _cuts(data: bytes | bytearray, batch: Batch, piece_size: int) -> list[int]:
    """Return the batch's start, and probable record starts about one piece apart."""
    cuts = [batch.start]
    for near in range(batch.start + piece_size, batch.end - piece_size // 2, piece_size):
        place = near
        for _ in range(_TRIES):
            match = _BETWEEN.search(data, place, batch.end)
            if match is None:
                return cuts
            place = match.end()
            if place <= cuts[-1]:
                continue
            if _is_record(data, place, batch):
                cuts.append(place)
                break
    return cuts


def _varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise Corrupt("a record has a varint of more than ten bytes")


def _is_record(data: bytes | bytearray, position: int, batch: Batch) -> bool:
    """Return whether the fields at this position form one record that fills its length."""
    try:
        size, position = _varint(data, position)
        end = position + size
        if not position < end <= batch.end:
            return False
        _, position = _varint(data, position + 1)
        delta, position = _varint(data, position)
        if not 0 <= delta <= batch.last_offset - batch.base_offset:
            return False
        for _ in range(2):
            size, position = _varint(data, position)
            position += max(0, size)
            if position >= end:
                return False
        headers, position = _varint(data, position)
    except (Corrupt, IndexError):
        return False
    return headers == 0 and position == end


def _follow(data: bytes | bytearray, batch: Batch) -> list[int]:
    """Return the record positions of one batch, followed step by step."""
    starts: list[int] = []
    position, end = batch.start, batch.end
    append = starts.append
    while position < end:
        append(position)
        low = data[position]
        if low < 0x80:
            position += 1 + (low >> 1)
            continue
        high = data[position + 1]
        if high < 0x80:
            position += 2 + ((low & 0x7F | high << 7) >> 1)
            continue
        size, position = _varint(data, position)
        if size < 0:
            break
        position += size
    if position != end or len(starts) != batch.record_count:
        raise Corrupt(
            f"the batch at offset {batch.base_offset} has {len(starts)} records but its header says "
            f"{batch.record_count}, or its records do not end with it"
        )
    return starts
