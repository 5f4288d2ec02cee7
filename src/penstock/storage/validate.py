"""Validation of batches from clients.

`explain` raises the error for a batch that failed the quick check in `Log.append`; `prepare` does what requires
decoding the records: keys of compacted topics, timestamps out of bounds, another codec. Other batches are not decoded.
Refuses: CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge,
UnsupportedCompressionType.
"""

from functools import partial
from struct import Struct
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from penstock.config.settings import TopicSettings
from penstock.model.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from penstock.model.ids import NO_TIMESTAMP
from penstock.model.job import Job
from penstock.wire import unpacking
from penstock.wire.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    computed_crc,
    patch_crc,
)
from penstock.wire.compression import Codec, check_codec_frame
from penstock.wire.packing import Packer, is_quick, packer
from penstock.wire.record_heads import RECORD_SIZE_LEAST, RecordHeads
from penstock.wire.records import with_payload
from penstock.wire.unpacking import Chunks, pull, unpack

BEFORE_MAX_DEFAULT: Final = (1 << 63) - 1
# The smallest message of the oldest message format; anything smaller is invalid in all formats.
_LENGTH_LEAST: Final = 14
CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_pack_attributes: Final = Struct(">h").pack_into
_ERRORS_NAMED_MAX: Final = 1000
_REPACKED_SIZE: Final = 128 * 1024
"""This much is compressed in one call, off the event loop."""


def explain(records: memoryview, *, max_message_bytes: int) -> None:
    """Raise the error for an invalid batch; return if it is of a rare valid kind."""
    if len(records) < HEADER_SIZE:
        raise CorruptMessage(f"a batch of {len(records)} bytes is smaller than a batch header")
    header = BatchHeader.at(records)
    _check_frame(header, len(records))
    if len(records) > max_message_bytes:
        raise MessageTooLarge(f"the batch has {len(records)} bytes, more than max.message.bytes, {max_message_bytes}")
    if computed_crc(records, 0, len(records)) != header.crc:
        raise CorruptMessage("the checksum of the batch does not match")
    if header.base_offset != 0:
        raise InvalidRecord(f"the base offset of the batch is {header.base_offset}, but must be 0")
    if header.record_count <= 0:
        raise InvalidRecord(f"the record count of the batch is {header.record_count}")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"the batch has {header.record_count} records, but a last offset delta of {header.last_offset_delta}"
        )
    if header.attributes & CONTROL:
        raise InvalidRecord("clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecord(f"the batch of producer {header.producer_id} has base sequence {header.base_sequence}")
    _check_payload(header, records)
    if header.attributes & TRANSACTIONAL and header.producer_id < 0:
        raise InvalidRecord("a transactional batch needs a producer id")
    if header.attributes & LOG_APPEND_TIME:
        # The timestamp type is a setting of the topic: only the broker sets this bit.
        _pack_attributes(records, ATTRIBUTES_AT, header.attributes & ~LOG_APPEND_TIME)
        patch_crc(records, 0, len(records))


def _check_frame(header: BatchHeader, size: int) -> None:
    """Check length and magic in Kafka's order: CORRUPT_MESSAGE if it cannot be a batch, else INVALID_RECORD."""
    claimed = header.length + LOG_OVERHEAD
    if header.length < _LENGTH_LEAST:
        raise CorruptMessage(f"the batch has a length of {claimed} bytes, but {size} were sent")
    if not 0 <= header.magic <= MAGIC:
        raise CorruptMessage(f"Invalid magic found in record: {header.magic}")
    if claimed > size:
        raise InvalidRecord(f"the batch has a length of {claimed} bytes, but {size} were sent")
    if header.magic != MAGIC:
        raise InvalidRecord(f"message format v{header.magic} is not supported, only v{MAGIC} is")
    if claimed < HEADER_SIZE:
        raise CorruptMessage(f"a batch of {claimed} bytes is smaller than its header")
    if claimed < size:
        raise InvalidRecord("a produce request must have exactly one batch per partition")


def _check_payload(header: BatchHeader, records: memoryview) -> None:
    codec = header.attributes & CODEC_MASK
    if codec > Codec.ZSTD:
        raise UnsupportedCompressionType(f"there is no compression codec {codec}")
    if codec == Codec.NONE and len(records) - HEADER_SIZE < header.record_count * RECORD_SIZE_LEAST:
        raise InvalidRecord(f"{header.record_count} records do not fit into {len(records) - HEADER_SIZE} bytes")
    if not check_codec_frame(codec, records[HEADER_SIZE:]):
        raise CorruptMessage(f"the records are not compressed with codec {codec}")


def needs_preparing(settings: TopicSettings) -> bool:
    """Return whether `prepare` must decode the records of every batch of the topic."""
    return (
        settings.compact
        or settings.compression_type != "producer"
        or (
            settings.message_timestamp_type == "CreateTime"
            and settings.message_timestamp_before_max_ms < BEFORE_MAX_DEFAULT
        )
    )


class AppendRules:
    """The topic settings that `Log.append` checks, computed once per change of the settings."""

    __slots__ = (
        "__weakref__",
        "broker_time",
        "changes_batches",
        "max_message_bytes",
        "opens_batches",
        "settings",
        "timestamp_after_max_ms",
    )

    def __init__(self, settings: TopicSettings) -> None:
        self.settings = settings
        self.max_message_bytes = settings.max_message_bytes
        self.timestamp_after_max_ms = settings.message_timestamp_after_max_ms
        self.broker_time = settings.message_timestamp_type == "LogAppendTime"
        self.opens_batches = needs_preparing(settings)
        self.changes_batches = self.opens_batches or self.broker_time


# By the identity of the settings, which exist as long as their rules.
_RULES: Final = WeakValueDictionary[int, AppendRules]()


def rules_of(settings: TopicSettings) -> AppendRules:
    """Return the rules of these settings, which all logs with the same settings share."""
    rules = _RULES.get(id(settings))
    if rules is None:
        rules = _RULES[id(settings)] = AppendRules(settings)
    return rules


class Unprepared(Exception):
    """The batch is valid so far, but `prepare` must decode its records before it can be appended."""


class Prepared(NamedTuple):
    """A batch as it will be stored, and the settings for which it was prepared."""

    records: memoryview
    settings: TopicSettings


def memory_needed(records: memoryview) -> int:
    """Return the most memory that `prepare` uses while it runs."""
    return unpacking.memory_needed(BatchHeader.at(records).codec, records[HEADER_SIZE:])


def prepare(records: memoryview, settings: TopicSettings, now_ms: int) -> Job[Prepared]:
    """Validate the records, and compress them with the topic's codec if it requires one.

    This is a job (model/job.py), because decompressing and checking the records of a small batch may take seconds.
    """
    header = BatchHeader.at(records)
    codec = CODECS.get(settings.compression_type, header.codec)
    repack = None if codec == header.codec else _Repack(codec, settings)
    bounds = None
    if settings.message_timestamp_type == "CreateTime" and _timestamps_need_check(header, settings, now_ms):
        bounds = (
            now_ms - settings.message_timestamp_before_max_ms,
            now_ms + settings.message_timestamp_after_max_ms,
        )
    if settings.compact or bounds is not None:
        yield from _check_each(header, records[HEADER_SIZE:], keys_needed=settings.compact, bounds=bounds)
    if repack is not None:
        payload = yield from repack.run(unpack(header.codec, records[HEADER_SIZE:]))
        records = memoryview(bytearray(with_payload(header, codec, payload)))
    return Prepared(records, settings)


class _Repack:
    """Compresses the records with another codec, without decoding them."""

    def __init__(self, codec: int, settings: TopicSettings) -> None:
        self._codec = codec
        self._name = settings.compression_type
        self._level = _level(codec, settings)
        self._size_left = self._size_max = settings.max_message_bytes
        self._parts: list[bytes] = []

    def run(self, chunks: Chunks) -> Job[bytes]:
        stream = packer(self._codec, self._level)
        kept: list[bytes] = []
        kept_size = size = 0
        self._size_left -= HEADER_SIZE
        while (chunk := (yield from pull(chunks))) is not None:
            kept.append(chunk)
            kept_size += len(chunk)
            size += len(chunk)
            if kept_size >= _REPACKED_SIZE:
                self._take((yield partial(stream.add, b"".join(kept))))
                kept, kept_size = [], 0
            else:
                yield None
        rest = partial(_add_last, stream, b"".join(kept))
        self._take(rest() if is_quick(self._codec, self._level, size) else (yield rest))
        return b"".join(self._parts)

    def _take(self, part: bytes) -> None:
        self._size_left -= len(part)
        if self._size_left < 0:
            raise MessageTooLarge(
                f"compressed with {self._name}, the batch is larger than max.message.bytes, {self._size_max}"
            )
        self._parts.append(part)


def _add_last(stream: Packer, data: bytes) -> bytes:
    return stream.add(data) + stream.end()


def _timestamps_need_check(header: BatchHeader, settings: TopicSettings, now_ms: int) -> bool:
    return (
        settings.message_timestamp_before_max_ms < BEFORE_MAX_DEFAULT
        or header.max_timestamp - now_ms > settings.message_timestamp_after_max_ms
    )


def _level(codec: int, settings: TopicSettings) -> int | None:
    return {
        Codec.GZIP: settings.compression_gzip_level,
        Codec.LZ4: settings.compression_lz4_level,
        Codec.ZSTD: settings.compression_zstd_level,
    }.get(codec)


def _check_each(
    header: BatchHeader, payload: memoryview, *, keys_needed: bool, bounds: tuple[int, int] | None
) -> Job[None]:
    """Report every invalid record (KIP-467)."""
    errors: list[tuple[int, str]] = []
    late = False
    index = error_count = 0
    base = header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    least, most = bounds or (0, 0)
    heads = RecordHeads(header, payload)
    while (found := (yield from heads.read())) is not None:
        for timestamp_delta, _, key_size in found:
            error = None
            if keys_needed and key_size < 0:
                error = "Compacted topic cannot accept message without key."
            elif bounds:
                timestamp = base + timestamp_delta if append_time is None else append_time
                if timestamp != NO_TIMESTAMP and not least <= timestamp <= most:
                    late = True
                    error = f"Timestamp {timestamp} is outside [{least}, {most}]."
            if error is not None:
                error_count += 1
                if len(errors) < _ERRORS_NAMED_MAX:
                    errors.append((index, error))
            index += 1
        yield None
    if error_count:
        named = tuple(errors)
        if late:
            raise InvalidTimestamp(
                "One or more records have been rejected due to invalid timestamp", record_errors=named
            )
        raise InvalidRecord(
            f"One or more records have been rejected due to {error_count} record errors", record_errors=named
        )
