"""The record batches of a slice of a log, read from their headers only.

A batch is not readable if it is a control batch, or belongs to a transaction that was aborted. Pure, except that it
reads the file of the slice.
"""

from collections.abc import Iterator, Sequence

from penstock.ports.network import FileSlice
from penstock.shares.states import LogBatch
from penstock.wire.batch import CONTROL, HEADER_SIZE, LOG_OVERHEAD, TRANSACTIONAL, unpack_header


def log_batches(found: FileSlice, aborted: Sequence[tuple[int, int]] = ()) -> Iterator[tuple[LogBatch, int, int]]:
    """Yield each batch with its position in the file and its size; `aborted` has producer ids and first offsets."""
    waiting = sorted((first_offset, producer_id) for producer_id, first_offset in aborted)
    open_aborted: set[int] = set()
    position, end = found.position, found.position + found.size
    while end - position >= HEADER_SIZE:
        fields = unpack_header(found.file.read(HEADER_SIZE, position), 0)
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
