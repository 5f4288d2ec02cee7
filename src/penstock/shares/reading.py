"""Acquisition of records from a log: reads batches from the next offset that a group needs, and locks their records.

Reads headers of batches only. acquiring.py decides what is acquired. A read and its acquisition are one synchronous
step. Calls go to replication/partition.py. Refuses: OffsetNotAvailable, StorageError.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock.model.errors import OffsetNotAvailable, OffsetOutOfRange
from penstock.ports.network import FileSlice
from penstock.replication.partition import Partition
from penstock.shares.acquiring import AcquireLimits, Acquisition, acquire_new
from penstock.shares.flight import Flight
from penstock.shares.log_batches import LastHeader, log_batches
from penstock.shares.states import AcquiredRange, LogBatch

READ_ROUNDS_MAX: Final = 20
"""How many reads a fetch may need to find a record: aborted transactions and compacted offsets are passed."""


class AcquiredRecords(NamedTuple):
    records: FileSlice
    ranges: Sequence[AcquiredRange]
    record_count: int


class RecordReader:
    """Acquires the records of one partition for one group."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._headers = LastHeader()

    def acquire(
        self, flight: Flight, member: str, limits: AcquireLimits, max_bytes: int, now: float
    ) -> AcquiredRecords | None:
        """Acquire records for a member and return where they are; None if there are none."""
        if not self._partition.mark_is_known:
            raise OffsetNotAvailable
        flight.trim(self._partition.log.offsets.start)
        for _ in range(READ_ROUNDS_MAX):
            offset = flight.next_fetch_offset(now)
            if offset is None:
                return None
            before = flight.start, flight.end, flight.finished
            found = self._read(flight, offset, max_bytes)
            if found is not None:
                acquired = self._acquire(flight, member, limits, now, offset, found)
                if acquired is not None:
                    return acquired
            if (flight.start, flight.end, flight.finished) == before:
                return None
        return None

    def _read(self, flight: Flight, offset: int, max_bytes: int) -> FileSlice | None:
        partition, committed_only = self._partition, flight.settings.is_read_committed
        try:
            found = partition.read(offset, max_bytes=max_bytes, committed_only=committed_only, at_least_one=True)
        except OffsetOutOfRange:
            return None
        if found is None:
            end = partition.last_stable_offset if committed_only else partition.high_watermark
            if offset < min(end, flight.end):
                flight.archive_available(offset, min(end, flight.end) - 1)
        return found

    def _acquire(
        self, flight: Flight, member: str, limits: AcquireLimits, now: float, offset: int, found: FileSlice
    ) -> AcquiredRecords | None:
        """Acquire records of a slice that was read from an offset."""
        try:
            if offset == flight.end:
                size, batch = self._headers.plain_batch(found)
                acquired = None if batch is None else acquire_new(flight, member, limits, now, batch)
                if acquired is not None:
                    found.size = size
                    return AcquiredRecords(found, (acquired,), acquired.last - acquired.first + 1)
            aborted = self._partition.log.aborted_in(offset, found) if flight.settings.is_read_committed else ()
            acquisition = Acquisition(flight, member, limits, now)
            records = _acquired(found, log_batches(found, aborted, self._headers), acquisition, offset)
        except OSError as error:
            # The log checks its segment with the next read, and reports it as damaged if the error persists.
            if found.owner is not None:
                found.owner.read_failed(found, error)
            raise
        return None if records is None else AcquiredRecords(records, acquisition.acquired, acquisition.count)


def _acquired(
    found: FileSlice, batches: Iterable[tuple[LogBatch, int, int]], acquisition: Acquisition, offset: int
) -> FileSlice | None:
    """Acquire from batches of a slice; return the part of it that contains what was acquired."""
    first = last = -1
    for batch, position, size in batches:
        before = acquisition.count
        acquisition.take(offset, (batch,))
        offset = max(offset, batch.last + 1)
        if acquisition.count > before:
            first = position if first < 0 else first
            last = position + size
        elif first >= 0:
            break
        if acquisition.is_done:
            break
    return None if first < 0 else FileSlice(found.file, first, last - first, found.owner)
