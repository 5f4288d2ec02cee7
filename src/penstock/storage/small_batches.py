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
_NULL: Final = 1
"""The size of a field that is null: -1 in zigzag encoding."""


def check(records: memoryview, count: int) -> None:
    """Refuse a batch whose records do not match its size."""
    position, end = HEADER_SIZE, len(records)
    try:
        for index in range(count):
            # Numbers of one and two bytes are read here, because a call costs as much as the rest of the record.
            number, start = records[position], position + 1
            if number >= 0x80:
                second = records[start]
                if second < 0x80:
                    number, start = number & 0x7F | second << 7, start + 1
                else:
                    number, start = _varint(records, position)
            position = start + (number >> 1)
            # In zigzag encoding a negative size is an odd number.
            if number & 1 or position > end:
                raise InvalidRecord(f"record {index} does not fit into the batch")
            if count <= OPENED_COUNT_MAX:
                _check_fields(records, start, position, index)
    except IndexError:
        raise InvalidRecord(f"the batch has fewer than {count} records") from None
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of {count} records")


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    """Return a varint without zigzag decoding, and the position after it."""
    first = view[position]
    if first < 0x80:
        return first, position + 1
    second = view[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
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
    # The timestamp, after the attributes, and the offset, which Kafka does not check either: one byte each in most.
    position = start + 2 if view[start + 1] < 0x80 else _varint(view, start + 1)[1]
    position = position + 1 if view[position] < 0x80 else _varint(view, position)[1]
    position = position + 1 if view[position] == _NULL else _skip_bytes(view, position, end, nullable=True)
    number = view[position]
    if number & 1 or (number >= 0x80 and view[position + 1] >= 0x80):
        position = _skip_bytes(view, position, end, nullable=True)
    else:
        position += 1 + (number >> 1) if number < 0x80 else 2 + ((number & 0x7F | view[position + 1] << 7) >> 1)
        if position > end:
            raise InvalidRecord("a field of a record is larger than the record")
    if view[position] == 0:
        position += 1
    else:
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
        if number == _NULL and nullable:
            return position
        raise InvalidRecord("a record has a field of negative size")
    position += number >> 1
    if position > end:
        raise InvalidRecord("a field of a record is larger than the record")
    return position
