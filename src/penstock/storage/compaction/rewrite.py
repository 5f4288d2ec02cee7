"""One compaction pass: read the dirty part into a map of keys, then rewrite each group of segments.

A generator, so that a child process can run it without pauses and the simulator in slices: it yields the number of
bytes that it has read and written, and each group as soon as its `.cleaned` files are synced. The caller swaps a group
before it continues. Uses closed segments and `.cleaned` files only. Raises OSError, and Corruption for invalid batches.
"""

from collections.abc import Generator, Iterator
from typing import Final

from crc32c import crc32c

from penstock.model.errors import Corruption
from penstock.ports.disk import Disk, File
from penstock.storage.compaction import plan
from penstock.storage.compaction.batches import RecordSpan, emptied, open_records, payload_of, with_records
from penstock.storage.compaction.cleaned_segment import CleanedSegment
from penstock.storage.compaction.key_map import KeyMap
from penstock.storage.compaction.task import CleanedGroup, Extent, Finished, Task
from penstock.storage.compaction.transactions import TransactionTracker
from penstock.storage.scan import header_error
from penstock.storage.segment import file_name
from penstock.wire.batch import (
    ATTRIBUTES_AT,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_OVERHEAD,
    HeaderTuple,
    unpack_header,
)

BLOCK_SIZE: Final = 1024 * 1024
Steps = Generator[int | CleanedGroup, None, Finished]


def compact(disk: Disk, task: Task) -> Steps:
    """Run one pass."""
    return (yield from _Pass(disk, task).run())


class _Pass:
    def __init__(self, disk: Disk, task: Task) -> None:
        self._disk = disk
        self._task = task
        self._map = KeyMap(memory=task.map_memory, load_factor=task.map_load_factor)
        self._transactions = TransactionTracker(task.aborted, start=task.segments[0].base_offset)
        self._epoch = -1
        # Without a horizon, tombstones and obsolete markers wait for a later pass. One that is set while the clock lags
        # would already be over when the clock accepts the jump, and consumers would miss the deletion.
        self._horizon_ms = None if task.now_lags else task.now_ms + task.delete_retention_ms
        self._read = self._written = self._dropped = 0
        self._unreported = 0
        # The segment that is being written, its source segments, and whether it differs from them.
        self._output: CleanedSegment | None = None
        self._group: list[Extent] = []
        self._changed = False
        # The last batch that was read, if nothing of it was written.
        self._last_dropped: HeaderTuple | None = None

    def run(self) -> Steps:
        yield from self._fill_map()
        clean_end = self._map.latest + 1
        try:
            for extent, end in self._extents():
                if extent.base_offset >= clean_end:
                    break
                if self._output is not None and not self._fits_group(self._output, extent, end):
                    yield from self._finish(self._output)
                if self._output is None:
                    self._output = CleanedSegment(self._disk, self._task, extent.base_offset)
                self._group.append(extent)
                yield from self._write(extent, self._output)
            if self._output is not None:
                yield from self._finish(self._output)
        finally:
            if self._output is not None:
                self._output.discard()
        return Finished(
            clean_end=clean_end, bytes_read=self._read, bytes_written=self._written, records_dropped=self._dropped
        )

    def _extents(self) -> Iterator[tuple[Extent, int]]:
        """Return each segment with its end offset."""
        segments = self._task.segments
        return zip(segments, [*(each.base_offset for each in segments[1:]), self._task.bound], strict=True)

    # The map

    def _fill_map(self) -> Generator[int, None, None]:
        task, known = self._task, self._map
        known.latest = task.first_dirty - 1
        dirty = [each for each, end in self._extents() if end > task.first_dirty]
        transactions = TransactionTracker(task.aborted, start=dirty[0].base_offset)
        for extent in dirty:
            for header, batch in self._batches(extent):
                if self._unreported >= BLOCK_SIZE:
                    yield self._report()
                last_offset = header[0] + header[6]
                if header[5] & CONTROL:
                    transactions.is_obsolete_marker(header, batch)
                elif not transactions.is_aborted(header) and last_offset >= task.first_dirty:
                    # Accept at least one batch: a pass without progress would be repeated forever.
                    if header[12] > known.room and len(known):
                        return
                    self._note_keys(header, batch)
                known.latest = max(known.latest, last_offset)
        known.latest = task.bound - 1

    def _note_keys(self, header: HeaderTuple, batch: memoryview) -> None:
        base_offset, first_dirty, note = header[0], self._task.first_dirty, self._map.note
        for span in open_records(header, payload_of(header, batch)):
            offset = base_offset + span.offset_delta
            if span.key is not None and offset >= first_dirty:
                note(span.key, offset)

    # Rewriting

    def _fits_group(self, output: CleanedSegment, extent: Extent, end: int) -> bool:
        task = self._task
        return plan.fits_group(
            extent,
            end=end,
            base_offset=output.segment.base_offset,
            written=output.size,
            entries=len(output.segment.offset_index),
            segment_bytes=task.segment_bytes,
            index_interval=task.index_interval,
            index_size_max=task.index_size_max,
        )

    def _write(self, extent: Extent, output: CleanedSegment) -> Generator[int, None, None]:
        """Write the remaining batches of a segment."""
        for header, batch in self._batches(extent):
            kept = self._kept(header, batch, output)
            if kept is None and header[2] != self._epoch:
                kept = emptied(header, keeps_producer=False)
            self._epoch = header[2]
            self._last_dropped = header if kept is None else None
            if kept is None:
                self._changed = True
            elif kept is batch or kept == batch:
                output.add(header, batch)
            else:
                self._changed = True
                output.add(unpack_header(kept, 0), kept)
            if self._unreported >= BLOCK_SIZE:
                self._unreported += output.flush()
                yield self._report()

    def _finish(self, output: CleanedSegment) -> Generator[CleanedGroup, None, None]:
        """Yield the group that was written, unless it is a single unchanged segment."""
        if self._last_dropped is not None:
            # Keep the end offset of the segment: a gap between segments always means damage.
            filler = emptied(self._last_dropped, keeps_producer=False)
            output.add(unpack_header(filler, 0), filler)
        group, changed = tuple(each.base_offset for each in self._group), self._changed
        self._group, self._changed, self._last_dropped = [], False, None
        if changed or len(group) > 1:
            size = output.finish()
            self._written += size
            # The caller now owns the files.
            self._output = None
            yield CleanedGroup(
                base_offset=output.segment.base_offset,
                replaced=group,
                size=size,
                txn_entries=output.segment.txn_index.summary or (0, 0),
            )
        else:
            output.discard()
            self._output = None

    def _kept(self, header: HeaderTuple, batch: memoryview, output: CleanedSegment) -> bytes | memoryview | None:
        """Return what remains of a batch: the batch itself, a replacement, or None."""
        if header[5] & CONTROL:
            obsolete = self._transactions.is_obsolete_marker(header, batch)
            for ended in self._transactions.take_ended():
                output.segment.txn_index.append(ended)
            return self._obsolete_marker(header, batch) if obsolete else batch
        if self._transactions.is_aborted(header):
            self._dropped += header[12]
        elif header[0] > self._map.latest:
            return batch
        elif header[12]:
            kept = self._with_last_records(header, batch)
            if kept is not None:
                return kept
        last_offset, _ = self._task.producers.get(header[9], (-1, -1))
        if header[9] >= 0 and last_offset == header[0] + header[6]:
            return emptied(header, keeps_producer=True)
        return None

    def _obsolete_marker(self, header: HeaderTuple, batch: memoryview) -> bytes | memoryview | None:
        """Return what remains of a marker whose transaction has no batches left."""
        if self._task.producers.get(header[9]) == (-1, header[10]):
            # Only this marker restores the epoch of the producer after a restart.
            return batch
        if header[12] == 0:
            return None
        if header[5] & DELETE_HORIZON:
            return None if header[7] <= self._task.now_ms else batch
        if self._horizon_ms is None:
            return batch
        payload = payload_of(header, batch)
        return with_records(header, payload, open_records(header, payload), horizon_ms=self._horizon_ms)

    def _with_last_records(self, header: HeaderTuple, batch: memoryview) -> bytes | memoryview | None:
        """Return the batch with the records that are the last ones of their keys; None if there are none."""
        payload = payload_of(header, batch)
        spans = open_records(header, payload)
        has_horizon = header[5] & DELETE_HORIZON
        tombstones_go = has_horizon and header[7] <= self._task.now_ms
        base_offset, latest, last_of = header[0], self._map.latest, self._map.last_of
        kept: list[RecordSpan] = []
        tombstones = False
        for span in spans:
            offset = base_offset + span.offset_delta
            if offset <= latest:
                key = span.key
                if key is None or offset < last_of(key) or (tombstones_go and not span.has_value):
                    continue
            kept.append(span)
            if not span.has_value:
                tombstones = True
        self._dropped += len(spans) - len(kept)
        if not kept:
            return None
        needs_horizon = tombstones and not has_horizon and self._horizon_ms is not None
        if len(kept) == len(spans) and not needs_horizon:
            return batch
        return with_records(header, payload, kept, horizon_ms=self._horizon_ms if needs_horizon else None)

    # Reading

    def _batches(self, extent: Extent) -> Iterator[tuple[HeaderTuple, memoryview]]:
        """Yield the batches of a segment, and verify their checksums."""
        path = f"{self._task.folder}/{file_name(extent.base_offset, '.log')}"
        file = self._disk.open(path, writable=False)
        try:
            yield from self._batches_of(file, extent, path)
        finally:
            file.close()

    def _batches_of(self, file: File, extent: Extent, path: str) -> Iterator[tuple[HeaderTuple, memoryview]]:
        position, offset = 0, extent.base_offset
        block, at = memoryview(b""), 0
        while position < extent.size:
            if len(block) - at < HEADER_SIZE or len(block) - at < unpack_header(block, at)[1] + LOG_OVERHEAD:
                block, at = self._block(file, position, extent.size, path), 0
            header: HeaderTuple = unpack_header(block, at)
            size = header[1] + LOG_OVERHEAD
            why = header_error(header, left=len(block) - at, offset=offset, base_offset=extent.base_offset)
            batch = block[at : at + size]
            if why is None and crc32c(batch[ATTRIBUTES_AT:]) != header[4]:
                why = "the checksum does not match"
            if why is not None:
                raise Corruption(f"{path} is damaged at position {position}: {why}")
            yield header, batch
            offset = header[0] + header[6] + 1
            position += size
            at += size

    def _block(self, file: File, position: int, end: int, path: str) -> memoryview:
        """Read from the beginning of a batch: several batches, or one that is larger than a block."""
        content = file.read(min(BLOCK_SIZE, end - position), position)
        if len(content) < HEADER_SIZE:
            raise Corruption(f"{path} is damaged at position {position}: only {len(content)} bytes are left")
        size = unpack_header(content, 0)[1] + LOG_OVERHEAD
        if len(content) < size <= end - position:
            content = file.read(size, position)
        self._read += len(content)
        self._unreported += len(content)
        return memoryview(content)

    def _report(self) -> int:
        count, self._unreported = self._unreported, 0
        return count
