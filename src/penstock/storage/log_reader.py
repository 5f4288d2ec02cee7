"""Reads of a log: the file slice for a fetch, and the handling of read errors.

`read` is the hot path of every fetch: it finds the segment, the batch and the end of the slice, and parses no record.
The newest batch is kept in memory while followers fetch it. Calls segment.py, checked_ranges.py for bytes that an
earlier process wrote, and unreadable.py for I/O errors. Refuses: OffsetOutOfRange, StorageError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from penstock.model.errors import OffsetOutOfRange
from penstock.ports.network import FileSlice
from penstock.storage import checked_ranges
from penstock.storage.scan import BadBatch
from penstock.storage.unreadable import ReadErrors

if TYPE_CHECKING:
    from penstock.storage.log import Log
    from penstock.storage.segment import Segment

KEPT_SIZE_MAX: Final = 4096
"""A batch up to this size is kept for followers: reading it from the file would cost more than the copy."""


class LogReader:
    """Reads one log."""

    __slots__ = ("_log", "_offsets", "_quarantine", "_read_errors", "_segments", "keeps_last", "last_batch")

    def __init__(self, log: Log) -> None:
        self._segments = log.segments
        self._offsets = log.offsets
        self._quarantine = log.quarantine
        self._log = log
        self._read_errors: ReadErrors | None = None
        self.keeps_last = False
        """Whether followers fetch the newest batch."""
        self.last_batch: tuple[int, int, bytes] | None = None
        """The offset, next offset and bytes of the newest batch, if it is kept."""

    @property
    def _errors(self) -> ReadErrors:
        """Return the read errors of the log; few of thousands of logs ever have one."""
        if self._read_errors is None:
            self._read_errors = ReadErrors(self._log)
        return self._read_errors

    def read(self, offset: int, *, max_bytes: int, end: int, at_least_one: bool = True) -> FileSlice | None:
        """Return whole batches from the one that contains the offset, all below the offset `end`.

        None if there are no records below `end`, or if the first batch does not fit and `at_least_one` is False.
        """
        offsets, damaged_from = self._offsets, self._quarantine.damaged_from
        log_end = offsets.end
        if offset < offsets.start or offset > log_end:
            if damaged_from is not None and offset > log_end:
                # The real end of a damaged log may be unknown.
                self._quarantine.refuse()
            raise OffsetOutOfRange(f"offset {offset} is not between {offsets.start} and {log_end}")
        if end > log_end:
            end = log_end
        if damaged_from is not None:
            if offset < damaged_from:
                end = min(end, damaged_from)
            elif not self._errors.may_retry(offset):
                self._quarantine.refuse()
        if offset >= end:
            return None
        segments = self._segments
        bases = segments.bases
        slot, segment = len(bases) - 1, segments.active
        if offset < bases[-1]:
            slot = segments.slot_of(offset)
            segment = segments[slot]
        next_offset = bases[slot + 1] if slot + 1 < len(bases) else log_end
        try:
            position = segment.find(offset)
            if position is not None:
                size = segment.extent(
                    position, max_bytes=max_bytes, end=end, next_offset=next_offset, at_least_one=at_least_one
                )
                if position < segment.unchecked_end:
                    return self._unchecked(segment, offset, position, size, next_offset)
                return FileSlice(segment.file, position, size, self) if size else None
            checked_ranges.check_end(segment, offset, below=next_offset)
        except BadBatch as bad:
            self._quarantine.refuse_damage(segment, bad)
        except OSError as error:
            self._errors.on_read_error(segment, offset, error)
        self._quarantine.refuse_gap(segment, offset, next_offset)

    def _unchecked(self, segment: Segment, offset: int, position: int, size: int, next_offset: int) -> FileSlice | None:
        """Check bytes that an earlier process wrote, and return those that are valid."""
        valid_size = checked_ranges.servable(segment, offset, position, size, below=next_offset)
        if self._read_errors is not None:
            self._read_errors.on_read_success(offset)
        if not valid_size:
            return None
        piece = FileSlice(segment.file, position, valid_size, self)
        piece.is_cut = valid_size < size
        return piece

    def read_failed(self, piece: FileSlice, error: OSError) -> None:
        """Handle a read error while a slice was being sent."""
        self._errors.on_send_error(piece, error)

    def on_read_error(self, segment: Segment, offset: int, error: OSError) -> NoReturn:
        """Raise StorageError after an I/O error; quarantine the log if the error persists."""
        self._errors.on_read_error(segment, offset, error)

    def recheck(self, offset: int) -> None:
        """Verify the segment of an offset again, because a follower requested the same records twice."""
        self.last_batch = None
        checked_ranges.recheck(self._segments[self._segments.slot_of(offset)])

    # The newest batch

    def read_last(self, offset: int) -> bytes | None:
        """Return the batch at an offset if it is the newest and kept in memory."""
        kept = self.last_batch
        if kept is None or kept[0] != offset or kept[1] != self._offsets.end:
            return None
        return None if self._quarantine.damaged_from is not None else kept[2]

    def keep_last(self, keeps: bool) -> None:
        """Start or stop keeping the newest batch in memory."""
        self.keeps_last = keeps
        if not keeps:
            self.last_batch = None

    def note_last(self, offset: int, next_offset: int, batch: memoryview) -> None:
        """Keep the newest batch, if it is small."""
        self.last_batch = (offset, next_offset, bytes(batch)) if len(batch) <= KEPT_SIZE_MAX else None

    def forget_last(self) -> None:
        """Drop the newest batch, because every follower has it or it was truncated."""
        self.last_batch = None
