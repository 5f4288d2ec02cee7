"""Validation of the records in small uncompressed batches, where it is cheap.

Records are opaque (docs/decisions/0002): checking each of them would cost more than the rest of an append. In a batch
with few records it costs a fraction of a microsecond per record, so they are validated like in Kafka; for a large
batch the checksum suffices. Refuses: InvalidRecord.
"""

from typing import Final

from penstock.model.errors import InvalidRecord
from penstock.wire.batch import HEADER_SIZE

FOLLOWED_COUNT_MAX: Final = 16
"""In batches with up to this many records, the size of each record is checked."""
OPENED_COUNT_MAX: Final = 2
"""In batches with up to this many records, the fields of each record are checked as well."""
_VARINT_SIZE_MAX: Final = 10


def check(records: memoryview, count: int) -> None:
    """Refuse a batch whose records do not match its size."""
    position, end = HEADER_SIZE, len(records)
    try:
        for index in range(count):
            byte = records[position]
            # One-byte sizes are the common case; in zigzag encoding a non-negative size is an even number.
            if byte < 0x80:
                size, start = byte >> 1, position + 1
                negative = byte & 1
            else:
                number, start = _varint(records, position)
                size, negative = number >> 1, number & 1
            position = start + size
            if negative or position > end:
                raise InvalidRecord(f"record {index} does not fit into the batch")
            if count <= OPENED_COUNT_MAX:
                _check_fields(records, start, position, index)
    except IndexError:
        raise InvalidRecord(f"the batch has fewer than {count} records") from None
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of {count} records")


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    """Return a varint without zigzag decoding, and the position after it."""
    byte = view[position]
    if byte < 0x80:
        return byte, position + 1
    value = shift = 0
    for _ in range(_VARINT_SIZE_MAX):
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise InvalidRecord("a record has a varint that is too long")


def _check_fields(view: memoryview, start: int, end: int, index: int) -> None:
    _, position = _varint(view, start + 1)  # the timestamp, after the attributes
    _, position = _varint(view, position)  # the offset, which Kafka does not check either
    position = _skip_bytes(view, position, end, nullable=True)
    position = _skip_bytes(view, position, end, nullable=True)
    count, position = _varint(view, position)
    if count & 1 or count >> 1 > end - position:
        raise InvalidRecord(f"record {index} has an impossible number of headers")
    for _ in range(count >> 1):
        position = _skip_bytes(view, position, end, nullable=False)
        position = _skip_bytes(view, position, end, nullable=True)
    if position != end:
        raise InvalidRecord(f"the fields of record {index} do not fill it")


def _skip_bytes(view: memoryview, position: int, end: int, *, nullable: bool) -> int:
    number, position = _varint(view, position)
    if number & 1:
        if number == 1 and nullable:
            return position
        raise InvalidRecord("a record has a field of negative size")
    position += number >> 1
    if position > end:
        raise InvalidRecord("a field of a record is larger than the record")
    return position
