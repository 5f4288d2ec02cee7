"""The 61-byte header of a record batch (message format v2), read and patched in place.

The base offset, the length and the leader epoch lie outside the checksum, so a broker
assigns offsets without hashing the batch again. The hot path unpacks the header into a
tuple with `unpack_header`, whose order is that of `FIELDS`; all other code uses
`BatchHeader`. Only `records.py` parses the records themselves.
Refuses: CorruptMessage for a batch that is cut short or of an impossible length,
InvalidRecord for another magic.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from crc32c import crc32c

from penstock.model.errors import CorruptMessage, InvalidRecord

Buffer = bytes | bytearray | memoryview

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
FIELDS: Final = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)

HeaderTuple = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
unpack_header: Callable[..., Any] = HEADER.unpack_from
"""`unpack_header(view, position)` returns a `HeaderTuple`; raises struct.error if fewer than 61 bytes are left."""

BASE_OFFSET_AT: Final = 0
LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORD_COUNT_AT: Final = 57

LOG_OVERHEAD: Final = 12
"""The size of the base offset and the length field, which `length` does not count."""
LENGTH_LEAST: Final = HEADER_SIZE - LOG_OVERHEAD
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

OFFSET_AND_LENGTH: Final = Struct(">qi")
_pack_base_offset: Final = Struct(">q").pack_into
_pack_int32: Final = Struct(">i").pack_into
_pack_crc: Final = Struct(">I").pack_into
_unpack_crc: Final = Struct(">I").unpack_from
_unpack_attributes: Final = Struct(">h").unpack_from
_pack_attributes: Final = Struct(">h").pack_into
_unpack_offset_and_length: Final = OFFSET_AND_LENGTH.unpack_from


class BatchHeader:
    """The header as attributes, for callers outside the hot path."""

    __slots__ = FIELDS

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, fields: HeaderTuple) -> None:
        (
            self.base_offset,
            self.length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = fields

    @classmethod
    def at(cls, view: Buffer, position: int = 0) -> "BatchHeader":
        """Read the header at a position; the batch behind it may be cut short."""
        if position < 0 or len(view) - position < HEADER_SIZE:
            raise CorruptMessage(f"{max(len(view) - position, 0)} bytes are too few for a batch header")
        return cls(unpack_header(view, position))

    def pack(self) -> bytes:
        return HEADER.pack(*(getattr(self, name) for name in FIELDS))

    @property
    def size(self) -> int:
        """Return the size of the whole batch in bytes."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Return the sequence of the last record, or -1 without a producer; sequences wrap from 2147483647 to 0."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Return when its tombstones and markers may be removed; compaction stores it in the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    def __repr__(self) -> str:
        return f"BatchHeader({', '.join(f'{name}={getattr(self, name)}' for name in FIELDS)})"


def batch_size(view: Buffer, position: int = 0) -> int:
    """Return the size of the batch at a position; raise CorruptMessage unless all of it is in the view."""
    left = len(view) - position
    if left < LOG_OVERHEAD:
        raise CorruptMessage(f"{left} bytes are too few for a batch")
    size: int = _unpack_offset_and_length(view, position)[1] + LOG_OVERHEAD
    if size < HEADER_SIZE:
        raise CorruptMessage(f"a batch of {size} bytes is smaller than its header")
    if size > left:
        raise CorruptMessage(f"the batch claims {size} bytes but only {left} are left")
    return size


def check_magic(view: Buffer, position: int = 0) -> None:
    if view[position + MAGIC_AT] != MAGIC:
        raise InvalidRecord(f"message format v{view[position + MAGIC_AT]} is not supported, only v{MAGIC} is")


def computed_crc(view: Buffer, position: int = 0, size: int | None = None) -> int:
    """Return the checksum of the batch's present bytes; without `size` it is read from the header."""
    end = position + (batch_size(view, position) if size is None else size)
    return int(crc32c(memoryview(view)[position + ATTRIBUTES_AT : end]))


def crc_ok(view: Buffer, position: int = 0, size: int | None = None) -> bool:
    """Return whether the bytes of the batch match its checksum."""
    return bool(_unpack_crc(view, position + CRC_AT)[0] == computed_crc(view, position, size))


def patch_offset_and_epoch(view: bytearray | memoryview, position: int, offset: int, epoch: int) -> None:
    """Set the base offset and the leader epoch, which lie outside the checksum."""
    _pack_base_offset(view, position, offset)
    _pack_int32(view, position + LEADER_EPOCH_AT, epoch)


def patch_crc(view: bytearray | memoryview, position: int = 0, size: int | None = None) -> None:
    """Recompute the checksum after a change to the bytes that it covers."""
    _pack_crc(view, position + CRC_AT, computed_crc(view, position, size))


def set_log_append_time(
    view: bytearray | memoryview, timestamp_ms: int, position: int = 0, size: int | None = None
) -> None:
    """Mark the batch with LogAppendTime: readers then use the max timestamp for every record."""
    attributes = _unpack_attributes(view, position + ATTRIBUTES_AT)[0]
    _pack_attributes(view, position + ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _pack_base_offset(view, position + MAX_TIMESTAMP_AT, timestamp_ms)
    patch_crc(view, position, size)


def iter_batches(view: Buffer, *, allow_partial: bool = False) -> Iterator[memoryview]:
    """Split consecutive batches. Checks sizes only: neither magic nor checksum.

    A fetched range may end in the middle of a batch: `allow_partial` stops there without an error.
    """
    whole = memoryview(view)
    position, end = 0, len(whole)
    while position < end:
        if allow_partial:
            left = end - position
            if left < LOG_OVERHEAD or _unpack_offset_and_length(whole, position)[1] + LOG_OVERHEAD > left:
                return
        size = batch_size(whole, position)
        yield whole[position : position + size]
        position += size
