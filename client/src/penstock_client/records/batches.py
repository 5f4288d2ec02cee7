"""Headers of record batches in a buffer, with their checks, and the visibility of batches.

`scan` reads only headers, so the next fetch can be sent before any record is decoded. `Visible` implements
read_committed. Calls compression.py. Raises Corrupt, which names the offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock_client.errors import Corrupt

HEADER_SIZE: Final = 61
_PREFIX_SIZE: Final = 12
_CHECKED_FROM: Final = 21  # the checksum covers everything from the attributes on
_HEADER: Final = Struct(">qiibIhiqqqhii")
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
LOG_APPEND_TIME: Final = 0x08


class Batch(NamedTuple):
    """A batch header, and the position of its records in the scanned buffer."""

    base_offset: int
    last_offset: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    record_count: int
    start: int
    end: int

    @property
    def codec(self) -> int:
        return self.attributes & 7


def scan(data: memoryview, start: int, end: int) -> Iterator[Batch]:
    """Yield every complete batch between two positions; an incomplete one at the end is left to the next read."""
    unpack = _HEADER.unpack_from
    while end - start >= HEADER_SIZE:
        base, length, _, magic, crc, attributes, delta, first, last, producer, _, _, count = unpack(data, start)
        if magic != 2:
            raise Corrupt(f"the batch at offset {base} has format {magic}; only version 2 (Kafka 0.11 on) is supported")
        size = _PREFIX_SIZE + length
        if size < HEADER_SIZE or count < 0 or delta < 0:
            raise Corrupt(f"the batch at offset {base} has an invalid header")
        if size > end - start:
            return
        if crc32c(data[start + _CHECKED_FROM : start + size]) != crc:
            raise Corrupt(f"the batch at offset {base} fails its checksum")
        yield Batch(base, base + delta, attributes, first, last, producer, count, start + HEADER_SIZE, start + size)
        start += size


class Visible:
    """A filter that hides control batches and, under read_committed, batches of aborted transactions.

    Aborted transactions are given as (producer id, first offset). A producer's batches are hidden from its first
    aborted offset to its next abort marker.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]], *, committed_only: bool) -> None:
        self._committed_only = committed_only
        self._starts = [(first, producer) for producer, first in aborted]
        heapify(self._starts)
        self._aborting: set[int] = set()

    def __call__(self, batch: Batch, data: memoryview) -> bool:
        if self._committed_only and batch.attributes & (TRANSACTIONAL | CONTROL):
            while self._starts and self._starts[0][0] <= batch.last_offset:
                self._aborting.add(heappop(self._starts)[1])
            if batch.attributes & CONTROL:
                if _is_abort(batch, data):
                    self._aborting.discard(batch.producer_id)
            elif batch.producer_id in self._aborting:
                return False
        return not batch.attributes & CONTROL


def _is_abort(batch: Batch, data: memoryview) -> bool:
    """Return whether a control batch is an abort marker. The key has a version and a type; type 0 is abort."""
    # Length, attributes, two deltas and the key length take one byte each in a batch of one record.
    key = bytes(data[batch.start + 5 : batch.start + 9])
    return key[2:4] == b"\x00\x00"
