"""The records inside a batch: encoded for internal topics, tests and tools, and decoded strictly.

A broker passes batches through without parsing their records. Compaction, internal topics, the metadata log and
tools parse them. Goes to batch.py for the header and to compression.py for the payload.
Refuses: CorruptMessage if the bytes fail the size check or the checksum, InvalidRecord (naming the record) if a
record is invalid.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple, NoReturn

from crc32c import crc32c

from penstock.model.errors import CorruptMessage, InvalidRecord
from penstock.wire import batch
from penstock.wire.batch import BatchHeader, Buffer, iter_batches
from penstock.wire.compression import DECOMPRESSED_SIZE_MAX, Codec, compress, decompress

__all__ = [
    "Header",
    "Record",
    "decode_batch",
    "decode_payload",
    "encode_batch",
    "encode_plain_batch",
    "iter_batches",
    "plain_record",
    "recompress_batch",
    "seal_plain_batch",
    "with_payload",
]

Header = tuple[bytes, bytes | None]

# A record of a null key and a null value without headers: its length and six one-byte fields.
_RECORD_SIZE_LEAST: Final = 7
_INT32_LEAST, _INT32_MOST = -(2**31), 2**31 - 1
_SEALED: Final = Struct(">hiqqqhii")
_UNSEALED: Final = Struct(">qiibI")


class Record(NamedTuple):
    """One record. For encoding, an offset of -1 means the one after the previous record."""

    offset: int = -1
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: int = Codec.NONE,
    level: int | None = None,
    timestamp_type: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Encode one batch with its checksum; `timestamp_type` is 0 for CreateTime, 1 for LogAppendTime."""
    assert records, "only compaction creates empty batches"
    assert timestamp_type in (0, 1)
    base_timestamp = records[0].timestamp
    max_timestamp = base_timestamp
    payload = bytearray()
    delta = -1
    for record in records:
        delta = delta + 1 if record.offset < 0 else _delta_after(delta, record.offset - base_offset)
        if record.timestamp > max_timestamp:
            max_timestamp = record.timestamp
        _encode_record(payload, record, delta, record.timestamp - base_timestamp)
    attributes = (
        codec
        | (batch.LOG_APPEND_TIME if timestamp_type else 0)
        | (batch.TRANSACTIONAL if is_transactional else 0)
        | (batch.CONTROL if is_control else 0)
    )
    sealed = _SEALED.pack(
        attributes, delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, len(records)
    )
    return _seal(base_offset, leader_epoch, sealed, compress(codec, payload, level))


def encode_plain_batch(records: Sequence[tuple[bytes | None, bytes | None]], *, timestamp: int) -> bytearray:
    """Encode one batch of keys and values with one timestamp: the bytes of `encode_batch`, several times faster."""
    return seal_plain_batch([plain_record(*record, delta) for delta, record in enumerate(records)], timestamp=timestamp)


def plain_record(key: bytes | None, value: bytes | None, delta: int) -> bytes:
    """Encode a record without headers that has the timestamp of its batch."""
    if key is None:
        head = b"\0\0" + _varint_of(delta) + b"\1"
    else:
        head = b"".join((b"\0\0", _varint_of(delta), _varint_of(len(key)), key))
    tail = b"\1\0" if value is None else b"".join((_varint_of(len(value)), value, b"\0"))
    return b"".join((_varint_of(len(head) + len(tail)), head, tail))


def seal_plain_batch(records: Sequence[bytes], *, timestamp: int) -> bytearray:
    """Return the batch of records that `plain_record` has encoded."""
    count = len(records)
    sealed = _SEALED.pack(0, count - 1, timestamp, timestamp, -1, -1, -1, count)
    payload = b"".join((sealed, *records))
    length = batch.LENGTH_LEAST + len(payload) - len(sealed)
    return bytearray(_UNSEALED.pack(0, length, -1, batch.MAGIC, crc32c(payload)) + payload)


@lru_cache(1 << 12)
def _varint_of(value: int) -> bytes:
    out = bytearray()
    _append_varint(out, value)
    return bytes(out)


def decode_batch(view: Buffer, *, limit: int = DECOMPRESSED_SIZE_MAX, check_crc: bool = True) -> list[Record]:
    """Decode every record of the batch at the start of the view. Bytes behind the batch are ignored.

    Offsets must rise and stay within the header's last offset; after compaction they may
    have gaps, so the count is checked against the payload and not against the offsets.
    """
    header, payload = decode_payload(view, limit=limit, check_crc=check_crc)
    return _decode_records(header, payload)


def decode_payload(
    view: Buffer, *, limit: int = DECOMPRESSED_SIZE_MAX, check_crc: bool = True
) -> tuple[BatchHeader, bytes]:
    """Return the header and the decompressed but unparsed records of a batch."""
    header = _checked_header(view, check_crc=check_crc)
    payload = memoryview(view)[batch.HEADER_SIZE : header.size]
    # A batch that compaction has emptied keeps its codec bits but has no compressed frame.
    if header.record_count == 0 and not payload:
        return header, b""
    return header, decompress(header.codec, payload, limit=limit)


def recompress_batch(
    view: Buffer, codec: int, level: int | None = None, *, limit: int = DECOMPRESSED_SIZE_MAX, check_crc: bool = True
) -> bytes:
    """Return the batch with another codec: the payload is recompressed as a whole, its records are not parsed."""
    header, payload = decode_payload(view, limit=limit, check_crc=check_crc)
    return with_payload(header, codec, compress(codec, payload, level))


def with_payload(header: BatchHeader, codec: int, payload: bytes) -> bytes:
    """Return a batch with the header's fields except its codec; the payload is already compressed."""
    sealed = _SEALED.pack(
        header.attributes & ~batch.CODEC_MASK | codec,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    return _seal(header.base_offset, header.leader_epoch, sealed, payload)


def _seal(base_offset: int, leader_epoch: int, sealed: bytes, payload: bytes) -> bytes:
    crc = crc32c(payload, crc32c(sealed))
    length = batch.LENGTH_LEAST + len(payload)
    return _UNSEALED.pack(base_offset, length, leader_epoch, batch.MAGIC, crc) + sealed + payload


def _checked_header(view: Buffer, *, check_crc: bool) -> BatchHeader:
    size = batch.batch_size(view)
    batch.check_magic(view)
    header = BatchHeader.at(view)
    if check_crc and not batch.crc_ok(view, 0, size):
        raise CorruptMessage(f"the batch at offset {header.base_offset} fails its checksum")
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise InvalidRecord(
            f"the batch claims {header.record_count} records up to offset delta {header.last_offset_delta}"
        )
    return header


def _delta_after(previous: int, delta: int) -> int:
    if not previous < delta <= _INT32_MOST:
        raise ValueError(f"offset delta {delta} cannot follow {previous}")
    return delta


def _encode_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    body = bytearray(1)
    _append_varint(body, timestamp_delta)
    _append_varint(body, offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    _append_varint(body, len(record.headers))
    for name, value in record.headers:
        _append_bytes(body, name)
        _append_bytes(body, value)
    _append_varint(out, len(body))
    out += body


def _append_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)
    else:
        _append_varint(out, len(value))
        out += value


def _append_varint(out: bytearray, value: int) -> None:
    # Zigzag: the sign moves to the lowest bit, so that small negatives stay short.
    rest = value << 1 if value >= 0 else ~(value << 1)
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _refuse(index: int, why: str) -> NoReturn:
    raise InvalidRecord(f"record {index}: {why}", record_errors=((index, why),))


def _varint(data: bytes, position: int, *, size_max: int = 5) -> tuple[int, int]:
    """Decode a zigzag integer; return it and the position behind it. Raises IndexError at the end of the data."""
    raw = shift = 0
    for _ in range(size_max):
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    raise ValueError(f"a variable-length integer is longer than {size_max} bytes")


def _decode_records(header: BatchHeader, data: bytes) -> list[Record]:
    count = header.record_count
    if count * _RECORD_SIZE_LEAST > len(data):
        raise InvalidRecord(f"the batch claims {count} records in {len(data)} bytes")
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    delta_previous, delta_most = -1, header.last_offset_delta
    records: list[Record] = []
    position = index = 0
    try:
        for index in range(count):  # noqa: B007 - named in the error below
            end, timestamp_delta, delta, key, value, headers = _decode_record(data, position)
            if not delta_previous < delta <= delta_most:
                raise ValueError(f"offset delta {delta} is not within {delta_previous + 1} and {delta_most}")
            timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
            records.append(Record(base_offset + delta, timestamp, key, value, headers))
            delta_previous, position = delta, end
    except IndexError:
        _refuse(index, "the records end inside it")
    except ValueError as error:
        _refuse(index, str(error))
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes follow the {count} records of the batch")
    return records


def _decode_record(data: bytes, start: int) -> tuple[int, int, int, bytes | None, bytes | None, tuple[Header, ...]]:
    """Decode one record from the position of its length; raise ValueError with the reason if it is invalid.

    Reading past the end of the record fails the last comparison, since the position only grows.
    """
    size, position = _varint(data, start)
    end = position + size
    if size < _RECORD_SIZE_LEAST - 1 or end > len(data):
        raise ValueError(f"a size of {size} bytes is impossible, {len(data) - position} are left")
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
    key, position = _sized(data, position, "key")
    value, position = _sized(data, position, "value")
    byte = data[position]
    if byte == 0:
        position += 1
        headers: tuple[Header, ...] = ()
    else:
        headers, position = _decode_headers(data, position, end)
    if position != end:
        raise ValueError(f"its fields take {position - start} bytes but its size is {end - start}")
    return end, timestamp_delta, delta, key, value, headers


def _sized(data: bytes, position: int, what: str) -> tuple[bytes | None, int]:
    byte = data[position]
    if byte < 0x80:
        size, position = (byte >> 1) ^ -(byte & 1), position + 1
    else:
        size, position = _varint(data, position)
    if size >= 0:
        end = position + size
        return data[position:end], end
    if size != -1:
        raise ValueError(f"a {what} of {size} bytes")
    return None, position


def _decode_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, position = _varint(data, position)
    # Each header takes at least a byte for the size of its key and one for that of its value.
    if not 0 <= 2 * count <= end - position:
        raise ValueError(f"{count} headers in {end - position} bytes")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _sized(data, position, "header key")
        if name is None:
            raise ValueError("a header without a key")
        value, position = _sized(data, position, "header value")
        headers.append((name, value))
    return tuple(headers), position
