"""One partition's log: append, read, query and truncate.

`Log` is a facade over parts with one job each, listed in docs/internals/log.md. `append` is the hot path of every
produce request: check the header, verify the checksum, set offset and epoch in place, write once, then update indexes
and producer state, without awaiting anything. recovery.py opens logs, trim.py truncates them. Refuses: everything that
validate.py and producer_state.py refuse, OffsetOutOfRange, RecordListTooLarge, and StorageError for a failed disk or
damaged records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from struct import error as StructError
from typing import Final

from crc32c import crc32c

from penstock.config.settings import TopicSettings
from penstock.model.errors import CorruptMessage, StorageError
from penstock.model.ids import NO_OFFSET, TopicId, TopicPartition
from penstock.model.job import Job
from penstock.ports.network import FileSlice
from penstock.storage import (
    aborted,
    closing,
    lookup,
    producer_snapshots,
    recovery,
    replicated,
    small_batches,
    trim,
    validate,
)
from penstock.storage.appended import Appended
from penstock.storage.compaction.state import CompactionState
from penstock.storage.delayed_deletes import DelayedDeletes
from penstock.storage.directory import LogDirectory
from penstock.storage.epoch_cache import UNSYNCED_SIZE_MAX
from penstock.storage.flush import Flusher
from penstock.storage.log_checkpoints import NO_CHECKPOINTS, LogCheckpoints
from penstock.storage.log_offsets import LogOffsets
from penstock.storage.log_reader import LogReader
from penstock.storage.log_segments import LogSegments
from penstock.storage.producer_state import SEQUENCE_MASK, EndedTransaction, Producer
from penstock.storage.quarantine import Quarantine
from penstock.storage.recovered import NO_EXPECTATIONS, LogExpectations, Recovered
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Segment
from penstock.storage.segment_writer import SegmentWriter
from penstock.storage.verification_guard import VerificationGuard
from penstock.wire.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    set_log_append_time,
    unpack_header,
)
from penstock.wire.compression import check_codec_frame
from penstock.wire.record_heads import RECORD_SIZE_LEAST

__all__ = ["Appended", "Log"]

_pack_offset_and_epoch: Final = Struct(">qii").pack_into
_ORDINARY_MASK: Final = CODEC_MASK | TRANSACTIONAL
_RECORD_SIZE_LEAST: Final = RECORD_SIZE_LEAST


class Log:
    """Batches from `start_offset` up to, not including, `end_offset`; durable below `durable_offset`."""

    __slots__ = (
        "__weakref__",
        "_end_at_open",
        "_start_at_open",
        "any_aborted",
        "checkpoints",
        "clock_wall_ms",
        "compaction",
        "deletes",
        "directory",
        "epochs",
        "flusher",
        "folder",
        "is_abandoned",
        "offsets",
        "producer_state",
        "quarantine",
        "reader",
        "recovery_notes",
        "rules",
        "segment_list",
        "segments",
        "topic_id",
        "topic_partition",
        "truncation_count",
        "writer",
    )

    def __init__(
        self,
        directory: LogDirectory,
        folder: str,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        state: Recovered,
        clock_wall_ms: Callable[[], int],
    ) -> None:
        self.directory = directory
        self.folder = folder
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.clock_wall_ms = clock_wall_ms
        self.segments = LogSegments(state.segments)
        self.offsets = LogOffsets(start=state.start_offset, flushed=state.flushed_offset, end=state.end_offset)
        self.epochs = state.epochs
        self.segment_list = state.segment_list
        self.producer_state = state.producers
        self.quarantine = Quarantine(self, state)
        self.reader = LogReader(self)
        self.flusher = Flusher(self, state)
        self.writer = SegmentWriter(self)
        self.compaction = CompactionState()
        self.deletes = DelayedDeletes(directory)
        self.checkpoints = NO_CHECKPOINTS
        self.recovery_notes = tuple(state.notes)
        """Messages about what recovery did."""
        self.any_aborted = not aborted.none_in(state.segments)
        """Whether the log may contain aborted transactions; every read_committed fetch checks this."""
        self.is_abandoned = False
        self.truncation_count = 0
        """The number of truncations, so that jobs that read in slices notice one."""
        # The start and end offset when the log was opened after a clean close; otherwise no offsets.
        self._start_at_open: int = NO_OFFSET
        self._end_at_open: int = NO_OFFSET
        self.apply_settings(settings)

    @classmethod
    def opening(
        cls,
        directory: LogDirectory,
        folder: str,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        settings: TopicSettings,
        *,
        clock_wall_ms: Callable[[], int],
        clean: bool,
        known: LogExpectations = NO_EXPECTATIONS,
    ) -> Job[Log]:
        """Open the log in a folder, which is created if it is missing; recover it unless it was closed cleanly."""
        now_ms = clock_wall_ms()
        state = yield from recovery.recovering(directory, folder, settings, now_ms=now_ms, clean=clean, known=known)
        log = cls(directory, folder, topic_partition, topic_id, settings, state, clock_wall_ms)
        if clean and not state.notes:
            log._start_at_open, log._end_at_open = log.start_offset, log.end_offset
        return log

    @property
    def settings(self) -> TopicSettings:
        return self.rules.settings

    def apply_settings(self, settings: TopicSettings) -> None:
        """Use other settings from the next append on."""
        self.rules = validate.rules_of(settings)
        self.writer.apply_settings(settings)
        self.flusher.apply_settings(settings)

    def use_checkpoints(self, checkpoints: LogCheckpoints) -> None:
        self.checkpoints = checkpoints

    # Values of the parts. The hot path uses the parts directly.

    @property
    def start_offset(self) -> int:
        return self.offsets.start

    @property
    def end_offset(self) -> int:
        return self.offsets.end

    @property
    def durable_offset(self) -> int:
        return self.offsets.durable

    @property
    def recovery_point(self) -> int:
        """Return the offset whose segment is the first that recovery scans after a crash."""
        return self.flusher.recovery_point

    @property
    def size(self) -> int:
        return self.segments.size

    @property
    def damage(self) -> str | None:
        """Return a description of the damage for people, None if there is none."""
        return self.quarantine.damage

    @property
    def damaged_from(self) -> int | None:
        """Return the first offset that is not served because of damage."""
        return self.quarantine.damaged_from

    # Writing

    def prepare(self, records: memoryview, now_ms: int) -> Job[validate.Prepared]:
        """Prepare a batch for which `append` raised Unprepared."""
        return validate.prepare(records, self.settings, now_ms)

    # `trusted` is for batches that this node creates (the metadata log, coordinators): only checksum, size and producer
    # epoch are checked, and control batches are accepted. A transactional batch needs `transaction_verified` unless its
    # transaction is already open in this partition: the guard that `begin_verification` returned before the request to
    # the coordinator, or True if nothing could happen in between. Unprepared is raised for a batch that is valid as far
    # as can be checked without reading its records: call `prepare`, and append again with its result as `prepared`.
    def append(
        self,
        records: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        trusted: bool = False,
        transaction_verified: VerificationGuard | bool = False,
        prepared: validate.Prepared | None = None,
    ) -> Appended:
        """Append one batch of a client and assign its offsets in place. The arguments are explained above."""
        if self.quarantine.damage is not None or self.directory.refusal is not None:
            self.quarantine.check_append()
        size = len(records)
        rules = self.rules
        try:
            base, length, _, magic, crc, attributes, delta, _, timestamp, producer_id, epoch, sequence, count = (
                unpack_header(records)
            )
        except StructError:
            raise CorruptMessage(f"a batch of {size} bytes is smaller than a batch header") from None
        codec = attributes & CODEC_MASK
        # Ordinary batches pass these comparisons; `_check_unusual` accepts or names the error of the others.
        if (
            (length + LOG_OVERHEAD != size or magic != MAGIC or count != delta + 1 or count <= 0 or base)
            or (attributes & ~_ORDINARY_MASK or size > rules.max_message_bytes)
            or (sequence < 0 if producer_id >= 0 else attributes & TRANSACTIONAL)
            or crc32c(records[ATTRIBUTES_AT:]) != crc
            or (
                not check_codec_frame(codec, records[HEADER_SIZE:])
                if codec
                else size < HEADER_SIZE + count * _RECORD_SIZE_LEAST
            )
        ):
            self._check_unusual(records, trusted=trusted)
        if count <= small_batches.FOLLOWED_COUNT_MAX and not codec and not trusted:
            small_batches.check(records, count)
        if (rules.changes_batches or timestamp - now_ms > rules.timestamp_after_max_ms) and not trusted:
            records, timestamp = self._apply_rules(records, timestamp, now_ms, prepared)
            length = len(records) - LOG_OVERHEAD
        producer = None
        if producer_id >= 0:
            producer = self.producer_state.producers.get(producer_id)
            if (
                producer is None
                or producer.epoch != epoch
                or producer.next_sequence != sequence
                or producer.in_transaction != attributes & TRANSACTIONAL
            ):
                duplicate = self._check_producer(records, trusted=trusted, verified=transaction_verified)
                if duplicate is not None:
                    return duplicate
                producer = None

        offset = self.offsets.end
        last_offset = offset + delta
        _pack_offset_and_epoch(records, 0, offset, length, leader_epoch)
        self.writer.write(records, offset, last_offset, timestamp, now_ms)
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, offset)
        if producer is not None:
            producer.wrote(sequence, offset, last_offset, timestamp, now_ms)
        elif producer_id >= 0:
            self.producer_state.batch_appended(
                producer_id, epoch, sequence, offset, last_offset, timestamp, now_ms, attributes & TRANSACTIONAL
            )
        if self.reader.keeps_last:
            self.reader.note_last(offset, last_offset + 1, records)
        self.flusher.appended(last_offset + 1)
        return Appended(offset, last_offset, timestamp if rules.broker_time else -1, self.offsets.start, False)

    def _check_unusual(self, records: memoryview, *, trusted: bool) -> None:
        if trusted:
            replicated.check_own_batch(records)
        else:
            validate.explain(records, max_message_bytes=self.rules.max_message_bytes)

    def _apply_rules(
        self, records: memoryview, timestamp: int, now_ms: int, prepared: validate.Prepared | None
    ) -> tuple[memoryview, int]:
        """Return the batch to store under the topic's settings, and its timestamp."""
        rules = self.rules
        if rules.opens_batches or not rules.broker_time:
            if prepared is None or prepared.settings is not rules.settings:
                raise validate.Unprepared
            records = prepared.records
        if rules.broker_time:
            set_log_append_time(records, now_ms)
            timestamp = now_ms
        return records, timestamp

    def _check_producer(
        self, records: memoryview, *, trusted: bool, verified: VerificationGuard | bool
    ) -> Appended | None:
        """Check a batch that does not simply follow its producer's last one; return the result for a duplicate."""
        header = BatchHeader.at(records)
        earlier = self.producer_state.check(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK,
            transactional=bool(header.attributes & TRANSACTIONAL),
            verified=verified,
            in_order=not trusted,
        )
        if earlier is None:
            return None
        time_ms = earlier.timestamp if self.rules.broker_time else -1
        return Appended(earlier.base_offset, earlier.last_offset, time_ms, self.offsets.start, True)

    def append_replicated(
        self, records: memoryview, *, now_ms: int, gaps_below: int | None = None, gaps_before_epoch: int = 0
    ) -> Appended:
        """Append batches that already have offsets and epochs, as a follower does: the leader has validated them.

        Compaction leaves gaps below the offset `gaps_below`, and in batches of earlier epochs than `gaps_before_epoch`.
        Any other gap is a corrupt base offset, which no checksum covers.
        """
        if self.quarantine.damage is not None or self.directory.refusal is not None:
            self.quarantine.check_append()
        return replicated.append_replicated(self, records, now_ms, gaps_below, gaps_before_epoch)

    def begin_epoch(self, epoch: int, offset: int) -> None:
        """Record the start offset of an epoch; ignore an epoch that is not newer than the latest."""
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, offset)

    def drop_unwritten_epochs(self) -> None:
        """Remove epochs in which this node led without writing anything, when it stops being the leader."""
        self.epochs.truncate_end(self.end_offset)

    def save_epochs(self) -> bool:
        """Save the epochs, which must be on disk before a later recovery point; return whether they are or need not."""
        if self.segments.is_small:
            return True
        if self.size > UNSYNCED_SIZE_MAX:
            self.epochs.save_later()
        else:
            with suppress(OSError):
                self.epochs.write(is_durable=True)
        return not self.epochs.dirty

    def save_snapshot(self) -> None:
        """Save the producer state at the end of the log. Errors of a full disk are ignored."""
        disk, bases = self.directory.disk, self.segments.bases
        producer_snapshots.save_snapshot(disk, self.folder, self.producer_state, self.end_offset, bases)

    def note_aborted(self, transaction: EndedTransaction) -> None:
        """Record a transaction whose abort marker was written to the active segment."""
        self.segments.active.txn_index.append(transaction)
        self.any_aborted = True

    def roll(self) -> None:
        """Close the active segment and begin another, unless it is empty."""
        self.writer.roll()

    # Reading

    def read(self, offset: int, *, max_bytes: int, end: int, at_least_one: bool = True) -> FileSlice | None:
        """Call `LogReader.read`. The hot path uses the reader directly."""
        return self.reader.read(offset, max_bytes=max_bytes, end=end, at_least_one=at_least_one)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return producer id and first offset of the aborted transactions that overlap a range, by first offset."""
        return self.quarantine.guard(lambda: aborted.in_range(self, start, end)) if self.any_aborted else []

    def aborted_in(self, offset: int, piece: FileSlice) -> list[tuple[int, int]]:
        """Return the aborted transactions that a consumer needs together with the slice that `read` returned."""
        if not self.any_aborted:
            return []
        slot = self.segments.slot_of(offset)
        while self.segments[slot].path != piece.file.path:
            slot += 1
        segment, next_offset = self.segments[slot], self.segments.end_of(slot, self.end_offset)
        try:
            end = segment.offset_bound(piece.position + piece.size, next_offset=next_offset)
        except BadBatch as bad:
            self.quarantine.refuse_damage(segment, bad)
        return self.aborted_transactions(offset, end)

    @property
    def first_unstable_offset(self) -> int | None:
        """Return the first offset of the oldest transaction that has not ended below the high watermark, or None."""
        first = self.producer_state.first_unstable_offset
        return first if first is None or first >= self.offsets.start else self.offsets.start

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Finish the transactions whose markers are below the high watermark."""
        self.producer_state.high_watermark_moved(high_watermark)

    def lookup_time(self, timestamp: int) -> Job[tuple[int, int, int] | None]:
        """Find timestamp, offset and epoch of the first record at or after a timestamp."""
        return self.quarantine.guard_job(lambda: lookup.by_time(self, timestamp))

    def max_timestamp(self) -> Job[tuple[int, int, int]]:
        """Find timestamp, offset and epoch of the record with the largest timestamp; -1 each if there is none."""
        return self.quarantine.guard_job(lambda: lookup.of_max_timestamp(self))

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch not above the one given and the offset where it ends; (-1, -1) if unknown."""
        return self.epochs.end_of(epoch, self.end_offset)

    def producers(self) -> list[Producer]:
        return list(self.producer_state)

    # Truncation

    def advance_start(self, offset: int) -> None:
        """Delete everything before an offset (DeleteRecords); the next retention run removes whole segments."""
        trim.advance_start(self, offset)

    def delete_old_segments(self, *, high_watermark: int, now_ms: int) -> int:
        """Remove the segments that retention no longer keeps; return how many."""
        return self.quarantine.guard(lambda: trim.delete_old_segments(self, high_watermark, now_ms))

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace adjacent segments by one. Slices of the old files stay valid."""
        self.segments.replace(old, new)
        for segment in old:
            self.flusher.drop(segment)
            self.directory.open_files.forget(segment.path)
        self._end_at_open = NO_OFFSET

    def truncate_to(self, offset: int) -> None:
        """Remove everything from an offset on, as a follower does whose log diverges from its leader's."""
        self._truncate(lambda: trim.truncate_to(self, offset))

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything and start at an offset."""
        self._truncate(lambda: trim.truncate_fully_and_start_at(self, offset))

    def _truncate(self, cut: Callable[[], None]) -> None:
        self.reader.forget_last()
        self.truncation_count += 1
        self.quarantine.guard(cut)
        self.writer.forget_file()

    # Durability and closing

    def flush(self) -> None:
        """Make everything durable before returning. Blocks, so for cold paths only."""
        try:
            self.flusher.now()
        except OSError as error:
            raise StorageError(f"{self.folder}: {error}") from error

    def close(self, clean: bool = True) -> None:
        """Close the log; a clean close makes everything durable, so that the next open needs no scan."""
        if clean and self.needs_close():
            closing.close_one(self)

    def needs_close(self) -> bool:
        """Return whether a clean close has anything to do: many empty or unchanged logs must not cost many syncs."""
        is_closed = self.end_offset == 0 or self.is_untouched()
        return not is_closed and self.damage is None and self.directory.failure is None

    def is_untouched(self) -> bool:
        """Return whether the folder is unchanged since the last clean close."""
        return (
            self._start_at_open == self.start_offset
            and self._end_at_open == self.end_offset
            and not self.writer.is_open
            and not self.deletes
        )

    def abandon(self) -> None:
        """Stop all writes, because the partition is deleted. Slices that were returned stay readable."""
        self.is_abandoned = True
        self.directory.open_writers.forget(self)
        # An open file occupies the disk even if it is removed.
        self.writer.forget_file()
        for segment in self.segments:
            segment.release_file()
            self.directory.open_files.forget(segment.path)
        self.quarantine.refuse_appends(f"{self.folder} is deleted")
        self.flusher.stop()
