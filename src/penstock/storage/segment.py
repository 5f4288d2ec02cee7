"""One segment of a log: the `.log` file with its indexes.

Finds the batch that contains an offset and the end of a read from the boundaries of the newest batches, the ends of
earlier reads, the offset index, and finally the batch headers. Every index entry is compared with the header that it
points to before it is used. Raises BadBatch if the log is damaged.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from penstock.model.errors import Corruption
from penstock.model.ids import NO_TIMESTAMP
from penstock.model.job import Job, finish
from penstock.ports.disk import File
from penstock.storage.checked_ranges import CheckedRanges
from penstock.storage.directory import LogDirectory
from penstock.storage.index_builder import HEADERS_PER_SLICE, IndexBuilder, indexed_max_timestamp
from penstock.storage.offset_index import OffsetIndex
from penstock.storage.scan import OFFSET_MAX, BadBatch, header_error, scan_batches
from penstock.storage.search_hints import NO_HINTS
from penstock.storage.time_index import TimeIndex
from penstock.storage.txn_index import TxnIndex
from penstock.wire.batch import HEADER_SIZE, LOG_OVERHEAD, HeaderTuple, unpack_header

NEVER: Final = 1 << 62
# The boundaries of this many of the newest batches are kept, 16 bytes each.
BOUNDARIES_MAX: Final = 8192
# Boundaries are dropped when an index entry is added, so entries must not be arbitrarily far apart.
INDEX_INTERVAL_MAX: Final = 1024 * 1024
# An index that ends this far before its log has lost entries.
INDEX_LAG_MAX: Final = 8 * 1024 * 1024
# 512 entries cover 2 MiB of log, so that writes to the index are rare compared with those to the log.
UNSAVED_INDEX_SIZE_MAX: Final = 4096
SMALL_SIZE_MAX = 16 * 1024
"""A segment up to this size is read as a whole, in less time than its index files take: they are neither read nor
written until it is closed. docs/internals/log.md says what follows for the other derived files."""


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


class Damaged(Exception):
    """A scan of a segment found bytes that are not a batch."""

    def __init__(self, segment: "Segment", bad: BadBatch) -> None:
        super().__init__(str(bad))
        self.segment = segment
        self.bad = bad


class Segment:
    """The batches from `base_offset` on, with a total of `size` bytes."""

    __slots__ = (
        "_hints",
        "_indexed",
        "_timed",
        "_writer",
        "base_offset",
        "boundary_offsets",
        "boundary_positions",
        "checked",
        "created_ms",
        "directory",
        "first_open_before",
        "first_timestamp",
        "folder",
        "full",
        "index_interval",
        "index_size_max",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "path",
        "roll_after",
        "roll_after_now",
        "size",
        "time_index",
        "txn_index",
        "unchecked_end",
        "unindexed",
    )

    def __init__(
        self,
        directory: LogDirectory,
        folder: str,
        base_offset: int,
        *,
        size: int,
        index_interval: int,
        index_size_max: int,
        created_ms: int,
    ) -> None:
        self.directory = directory
        self.folder = folder
        self.base_offset = base_offset
        self.path = path = f"{folder}/{file_name(base_offset, '.log')}"
        self.size = size
        self.index_interval = min(index_interval, INDEX_INTERVAL_MAX)
        self.index_size_max = index_size_max
        self.created_ms = created_ms
        # Whether an index is full.
        self.full = False
        self.offset_index = OffsetIndex(path, base_offset)
        self.time_index = TimeIndex(path, base_offset)
        self.txn_index = TxnIndex(path, base_offset, loaded=size == 0)
        # The lowest first offset of the transactions that were open at the beginning of the segment, once it was read.
        self.first_open_before: int | None = None
        self.max_timestamp: int = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.first_timestamp: int | None = None
        self.roll_after = self.roll_after_now = NEVER
        # Bytes of log since the last index entry.
        self.unindexed = 0
        self.boundary_offsets, self.boundary_positions = array("q"), array("q")
        self._indexed = self._timed = size == 0
        self._writer: File | None = None
        self._hints = NO_HINTS
        # Bytes before this position were written by an earlier process; `checked` has the ranges that were verified.
        self.unchecked_end = size
        self.checked: CheckedRanges | None = CheckedRanges() if size else None

    @property
    def is_small(self) -> bool:
        """Return whether everything about the segment is derived from its batches, and not from other files."""
        return self.size <= SMALL_SIZE_MAX

    # Files

    @property
    def file(self) -> File:
        """Return the handle for reads; for the active segment it is the one used for writes."""
        return self._writer or self.directory.open_files.get(self.path)

    def open_for_append(self) -> File:
        if self._writer is None:
            self.ensure_timed()
            self._writer = self.directory.disk.open(self.path, create=self.size == 0)
            self.directory.open_files.forget(self.path)
        return self._writer

    def release_file(self) -> None:
        """Close the file of the active segment until it is written to again. Slices that use it stay readable."""
        self._writer = None

    def save_indexes(self) -> tuple[File, File]:
        """Write unsaved index entries and return the files, for a sync. Raises OSError."""
        disk = self.directory.disk
        self.txn_index.save_if_any(disk)
        return self.offset_index.save(disk), self.time_index.save(disk)

    def close_for_append(self) -> None:
        """Make this an inactive segment; add the largest timestamp as the last entry of the time index."""
        if self.max_timestamp >= 0:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self._writer = None
        self.forget_boundaries()

    def forget_boundaries(self) -> None:
        self.boundary_offsets, self.boundary_positions = array("q"), array("q")

    def paths(self) -> tuple[str, ...]:
        return self.path, self.offset_index.path, self.time_index.path, self.txn_index.path

    def rename(self, change: Callable[[str], str]) -> None:
        """Rename the files, which are then read under their new names. An OSError may leave some of them renamed."""
        self.directory.open_files.forget(self.path)
        for part in (self, self.offset_index, self.time_index, self.txn_index):
            target = change(part.path)
            if target != part.path:
                with suppress(FileNotFoundError):
                    self.directory.disk.rename(part.path, target)
                part.path = target

    # Writing

    def added(self, base_offset: int, last_offset: int, position: int, size: int, max_timestamp: int) -> None:
        """Record a batch that was written at a position."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.unindexed > self.index_interval:
            self.add_index_entry(last_offset, position)
        self.unindexed += size
        self.boundary_offsets.append(base_offset)
        self.boundary_positions.append(position)
        self.size = position + size

    def add_index_entry(self, last_offset: int, position: int) -> None:
        self.offset_index.append(last_offset, position)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.unindexed = 0
        # The time index keeps room for the entry that closing adds.
        self.full = (
            len(self.offset_index) >= self.index_size_max // self.offset_index.entry_size
            or len(self.time_index) >= self.index_size_max // self.time_index.entry_size - 1
        )
        if self.offset_index.unsaved_size() >= UNSAVED_INDEX_SIZE_MAX:
            # If the disk is full, the entries wait for the next attempt.
            with suppress(OSError):
                self.save_indexes()
        if len(self.boundary_offsets) > BOUNDARIES_MAX:
            del self.boundary_offsets[: BOUNDARIES_MAX // 2]
            del self.boundary_positions[: BOUNDARIES_MAX // 2]

    def set_roll_times(self, roll_ms: int) -> None:
        """Set when the segment rolls: by record timestamps if the first batch has one, otherwise by the clock."""
        self.roll_after = self.roll_after_now = NEVER
        if self.size == 0:
            return
        if self.first_timestamp is None:
            self.first_timestamp = self.header_at(0)[8]
        if self.first_timestamp >= 0:
            self.roll_after = self.first_timestamp + roll_ms
        else:
            self.roll_after_now = self.created_ms + roll_ms

    def truncate(self, position: int, offset: int) -> None:
        """Durably truncate the file at the beginning of a batch, which has this base offset."""
        file = self.open_for_append()
        self.directory.disk.cut(file, position)
        file.sync()
        self.size = position
        was_indexed = len(self.offset_index) > 0
        self.offset_index.truncate(position)
        self.time_index.truncate(offset)
        self.txn_index.expected = None
        if self.txn_index.loaded:
            self.txn_index.truncate(offset)
        self.forget_boundaries()
        self._hints = NO_HINTS
        if position < self.unchecked_end:
            self.unchecked_end = position
            self.checked = CheckedRanges() if position else None
        self.unindexed = position - (self.offset_index.positions[-1] if len(self.offset_index) else 0)
        self._find_max_timestamp()
        if position == 0:
            self.first_timestamp = None
        if was_indexed and self.is_small:
            # Nothing saves the indexes of a small segment later, and Kafka's tools would find the old entries.
            with suppress(OSError):
                self.save_indexes()

    # Reading

    def header_at(self, position: int) -> HeaderTuple:
        content = self.file.read(HEADER_SIZE, position)
        if len(content) < HEADER_SIZE:
            raise BadBatch(position, f"only {len(content)} bytes are left, less than a batch header")
        header: HeaderTuple = unpack_header(content, 0)
        return header

    def batch_at(self, position: int) -> bytes:
        header = self.header_at(position)
        return self.file.read(header[1] + LOG_OVERHEAD, position)

    def headers_from(
        self,
        position: int,
        *,
        offset: int | None = None,
        check_crc: bool = False,
        below: int = OFFSET_MAX,
        block_size: int = 0,
    ) -> Iterator[tuple[int, HeaderTuple]]:
        """Yield the batches from a position, which must be the beginning of a batch."""
        return scan_batches(
            self.file,
            position,
            self.size,
            offset=self.base_offset if offset is None else offset,
            base_offset=self.base_offset,
            check_crc=check_crc,
            below=below,
            block_size=block_size,
        )

    def mark_all_checked(self) -> None:
        """Record that all batches were verified since startup."""
        self.unchecked_end = 0
        self.checked = None

    def find(self, offset: int) -> int | None:
        """Return the position of the batch that contains the offset, or of the next one; None at the end."""
        if offset <= self.base_offset:
            return 0 if self.size else None
        offsets = self.boundary_offsets
        if offsets and offset >= offsets[0]:
            return self.boundary_positions[bisect_right(offsets, offset) - 1]
        hints = self._hints
        position = hints.position_of(offset)
        if position is not None:
            return position
        start = hints.start_for(offset, self.size)
        for position, header in self.headers_from(self.search_start(offset) if start is None else start):
            if header[0] + header[6] >= offset:
                self._hints = hints.with_found(position, header)
                return position
        return None

    def extent(self, start: int, *, max_bytes: int, end: int, next_offset: int, at_least_one: bool) -> int:
        """Return the number of bytes in whole batches that a read may return from a batch's position.

        All of them are below the offset `end`. `next_offset` is the end offset of this segment.
        """
        limit = start + max_bytes
        if next_offset <= end and self.size <= limit:
            return self.size - start
        positions = self.boundary_positions
        if positions and start >= positions[0]:
            return self._extent_by_boundaries(start, limit, end, next_offset, at_least_one)
        self.ensure_indexed()
        slot = self.offset_index.last_within(limit, end=end)
        while slot >= 0 and self.offset_index.positions[slot] > start:
            stop = self.offset_index.positions[slot]
            base_offset = self._checked_entry(slot)
            if base_offset is not None:
                # The reader's next fetch has this offset, and needs no search.
                self._hints = self._hints.with_start(base_offset, stop)
                return stop - start
            self.rebuild_indexes()
            slot = self.offset_index.last_within(limit, end=end)
        return self._extent_by_headers(start, limit, end, at_least_one)

    def _extent_by_boundaries(self, start: int, limit: int, end: int, next_offset: int, at_least_one: bool) -> int:
        offsets, positions = self.boundary_offsets, self.boundary_positions
        bound = self.size if end >= next_offset else positions[bisect_right(offsets, end) - 1]
        if bound <= start:
            return 0
        stop = bound if bound <= limit else positions[bisect_right(positions, limit) - 1]
        if stop > start:
            return stop - start
        if not at_least_one:
            return 0
        following = bisect_right(positions, start)
        return (positions[following] if following < len(positions) else self.size) - start

    def _extent_by_headers(self, start: int, limit: int, end: int, at_least_one: bool) -> int:
        stop = start
        try:
            for position, header in self.headers_from(start):
                behind = position + header[1] + LOG_OVERHEAD
                if header[0] + header[6] >= end or (behind > limit and not (at_least_one and position == start)):
                    break
                stop = behind
                if stop >= limit:
                    break
        except BadBatch:
            # Serve the batches before the damage; the next read reports it.
            if stop == start:
                raise
        return stop - start

    def offset_bound(self, position: int, *, next_offset: int) -> int:
        """Return an offset that no batch before a position reaches, as low as it can be found cheaply."""
        if position >= self.size:
            return next_offset
        slot = bisect_left(self.boundary_positions, position)
        if slot < len(self.boundary_positions):
            return self.boundary_offsets[slot]
        self.ensure_indexed()
        slot = bisect_left(self.offset_index.positions, position)
        return self.offset_index.entry(slot)[0] if slot < len(self.offset_index) else next_offset

    def end_offset(self) -> int:
        """Return the end offset of the segment, from a few headers at its end."""
        position = 0
        if not self._indexed:
            saved = self.offset_index.last_saved(self.directory.disk)
            if saved is not None and self._names_batch(*saved) is not None:
                position = saved[1]
        elif len(self.offset_index):
            position = self.search_start(NEVER)
        end = self.base_offset
        for _, header in self.headers_from(position):
            end = header[0] + header[6] + 1
        return end

    # Indexes

    def search_start(self, offset: int) -> int:
        """Return the position where a search for the offset may start, from a verified index entry."""
        self.ensure_indexed()
        slot = self.offset_index.lookup(offset)
        if slot >= 0 and self._checked_entry(slot) is None:
            self.rebuild_indexes()
            slot = self.offset_index.lookup(offset)
        return self.offset_index.positions[slot] if slot >= 0 else 0

    def _checked_entry(self, slot: int) -> int | None:
        """Return the base offset of the batch that an entry points to; None if the entry is wrong."""
        return self._names_batch(*self.offset_index.entry(slot))

    def _names_batch(self, last_offset: int, position: int) -> int | None:
        if position < 0 or position + HEADER_SIZE > self.size:
            return None
        header = self.header_at(position)
        if header_error(header, left=self.size - position, offset=self.base_offset, base_offset=self.base_offset):
            return None
        return header[0] if header[0] + header[6] == last_offset else None

    def ensure_indexed(self) -> None:
        """Load the indexes on the first use of a segment; rebuild them if they are damaged."""
        if not self._indexed and not self._load_indexes():
            self.rebuild_indexes()

    def _load_indexes(self) -> bool:
        """Load the indexes; return False if they are missing or damaged, or may be outdated."""
        if self.is_small:
            return False
        try:
            self.offset_index.load(self.directory.disk, log_size=self.size)
            self.time_index.load(self.directory.disk)
            count = len(self.offset_index)
            last = self.offset_index.positions[-1] if count else 0
            if count and self._checked_entry(count - 1) is None:
                raise Corruption(f"{self.offset_index.path}: the last entry does not point to a batch")
            if self.size - last > INDEX_LAG_MAX:
                raise Corruption(f"{self.offset_index.path}: ends {self.size - last} bytes before its log")
        except (Corruption, FileNotFoundError):
            return False
        self._indexed = True
        self._timed = False
        self.unindexed = self.size - last
        return True

    def ensure_timed(self) -> None:
        """Load the largest timestamp and complete the time index."""
        if not self._timed:
            finish(self.ensure_timed_job())

    def ensure_timed_job(self) -> Job[None]:
        """Run `ensure_timed` in slices: there may be millions of batches after the last index entry."""
        if not self._indexed and not self._load_indexes():
            yield from self.rebuild_indexes_job()
        if self._timed:
            return
        try:
            found = yield from indexed_max_timestamp(self)
        except Corruption:
            yield from self.rebuild_indexes_job()
            return
        if not self._timed:
            self.max_timestamp, self.max_timestamp_offset = found
            self._timed = True

    def rebuild_indexes(self) -> None:
        """Rebuild both indexes from the batch headers and save them."""
        finish(self.rebuild_indexes_job())

    def rebuild_indexes_job(self) -> Job[None]:
        """Run `rebuild_indexes` in slices. Readers use the old indexes until the new ones are complete."""
        size = self.size
        builder = IndexBuilder(self)
        left = HEADERS_PER_SLICE
        for position, header in self.headers_from(0):
            builder.add(position, header)
            left -= 1
            if not left:
                left = HEADERS_PER_SLICE
                yield None
        if self.size != size:
            # The segment was appended to or truncated meanwhile, so the new indexes are outdated.
            self.rebuild_indexes()
            return
        self.use_indexes(builder)

    def use_indexes(self, builder: IndexBuilder, *, synced: bool = True, is_active: bool = False) -> None:
        """Replace the offset and time index by those that were built from all batches; save them if they are read."""
        # The files may have been renamed since the build began.
        builder.offset_index.take_path(self.offset_index)
        builder.time_index.take_path(self.time_index)
        self.offset_index, self.time_index = builder.offset_index, builder.time_index
        self.max_timestamp, self.max_timestamp_offset = builder.max_timestamp, builder.max_timestamp_offset
        self.unindexed = builder.unindexed
        self._hints = NO_HINTS
        self._indexed = self._timed = True
        # A small active segment gets its last entry when it is closed: one in each log takes 260 bytes.
        is_open = self._writer is not None or (is_active and self.is_small)
        if self.max_timestamp >= 0 and not is_open:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        if self.is_small:
            return
        with suppress(OSError):
            for file in self.save_indexes():
                if self.size and synced:
                    file.sync()

    def _find_max_timestamp(self) -> None:
        """Find the largest timestamp after a truncation, starting at the last entry of the time index."""
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        timestamp, offset = self.time_index.last()
        for _, header in self.headers_from(self.search_start(offset) if timestamp >= 0 else 0):
            if header[8] > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header[8], header[0] + header[6]
