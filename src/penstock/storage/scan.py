"""Scans of a segment's batches by their headers.

With checksums, as in recovery, it reads everything in large blocks; without, it reads only the headers.
`find_valid_batch` searches for a batch after damage. Raises `BadBatch` at the first bytes that are not a batch;
recovery.py decides what that means.
"""

from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from penstock.ports.disk import File
from penstock.wire.batch import ATTRIBUTES_AT, HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_AT, HeaderTuple, unpack_header

BLOCK_SIZE: Final = 4 * 1024 * 1024
WINDOW_SIZE: Final = 4096
RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF
OFFSET_MAX: Final = (1 << 63) - 1


class BadBatch(Exception):
    """The bytes at a position of a segment are not a batch that may be there."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"at position {position}: {why}")
        self.position = position
        self.why = why


def scan_batches(
    file: File,
    position: int,
    end: int,
    *,
    offset: int,
    base_offset: int,
    check_crc: bool,
    below: int = OFFSET_MAX,
    block_size: int = 0,
    until: int = OFFSET_MAX,
) -> Iterator[tuple[int, HeaderTuple]]:
    """Yield position and header of each batch from a position, which must be the beginning of a batch.

    `offset` is the lowest allowed base offset of the first batch, `base_offset` is that of the segment, and no batch
    may reach the offset `below`. A batch that ends after the position `until` is not read.
    """
    block_size = block_size or (BLOCK_SIZE if check_crc else WINDOW_SIZE)
    view = memoryview(bytearray(max(min(block_size, end - position), 0)))
    readable = min(end, until)
    start = filled = 0
    while position < end:
        at = position - start
        if position + HEADER_SIZE > until:
            return
        if at + HEADER_SIZE > filled:
            start, at = position, 0
            filled = file.read_into(view[: min(len(view), readable - position)], position)
            if filled < HEADER_SIZE:
                raise BadBatch(position, f"only {filled} bytes are left, less than a batch header")
        header: HeaderTuple = unpack_header(view, at)
        size = header[1] + LOG_OVERHEAD
        why = header_error(header, left=end - position, offset=offset, base_offset=base_offset, below=below)
        if why is None and check_crc:
            if position + size > until:
                return
            if at + size > filled:
                start, at = position, 0
                if size > len(view):
                    view = memoryview(bytearray(size))
                filled = file.read_into(view[: min(len(view), readable - position)], position)
                if filled < size:
                    raise BadBatch(position, f"the batch has {size} bytes, but only {filled} are left")
            if crc32c(view[at + ATTRIBUTES_AT : at + size]) != header[4]:
                why = "the checksum does not match"
            elif header[0] != offset and _overlaps_next(file, position, header, end, base_offset):
                why = f"base offset {header[0]} overlaps with the next batch"
        if why is not None:
            raise BadBatch(position, why)
        yield position, header
        offset = header[0] + header[6] + 1
        position += size


def _overlaps_next(file: File, position: int, header: HeaderTuple, end: int, base_offset: int) -> bool:
    """Return whether the next batch is valid and has offsets that this batch claims.

    The checksum does not cover the base offset, so one after a gap is compared with the next batch.
    """
    following = position + header[1] + LOG_OVERHEAD
    content = file.read(HEADER_SIZE, following) if following + HEADER_SIZE <= end else b""
    if len(content) < HEADER_SIZE:
        return False
    its: HeaderTuple = unpack_header(content, 0)
    if its[0] > header[0] + header[6] or header_error(
        its, left=end - following, offset=base_offset, base_offset=base_offset
    ):
        return False
    batch = file.read(its[1] + LOG_OVERHEAD, following)
    return bool(crc32c(memoryview(batch)[ATTRIBUTES_AT:]) == its[4])


def header_error(
    header: HeaderTuple, *, left: int, offset: int, base_offset: int, below: int = OFFSET_MAX
) -> str | None:
    """Return why a header is invalid at a position with `left` bytes and this next offset; None if it is valid."""
    size = header[1] + LOG_OVERHEAD
    if header[3] != MAGIC:
        return f"the magic byte is {header[3]} instead of {MAGIC}"
    if size < HEADER_SIZE:
        return f"a batch of {size} bytes is smaller than its header"
    if size > left:
        return f"the batch has {size} bytes, but only {left} are left"
    if header[0] < offset:
        return f"base offset {header[0]} is below the expected {offset}"
    if header[6] < 0 or header[0] + header[6] - base_offset > RELATIVE_OFFSET_MAX:
        return f"last offset delta {header[6]} is out of range"
    if header[0] + header[6] >= below:
        return f"offsets {header[0]} to {header[0] + header[6]} are not below {below}"
    return None


def find_valid_batch(file: File, position: int, end: int, *, offset: int, base_offset: int) -> int | None:
    """Return the position of the first valid batch at or after a position; None if there is none."""
    while position + HEADER_SIZE <= end:
        block = file.read(min(BLOCK_SIZE, end - position), position)
        at = block.find(MAGIC, MAGIC_AT)
        while at >= 0 and at - MAGIC_AT + HEADER_SIZE <= len(block):
            candidate = at - MAGIC_AT
            header: HeaderTuple = unpack_header(block, candidate)
            left = end - position - candidate
            if header_error(header, left=left, offset=offset, base_offset=base_offset) is None:
                batch = file.read(header[1] + LOG_OVERHEAD, position + candidate)
                if crc32c(memoryview(batch)[ATTRIBUTES_AT:]) == header[4]:
                    return position + candidate
            at = block.find(MAGIC, at + 1)
        # Blocks overlap by one byte less than a header, so that no batch is missed at their border.
        position += max(len(block) - HEADER_SIZE + 1, 1)
    return None
