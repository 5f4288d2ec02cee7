"""The control batch that ends a transaction in a partition, in Kafka's layout.

It has one record: the key contains abort or commit, the value the epoch of the coordinator. Written by
marker_append.py, read by recovery and followers. Other control records are not markers.
"""

from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.model.errors import Refusal
from penstock.wire.batch import (
    CONTROL,
    HEADER_SIZE,
    LENGTH_LEAST,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    Buffer,
)
from penstock.wire.records import decode_batch

ABORT: Final = 0
COMMIT: Final = 1
_HEAD: Final = Struct(">qiibI")
_SEALED: Final = Struct(">hiqqqhii")
# Length, attributes, timestamp and offset deltas, key length; version and type; value length; version and
# coordinator epoch; header count.
_RECORD: Final = Struct(">5shhBhiB")
_LEAD: Final = bytes((32, 0, 0, 0, 8))
_VALUE_LENGTH: Final = 12
_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
SIZE: Final = HEADER_SIZE + _RECORD.size


class Marker(NamedTuple):
    """The content of a marker."""

    commit: bool
    coordinator_epoch: int


def encode_marker(
    *, producer_id: int, producer_epoch: int, commit: bool, coordinator_epoch: int, now_ms: int, broker_time: bool
) -> bytearray:
    """Return a control batch with a valid checksum; the log sets its offset and leader epoch."""
    attributes = TRANSACTIONAL | CONTROL | (LOG_APPEND_TIME if broker_time else 0)
    sealed = _SEALED.pack(attributes, 0, now_ms, now_ms, producer_id, producer_epoch, -1, 1) + _RECORD.pack(
        _LEAD, 0, COMMIT if commit else ABORT, _VALUE_LENGTH, 0, coordinator_epoch, 0
    )
    return bytearray(_HEAD.pack(0, LENGTH_LEAST + _RECORD.size, -1, MAGIC, crc32c(sealed)) + sealed)


def read_marker(batch: Buffer) -> Marker | None:
    """Return the marker in a control batch, None if it does not end a transaction."""
    if len(batch) == SIZE:
        lead, _, kind, value_length, _, coordinator_epoch, _ = _RECORD.unpack_from(batch, HEADER_SIZE)
        if lead == _LEAD and value_length == _VALUE_LENGTH:
            return Marker(kind == COMMIT, coordinator_epoch) if kind in (ABORT, COMMIT) else None
    try:
        record = decode_batch(batch, check_crc=False)[0]
    except (Refusal, IndexError):
        return None
    if record.key is None or record.value is None or len(record.key) < _KEY.size or len(record.value) < _VALUE.size:
        return None
    kind, coordinator_epoch = _KEY.unpack_from(record.key)[1], _VALUE.unpack_from(record.value)[1]
    return Marker(kind == COMMIT, coordinator_epoch) if kind in (ABORT, COMMIT) else None
