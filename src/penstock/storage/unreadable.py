"""Failed reads of a log, by a handler or while a response is sent: logged, counted, and quarantined if they persist.

| error                                          | action                                                            |
|------------------------------------------------|-------------------------------------------------------------------|
| the file is shorter than what was written      | the log is quarantined from the first incomplete batch            |
| an I/O error                                   | the segment is verified again before it is served; reads of the   |
|                                                | unreadable part get StorageError until it is readable             |
| an I/O error at one offset for `LASTING_S`     | the log is quarantined from that offset on; the quarantine ends   |
|                                                | when the offset is fetched and can be read                        |
| bytes that were truncated or replaced          | none: the reader fetches again                                    |

If the disk recovers, readers have received some StorageErrors and nothing else happens. With other replicas, a
quarantined log is copied again (replication/repair.py), whether or not its disk recovers. Called by log_reader.py.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NoReturn

from penstock.model.errors import Corruption, StorageError
from penstock.storage import checked_ranges
from penstock.storage.directory import UNREADABLE
from penstock.storage.scan import BadBatch
from penstock.wire.batch import HEADER_SIZE, LOG_OVERHEAD

if TYPE_CHECKING:
    from penstock.ports.network import FileSlice
    from penstock.storage.log import Log
    from penstock.storage.segment import Segment

logger = logging.getLogger(__name__)

LASTING_S: Final = 2.0
# Errors that are further apart count as unrelated.
FORGOTTEN_S: Final = 10.0
LOG_INTERVAL_S: Final = 10.0
# At most this many offsets of a log are watched; one persistent error is enough.
OFFSETS_MAX: Final = 16


class UnreadableOffset:
    """When an offset became unreadable, when it was last tried, and whether the log is quarantined because of it."""

    __slots__ = ("is_quarantined", "last", "since")

    def __init__(self, now: float) -> None:
        self.since = self.last = now
        self.is_quarantined = False


class ReadErrors:
    """The recent failed reads of one log."""

    __slots__ = ("_log", "_logged_at", "_offsets")

    def __init__(self, log: Log) -> None:
        self._log = log
        # Offsets where reads recently failed with an I/O error, and when that was last logged.
        self._offsets: dict[int, UnreadableOffset] = {}
        self._logged_at: float | None = None

    def on_send_error(self, piece: FileSlice, error: OSError) -> None:
        """Handle a read error while a slice of the log was being sent."""
        segment = next((each for each in self._log.segments if each.path == piece.file.path), None)
        if segment is None or self._log.is_abandoned or piece.position + piece.size > segment.size:
            logger.info(
                "%s was truncated or replaced while %d bytes at position %d were sent",
                piece.file.path,
                piece.size,
                piece.position,
            )
            return
        self._note(f"cannot send {piece.size} bytes at position {piece.position} of {segment.path}: {error}")
        try:
            if not _quarantined_short(self._log, segment):
                checked_ranges.recheck(segment)
        except OSError:
            checked_ranges.recheck(segment)

    def on_read_error(self, segment: Segment, offset: int, error: OSError) -> NoReturn:
        """Raise StorageError after an I/O error; quarantine the log if the error persists."""
        why = f"cannot read {segment.path} at offset {offset}: {error}"
        self._note(why)
        now = self._log.directory.monotonic()
        failure = self._offsets.get(offset)
        if failure is None:
            self._offsets = {
                other: other_failure
                for other, other_failure in self._offsets.items()
                if other_failure.is_quarantined or now - other_failure.last < FORGOTTEN_S
            }
            if len(self._offsets) < OFFSETS_MAX:
                self._offsets[offset] = UnreadableOffset(now)
            raise StorageError(why) from error
        if now - failure.last >= FORGOTTEN_S:
            failure.since = now
        failure.last = now
        if now - failure.since >= LASTING_S and error.errno in UNREADABLE:
            self._log.quarantine.begin(offset, why)
            failure.is_quarantined = self._log.damaged_from == offset
        raise StorageError(why) from error

    def may_retry(self, offset: int) -> bool:
        """Return whether to read a quarantined log again: the disk may have recovered from the I/O error."""
        failure = self._offsets.get(offset)
        if failure is None or not failure.is_quarantined or self._log.damaged_from != offset:
            return False
        now = self._log.directory.monotonic()
        if now - failure.last < LASTING_S:
            return False
        failure.last = now
        return True

    def on_read_success(self, offset: int) -> None:
        """Record that an offset could be read; end the quarantine if this was its cause."""
        failure = self._offsets.pop(offset, None) if self._offsets else None
        if failure is not None and failure.is_quarantined and self._log.damaged_from == offset:
            self._log.quarantine.lift()

    def _note(self, what: str) -> None:
        directory = self._log.directory
        directory.read_failures += 1
        now = directory.monotonic()
        if self._logged_at is None or now - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = now
            logger.error("%s", what)


def _quarantined_short(log: Log, segment: Segment) -> bool:
    """Quarantine the log if a segment's file is shorter than what was written to it; return whether it is."""
    end = segment.file.size()
    if end >= segment.size:
        return False
    why = f"{segment.path} has {end} bytes, but {segment.size} were written to it"
    log.quarantine.begin(_first_missing(segment, end), why)
    return True


def _first_missing(segment: Segment, end: int) -> int:
    """Return the base offset of the first incomplete batch in a file that ends at a position."""
    if segment.boundary_positions and end >= segment.boundary_positions[0]:
        return segment.boundary_offsets[bisect_right(segment.boundary_positions, end) - 1]
    try:
        segment.ensure_indexed()
        slot = bisect_right(segment.offset_index.positions, end - HEADER_SIZE) - 1
        position = segment.offset_index.positions[slot] if slot >= 0 else 0
    except (BadBatch, Corruption):
        position = 0
    offset = segment.base_offset
    try:
        for at, header in segment.headers_from(position):
            # The header may be complete while its records are missing.
            if at + header[1] + LOG_OVERHEAD > end:
                return header[0]
            offset = header[0] + header[6] + 1
    except BadBatch:
        pass
    return offset
