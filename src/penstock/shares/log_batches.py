"""The record batches of a slice of a log, read from their headers only.

A batch is not readable if it is a control batch, or belongs to a transaction that was aborted. Pure, except that it
reads the file of the slice. Raises OSError.
"""

from collections.abc import Callable, Iterator, Sequence
from errno import EIO
from weakref import ref

from penstock.ports.disk import File
from penstock.ports.network import FileSlice
from penstock.shares.states import LogBatch
from penstock.wire.batch import CONTROL, HEADER_SIZE, LOG_OVERHEAD, TRANSACTIONAL, HeaderTuple, unpack_header


class LastHeader:
    """Reads headers and keeps the last one: members that get one record each read the same batch many times.

    A leader only appends, and a log that is compacted has new files. The file may be closed while this refers to it.
    """

    __slots__ = ("_batch", "_file", "_header", "_position")

    def __init__(self) -> None:
        self._file: Callable[[], File | None] = lambda: None
        self._position = -1
        self._header: HeaderTuple | None = None
        self._batch: tuple[int, LogBatch | None] = 0, None

    def read(self, file: File, position: int) -> HeaderTuple:
        header = self._header
        if header is None or self._position != position or self._file() is not file:
            content = file.read(HEADER_SIZE, position)
            if len(content) < HEADER_SIZE:
                raise OSError(EIO, "the file is shorter than the log", file.path)
            header = unpack_header(content, 0)
            self._file, self._position, self._header = ref(file), position, header
            first, attributes, last_delta = header[0], header[5], header[6]
            is_plain = not attributes & (CONTROL | TRANSACTIONAL)
            self._batch = header[1] + LOG_OVERHEAD, LogBatch(first, first + last_delta) if is_plain else None
        return header

    def plain_batch(self, found: FileSlice) -> tuple[int, LogBatch | None]:
        """Return the size of a slice's first batch, and the batch if it is not part of a transaction."""
        self.read(found.file, found.position)
        return self._batch


def log_batches(
    found: FileSlice, aborted: Sequence[tuple[int, int]] = (), headers: LastHeader | None = None
) -> Iterator[tuple[LogBatch, int, int]]:
    """Yield each batch with its position in the file and its size; `aborted` has producer ids and first offsets."""
    read = (headers or LastHeader()).read
    waiting = sorted((first_offset, producer_id) for producer_id, first_offset in aborted)
    open_aborted: set[int] = set()
    position, end = found.position, found.position + found.size
    while end - position >= HEADER_SIZE:
        fields = read(found.file, position)
        first, length, attributes, last_delta, producer_id = fields[0], fields[1], fields[5], fields[6], fields[9]
        size = length + LOG_OVERHEAD
        while waiting and waiting[0][0] <= first:
            open_aborted.add(waiting.pop(0)[1])
        is_control = bool(attributes & CONTROL)
        is_aborted = bool(attributes & TRANSACTIONAL) and producer_id in open_aborted
        if is_control:
            # A producer has one transaction at a time: its next marker ends it.
            open_aborted.discard(producer_id)
        yield LogBatch(first, first + last_delta, not (is_control or is_aborted)), position, size
        position += size
