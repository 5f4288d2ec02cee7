"""One partition's log: append, read, roll, and the questions that are asked of it.

`append` is the hot path of every produce request: compare the header, take the checksum,
patch offset and epoch in place, one write, then indexes and producer state, with nothing
awaited in between. Recovery is in recovery.py, group commit in flush.py, cutting in
trim.py. Refuses: whatever validate.py and producer_state.py refuse, OffsetOutOfRange,
RecordListTooLarge, and StorageError for a disk that fails or bytes that are damaged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Final

from crc32c import crc32c

from penstock.config.settings import TopicSettings
from penstock.model.errors import CorruptMessage, OffsetOutOfRange, StorageError
from penstock.model.ids import TopicId, TopicPartition
from penstock.model.job import Job
from penstock.ports.disk import Disk
from penstock.ports.network import FileSlice
from penstock.storage import (
    aborted,
    lookup,
    recovery,
    replicated,
    small_batches,
    snapshots,
    trim,
    unreadable,
    validate,
    verified,
)
from penstock.storage.directory import LogDirectory
from penstock.storage.marker import Marker, encode_marker
from penstock.storage.producer_state import SEQUENCE_MASK, Producer
from penstock.storage.rolling import Appended, RollingLog
from penstock.storage.scan import BadBatch
from penstock.storage.verification import Verification
from penstock.wire.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    set_log_append_time,
    unpack_header,
)
from penstock.wire.compression import check_codec_frame
from penstock.wire.record_heads import RECORD_SIZE_LEAST

__all__ = ["Appended", "Log"]

_place: Final = Struct(">qii").pack_into
_ORDINARY_MASK: Final = CODEC_MASK | TRANSACTIONAL
_RECORD_SIZE_LEAST: Final = RECORD_SIZE_LEAST
KEPT_SIZE_MAX: Final = 4096
"""A batch up to this size is kept for followers: reading it back would cost them more than the copy."""


class Log(RollingLog):
    """Batches from `start_offset` up to, not including, `end_offset`; safe on disk below `durable_offset`."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        *,
        clock_wall_ms: Callable[[], int],
        clean: bool,
        known: recovery.Known = recovery.NOTHING_KNOWN,
        directory: LogDirectory | None = None,
    ) -> Log:
        """Open the log in a folder, which is made if it is missing; recovers it unless it was closed cleanly."""
        directory = directory or LogDirectory(disk, folder.rpartition("/")[0])
        state = recovery.recover(directory, folder, settings, now_ms=clock_wall_ms(), clean=clean, known=known)
        log = cls(directory, folder, topic_partition, topic_id, settings, state, clock_wall_ms)
        if clean and not state.notes:
            log._found = (log.start_offset, log.end_offset)
        return log

    # Writing

    def prepare(self, records: memoryview, now_ms: int) -> Job[validate.Prepared]:
        """What an append that raised Unprepared needs."""
        return validate.prepare(records, self._settings, now_ms)

    def append(
        self,
        records: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        trusted: bool = False,
        transaction_verified: Verification | bool = False,
        prepared: validate.Prepared | None = None,
    ) -> Appended:
        """Append one batch of a client, giving it its offsets in place.

        `trusted` is for batches of this node's own (the metadata log, coordinators): only checksum, size
        and producer epoch are looked at, and control batches pass. A transactional batch needs
        `transaction_verified` unless its transaction is open here already: what `begin_verification`
        gave before the coordinator was asked, or True if nothing could happen in between.
        Unprepared: the batch is good as far as can be told without its records, which `prepare` has to open;
        append it again with what that returns, `prepared`.
        """
        if self.damage is not None or self.directory.refusal is not None:
            self._check_storage()
        size = len(records)
        try:
            base, length, _, magic, crc, attributes, delta, _, timestamp, producer_id, epoch, sequence, count = (
                unpack_header(records)
            )
        except StructError:
            raise CorruptMessage(f"{size} bytes are too few for a batch") from None
        # One comparison for the ordinary batch; the rest is sorted out by name.
        if (
            length + LOG_OVERHEAD != size
            or magic != MAGIC
            or count != delta + 1
            or count <= 0
            or attributes & ~_ORDINARY_MASK
            or base
            or size > self._max_message_bytes
            or (sequence < 0 if producer_id >= 0 else attributes & TRANSACTIONAL)
            or crc32c(records[ATTRIBUTES_AT:]) != crc
            or (
                not check_codec_frame(attributes & CODEC_MASK, records[HEADER_SIZE:])
                if attributes & CODEC_MASK
                else size - HEADER_SIZE < count * _RECORD_SIZE_LEAST
            )
        ):
            if trusted:
                replicated.check_own_batch(records)
            else:
                validate.explain(records, max_message_bytes=self._max_message_bytes)
        if count <= small_batches.FOLLOWED_COUNT_MAX and not attributes & CODEC_MASK and not trusted:
            small_batches.check(records, count)
        if (self._changes_batches or timestamp - now_ms > self._timestamp_after_max_ms) and not trusted:
            if self._opens_batches or not self._broker_time:
                if prepared is None or prepared.settings is not self._settings:
                    raise validate.Unprepared
                records = prepared.records
                length = len(records) - LOG_OVERHEAD
            if self._broker_time:
                set_log_append_time(records, now_ms)
                timestamp = now_ms
        if producer_id >= 0:
            producer = self._producers.get(producer_id)
            if (
                producer is None
                or producer.epoch != epoch
                or producer.next_sequence != sequence
                or producer.in_transaction != attributes & TRANSACTIONAL
            ):
                earlier = self.producer_state.check(
                    producer_id,
                    epoch,
                    sequence,
                    (sequence + delta) & SEQUENCE_MASK,
                    transactional=bool(attributes & TRANSACTIONAL),
                    verified=transaction_verified,
                    in_order=not trusted,
                )
                if earlier is not None:
                    time_ms = earlier.timestamp if self._broker_time else -1
                    return Appended(earlier.base_offset, earlier.last_offset, time_ms, self.start_offset, True)
                producer = None
        else:
            producer = None

        _place(records, 0, self.end_offset, length, leader_epoch)
        offset = self._write(records, delta, timestamp, now_ms)
        if leader_epoch != self._latest_epoch:
            self.begin_epoch(leader_epoch, offset)
        last_offset = offset + delta
        if producer is not None:
            producer.wrote(sequence, offset, last_offset, timestamp, now_ms)
        elif producer_id >= 0:
            self.producer_state.published(
                producer_id, epoch, sequence, offset, last_offset, timestamp, now_ms, attributes & TRANSACTIONAL
            )
        self.end_offset = last_offset + 1
        if self.keeps_last:
            self.last_batch = (offset, last_offset + 1, bytes(records)) if length <= KEPT_SIZE_MAX else None
        self._commit()
        return Appended(offset, last_offset, timestamp if self._broker_time else -1, self.start_offset, False)

    def _write(self, records: memoryview, delta: int, timestamp: int, now_ms: int) -> int:
        """Write a batch behind the last one and note where it stands; return its base offset."""
        size = len(records)
        offset = self.end_offset
        last_offset = offset + delta
        file = self._writer or self._open_active()
        segment = self.active
        position = segment.size
        if (
            position + size > self._segment_bytes
            or timestamp > segment.roll_after
            or now_ms > segment.roll_after_now
            or not segment.fits(last_offset)
            or segment.full
        ):
            file = self._roll_for(size)
            segment = self.active
            position = segment.size
        if self._torn:
            self._mend_tail()
        try:
            file.write((records,), position)
        except OSError as error:
            self._write_failed(error)

        if timestamp > segment.max_timestamp:
            segment.max_timestamp = timestamp
            segment.max_timestamp_offset = last_offset
        if segment.unindexed > segment.index_interval:
            segment.add_index_entry(last_offset, position)
        segment.unindexed += size
        segment.boundary_offsets.append(offset)
        segment.boundary_positions.append(position)
        segment.size = position + size
        if not position:
            self._first_batch(timestamp, now_ms)
        return offset

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> Appended:
        """End a producer's transaction with a control batch. Without an open transaction it is written all the same."""
        if self.damage is not None or self.directory.refusal is not None:
            self._check_storage()
        self.producer_state.check_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version=transaction_version
        )
        batch = encode_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            now_ms=now_ms,
            broker_time=self._broker_time,
        )
        _place(batch, 0, self.end_offset, len(batch) - LOG_OVERHEAD, leader_epoch)
        offset = self._write(memoryview(batch), 0, now_ms, now_ms)
        self.begin_epoch(leader_epoch, offset)
        marker = Marker(commit, coordinator_epoch)
        self.note_marker(
            producer_id, producer_epoch, marker, offset, now_ms, now_ms, transaction_version=transaction_version
        )
        self.end_offset = offset + 1
        self._commit()
        return Appended(offset, offset, now_ms if self._broker_time else -1, self.start_offset, False)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, first_sequence: int, *, starts_at_zero: bool
    ) -> Verification | None:
        """Call before the coordinator is asked about a transactional batch, and hand the result to `append`.

        None: the transaction is open here already, and nobody has to be asked. `starts_at_zero` is
        for clients of transaction version 2, whose every transaction begins a new epoch.
        """
        return self.producer_state.begin_verification(
            producer_id, producer_epoch, first_sequence, starts_at_zero=starts_at_zero
        )

    def append_replicated(
        self, records: memoryview, *, now_ms: int, gaps_below: int | None = None, gaps_before_epoch: int = 0
    ) -> Appended:
        """Append batches that have their offsets and epochs: a follower's, whose leader has judged them.

        From the offset `gaps_below` on compaction has left no gaps, at least among batches of the leader epoch
        `gaps_before_epoch` and later: offsets have no checksum.
        """
        if self.damage is not None or self.directory.refusal is not None:
            self._check_storage()
        return replicated.append_replicated(self, records, now_ms, gaps_below, gaps_before_epoch)

    # Reading

    def read(self, offset: int, *, max_bytes: int, end: int, at_least_one: bool = True) -> FileSlice | None:
        """Return whole batches from the one that holds the offset on, none of which reaches the offset `end`.

        None when there is nothing below `end`, or when not even one batch fits and none must.
        """
        if offset < self.start_offset or offset > self.end_offset:
            if self.damaged_from is not None and offset > self.end_offset:
                # Where a damaged log ended is perhaps not known.
                self._refuse_storage()
            raise OffsetOutOfRange(f"offset {offset} is outside {self.start_offset} to {self.end_offset}")
        if end > self.end_offset:
            end = self.end_offset
        if self.damaged_from is not None:
            if offset < self.damaged_from:
                end = min(end, self.damaged_from)
            elif not unreadable.may_look_again(self, offset):
                self._refuse_storage()
        if offset >= end:
            return None
        bases = self.bases
        slot = len(bases) - 1 if offset >= bases[-1] else bisect_right(bases, offset) - 1
        if slot < 0:
            slot = 0
        while slot < len(bases):
            segment = self.segments[slot]
            next_offset = bases[slot + 1] if slot + 1 < len(bases) else self.end_offset
            try:
                position = segment.find(offset)
                if position is not None:
                    size = segment.extent(
                        position, max_bytes=max_bytes, end=end, next_offset=next_offset, at_least_one=at_least_one
                    )
                    if position < segment.unchecked_end:
                        size = verified.servable(segment, offset, position, size, below=next_offset)
                        unreadable.was_read(self, offset)
                    return FileSlice(segment.file, position, size, self) if size else None
                verified.check_end(segment, offset, below=next_offset)
            except BadBatch as bad:
                self._refuse_damage(segment, bad)
            except OSError as error:
                unreadable.while_reading(self, segment, offset, error)
            self._refuse_gap(segment, offset, next_offset)
            slot += 1
        return None

    def read_failed(self, piece: FileSlice, error: OSError) -> None:
        """Learn that what `read` gave could not be read when it was sent."""
        unreadable.while_sending(self, piece, error)

    def read_last(self, offset: int) -> bytes | None:
        """The batch at an offset, if it is the newest and still at hand."""
        kept = self.last_batch
        if kept is None or kept[0] != offset or kept[1] != self.end_offset or self.damaged_from is not None:
            return None
        return kept[2]

    def distrust(self, offset: int) -> None:
        """Hold the segment of an offset against its checksums again: somebody has asked twice for what was sent."""
        self.last_batch = None
        verified.distrust(self.segments[max(bisect_right(self.bases, offset) - 1, 0)])

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return producer id and first offset of the aborted transactions that reach into a range, by first offset."""
        return self._guarded(lambda: aborted.in_range(self, start, end)) if self.any_aborted else []

    def aborted_in(self, offset: int, piece: FileSlice) -> list[tuple[int, int]]:
        """Return the aborted transactions that a reader needs with what `read` gave it for an offset."""
        if not self.any_aborted:
            return []
        slot = max(bisect_right(self.bases, offset) - 1, 0)
        while self.segments[slot].path != piece.file.path:
            slot += 1
        next_offset = self.bases[slot + 1] if slot + 1 < len(self.bases) else self.end_offset
        end = self.segments[slot].offset_bound(piece.position + piece.size, next_offset=next_offset)
        return self.aborted_transactions(offset, end)

    @property
    def first_unstable_offset(self) -> int | None:
        """The lowest offset of a transaction whose outcome is not final below the high watermark; None without one."""
        first = self.producer_state.first_unstable_offset
        return first if first is None or first >= self.start_offset else self.start_offset

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Count the transactions as ended whose markers nobody can take back any more."""
        self.producer_state.settle(high_watermark)

    def lookup_time(self, timestamp: int) -> Job[tuple[int, int, int] | None]:
        """Find timestamp, offset and epoch of the first record at or after a point in time."""
        return self._guarded_job(lambda: lookup.by_time(self, timestamp))

    def max_timestamp(self) -> Job[tuple[int, int, int]]:
        """Find timestamp, offset and epoch of the record with the largest timestamp; -1 each if there is none."""
        return self._guarded_job(lambda: lookup.of_max_timestamp(self))

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch not above the one given and the offset where it ends; (-1, -1) if unknown."""
        return self.epochs.end_of(epoch, self.end_offset)

    def producers(self) -> list[Producer]:
        return list(self.producer_state)

    # Cutting

    def advance_start(self, offset: int) -> None:
        """Hide everything before an offset (DeleteRecords); whole segments go with the next clean-up."""
        trim.advance_start(self, offset)

    def delete_old_segments(self, *, high_watermark: int, now_ms: int) -> int:
        """Drop whole segments that retention no longer wants; return how many."""
        return self._guarded(lambda: trim.delete_old_segments(self, high_watermark, now_ms))

    def remove_doomed_files(self, now_ms: int) -> None:
        """Remove the files whose delay is over."""
        trim.remove_doomed_files(self, now_ms)

    def truncate_to(self, offset: int) -> None:
        """Cut everything from an offset on: a follower whose log has parted from its leader's."""
        self.last_batch = None
        self.cut_count += 1
        self._guarded(lambda: trim.truncate_to(self, offset))
        self._latest_epoch = self.epochs.latest
        self._writer = None

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and begin anew at an offset."""
        self.last_batch = None
        self.cut_count += 1
        self._guarded(lambda: trim.truncate_fully_and_start_at(self, offset))
        self._latest_epoch = self.epochs.latest
        self._writer = None

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        return self.producer_state.expire(now_ms, expiration_ms)

    # Durability and the end

    def flush(self) -> None:
        """Make everything durable before returning. Blocks: for cold paths only."""
        try:
            self.flusher.now()
        except OSError as error:
            raise StorageError(f"{self.folder}: {error}") from error

    def flush_if_older_than(self, now_ms: int, age_ms: int) -> None:
        """Start a sync when there has been something to sync for so long (`flush.ms`)."""
        if self.flushed_offset >= self.end_offset:
            self._unflushed_since_ms = None
        elif self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
        elif now_ms - self._unflushed_since_ms >= age_ms:
            self._unflushed_since_ms = None
            self.flusher.start()

    def close(self, clean: bool = True) -> None:
        """Leave the folder; a clean close makes everything durable, so that the next open needs no scan."""
        if not clean or self.damage is not None or self.directory.failure is not None:
            return
        if self.end_offset == 0 or self.is_untouched():
            # Nothing ever came, or nothing since the last close: many such logs must not cost many syncs.
            return
        if self._torn:
            self._mend_tail()
        self.flush()
        if self._writer is not None:
            self.flusher.closed.append(self.active)
            self.active.close_for_append()
            self._writer = None
        self._guarded(self.flusher.indexes_now)
        snapshots.save_snapshot(self.directory.disk, self.folder, self.producer_state, self.end_offset, self.bases)
        self.save_epochs()
        aborted.save_checkpoint(self, closing=True)

    def is_untouched(self) -> bool:
        """Whether the folder is as a clean close left it."""
        return self._found == (self.start_offset, self.end_offset) and self._writer is None and not self.doomed

    def abandon(self) -> None:
        """Stop writing for good: the partition is deleted. Slices that were handed out stay readable."""
        self.is_abandoned = True
        self.damage = f"{self.folder} is deleted"
        self.on_durable = lambda: None
        self.flusher.stop()
