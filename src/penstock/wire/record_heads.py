"""Scanner of a batch's records, chunk by chunk, without creating them: timestamp, offset and key size of each.

Checks every field like records.py, which creates whole records, but holds only a chunk and the rest of the one
before. A record that does not fit into a chunk is scanned field by field.
Refuses: InvalidRecord (naming the record), and what unpacking.py refuses.
"""

from typing import Final, NoReturn

from penstock.model.errors import InvalidRecord
from penstock.model.job import Job
from penstock.wire.batch import BatchHeader
from penstock.wire.unpacking import CHUNK_SIZE, DECOMPRESSED_SIZE_MAX, pull, unpack

RECORD_SIZE_LEAST: Final = 7
"""Length, attributes, timestamp, offset, key, value and header count take at least a byte each."""
HEADS_PER_READ_MAX: Final = 1024
FIELDS_PER_STEP_MAX: Final = 1000

Head = tuple[int, int, int]
"""Timestamp delta, offset delta, and size of the key, -1 for none."""


_ROOM_UNKNOWN: Final = 1 << 32


class _Incomplete(Exception):
    """The rest of the record has not been decompressed yet."""


class RecordHeads:
    def __init__(self, header: BatchHeader, payload: memoryview, *, limit: int = DECOMPRESSED_SIZE_MAX) -> None:
        self._chunks = unpack(header.codec, payload, limit=limit)
        self._left = header.record_count
        self._index = 0
        self._delta_previous = -1
        self._delta_most = header.last_offset_delta
        self._data = b""
        self._position = 0

    def read(self) -> Job[list[Head] | None]:
        """Return the next records, at least one; None after the last, when nothing follows it."""
        try:
            while self._left:
                found = self._whole_records()
                if found:
                    return found
                if self._is_large():
                    return [(yield from self._large_record())]
                yield from self._fill()
        except ValueError as error:
            self._refuse(str(error))
        yield from self._check_end()
        return None

    def _whole_records(self) -> list[Head]:
        """Return the complete records of the chunk, up to a maximum number."""
        data, position = self._data, self._position
        heads: list[Head] = []
        delta_previous, delta_most = self._delta_previous, self._delta_most
        try:
            for _ in range(min(self._left, HEADS_PER_READ_MAX)):
                head, position = _scan(data, position)
                delta = head[1]
                if not delta_previous < delta <= delta_most:
                    raise ValueError(f"offset delta {delta} is not within {delta_previous + 1} and {delta_most}")
                delta_previous = delta
                heads.append(head)
        except _Incomplete:
            pass
        except ValueError:
            self._index += len(heads)
            raise
        self._delta_previous = delta_previous
        self._position = position
        self._left -= len(heads)
        self._index += len(heads)
        return heads

    def _is_large(self) -> bool:
        try:
            size, _ = _varint(self._data, self._position)
        except _Incomplete:
            return False
        return size > CHUNK_SIZE

    def _fill(self) -> Job[None]:
        chunk = yield from pull(self._chunks)
        if chunk is None:
            raise ValueError("the records end inside it")
        self._data = self._data[self._position :] + chunk
        self._position = 0
        yield None

    def _check_end(self) -> Job[None]:
        left = len(self._data) - self._position
        self._data, self._position = b"", 0
        while (chunk := (yield from pull(self._chunks))) is not None:
            left += len(chunk)
            yield None
        if left:
            raise InvalidRecord(f"{left} bytes follow the {self._index} records of the batch")

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidRecord(f"record {self._index}: {why}", record_errors=((self._index, why),))

    # Large records

    def _large_record(self) -> Job[Head]:
        self._room = _ROOM_UNKNOWN
        self._room = yield from self._next_varint()
        yield from self._skip(1)
        timestamp_delta = yield from self._next_varint(size_max=10)
        delta = yield from self._next_varint()
        key_size = yield from self._skip_sized("key")
        yield from self._skip_sized("value")
        header_count = yield from self._next_varint()
        if not 0 <= 2 * header_count <= self._room:
            raise ValueError(f"{header_count} headers in {self._room} bytes")
        for index in range(header_count):
            if (yield from self._skip_sized("header key")) < 0:
                raise ValueError("a header without a key")
            yield from self._skip_sized("header value")
            if index % FIELDS_PER_STEP_MAX == 0:
                yield None
        if self._room:
            raise ValueError(f"its fields take {self._room} bytes less than its size")
        if not self._delta_previous < delta <= self._delta_most:
            raise ValueError(f"offset delta {delta} is not within {self._delta_previous + 1} and {self._delta_most}")
        self._delta_previous = delta
        self._left -= 1
        self._index += 1
        return timestamp_delta, delta, key_size

    def _next_varint(self, *, size_max: int = 5) -> Job[int]:
        while True:
            try:
                value, position = _varint(self._data, self._position, size_max=size_max)
                break
            except _Incomplete:
                yield from self._fill()
        self._take(position - self._position)
        return value

    def _skip_sized(self, what: str) -> Job[int]:
        size = yield from self._next_varint()
        if size < -1:
            raise ValueError(f"a {what} of {size} bytes")
        if size > 0:
            yield from self._skip(size)
        return size

    def _skip(self, size: int) -> Job[None]:
        if size > self._room:
            raise ValueError(f"a field of {size} bytes is larger than the rest of the record, {self._room}")
        while size:
            here = min(size, len(self._data) - self._position)
            self._take(here)
            size -= here
            if size:
                yield from self._fill()

    _room = 0
    """The remaining bytes of the large record that is being scanned."""

    def _take(self, size: int) -> None:
        self._position += size
        self._room -= size
        if self._room < 0:
            raise ValueError("its fields take more bytes than its size")


def _varint(data: bytes, position: int, *, size_max: int = 5) -> tuple[int, int]:
    """Decode a zigzag integer; return it and the position behind it."""
    raw = shift = 0
    try:
        for _ in range(size_max):
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1), position
            shift += 7
    except IndexError:
        raise _Incomplete from None
    raise ValueError(f"a variable-length integer is longer than {size_max} bytes")


def _scan(data: bytes, start: int) -> tuple[Head, int]:
    """Scan the record at a position; return its head and the position behind it.

    Reading past the end of the record fails the last comparison, since the position only grows.
    """
    try:
        byte = data[start]
    except IndexError:
        raise _Incomplete from None
    if byte < 0x80:
        size, position = (byte >> 1) ^ -(byte & 1), start + 1
    else:
        size, position = _varint(data, start)
    end = position + size
    if size < RECORD_SIZE_LEAST - 1:
        raise ValueError(f"a size of {size} bytes is impossible")
    if end > len(data):
        raise _Incomplete
    try:
        position += 1  # The record's attributes: none is defined.
        byte = data[position]
        if byte < 0x80:
            timestamp_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            timestamp_delta, position = _varint(data, position, size_max=10)
        byte = data[position]
        if byte < 0x80:
            delta, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            delta, position = _varint(data, position)
        byte = data[position]
        if byte < 0x80:
            key_size, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            key_size, position = _varint(data, position)
        if key_size > 0:
            position += key_size
        byte = data[position]
        if byte < 0x80:
            value_size, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            value_size, position = _varint(data, position)
        if value_size > 0:
            position += value_size
        if key_size < -1 or value_size < -1:
            raise ValueError(f"a key of {key_size} bytes and a value of {value_size}")
        if data[position] == 0:
            position += 1
        else:
            position = _scan_headers(data, position, end)
    except (IndexError, _Incomplete):
        raise ValueError("its fields take more bytes than its size") from None
    if position != end:
        raise ValueError(f"its fields take {position - start} bytes but its size is {end - start}")
    return (timestamp_delta, delta, key_size), end


def _scan_headers(data: bytes, position: int, end: int) -> int:
    count, position = _varint(data, position)
    # Each header takes at least a byte for the size of its key and one for that of its value.
    if not 0 <= 2 * count <= end - position:
        raise ValueError(f"{count} headers in {end - position} bytes")
    for _ in range(count):
        size, position = _varint(data, position)
        if size < 0:
            raise ValueError("a header without a key")
        position += size
        size, position = _varint(data, position)
        if size < -1:
            raise ValueError(f"a header value of {size} bytes")
        if size > 0:
            position += size
    return position
