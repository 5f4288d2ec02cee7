"""What a batch from a client must be before it may enter the log.

`explain` names what is wrong with a batch that failed the quick comparison in `Log.append`;
`prepare` does what needs the records opened: keys of compacted topics, timestamps out of
bounds, another codec, the broker's own timestamps. Everything else keeps records closed.
Refuses: CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge,
UnsupportedCompressionType.
"""

from struct import Struct
from typing import Final

from penstock.config.settings import TopicSettings
from penstock.model.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from penstock.model.ids import NO_TIMESTAMP
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
    set_log_append_time,
)
from penstock.wire.compression import Codec, check_codec_frame
from penstock.wire.records import Record, decode_batch, recompress_batch

BEFORE_MAX_DEFAULT: Final = (1 << 63) - 1
# The oldest message format's smallest message; below it no format is possible.
_LENGTH_LEAST: Final = 14
RECORD_SIZE_LEAST: Final = 7
"""Length, attributes, timestamp, offset, key, value and header count take a byte each at least."""
CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_pack_attributes: Final = Struct(">h").pack_into
_ERRORS_NAMED_MAX: Final = 1000


def explain(records: memoryview, *, max_message_bytes: int) -> None:
    """Raise what a client is told about its batch; return if it is one of the rare legal kinds after all."""
    if len(records) < HEADER_SIZE:
        raise CorruptMessage(f"{len(records)} bytes are too few for a batch")
    header = BatchHeader.at(records)
    _check_frame(header, len(records))
    if len(records) > max_message_bytes:
        raise MessageTooLarge(f"the batch has {len(records)} bytes, and max.message.bytes is {max_message_bytes}")
    if computed_crc(records, 0, len(records)) != header.crc:
        raise CorruptMessage("the checksum of the batch does not match")
    if header.base_offset != 0:
        raise InvalidRecord(f"the batch claims base offset {header.base_offset}, which is not the producer's to give")
    if header.record_count <= 0:
        raise InvalidRecord(f"the batch claims {header.record_count} records")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"the batch claims {header.record_count} records and a last offset delta of {header.last_offset_delta}"
        )
    if header.attributes & CONTROL:
        raise InvalidRecord("clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecord(f"producer id {header.producer_id} comes with sequence {header.base_sequence}")
    _check_payload(header, records)
    if header.attributes & TRANSACTIONAL and header.producer_id < 0:
        raise InvalidRecord("a transactional batch names no producer")
    if header.attributes & LOG_APPEND_TIME:
        # Whose clock it is says the topic: the bit is the broker's to set.
        _pack_attributes(records, ATTRIBUTES_AT, header.attributes & ~LOG_APPEND_TIME)
        patch_crc(records, 0, len(records))


def _check_frame(header: BatchHeader, size: int) -> None:
    """Check length and magic, in Kafka's order: what cannot be a batch at all is corrupt, half a batch is invalid."""
    claimed = header.length + LOG_OVERHEAD
    if header.length < _LENGTH_LEAST:
        raise CorruptMessage(f"the batch claims {claimed} bytes and {size} are there")
    if not 0 <= header.magic <= MAGIC:
        raise CorruptMessage(f"Invalid magic found in record: {header.magic}")
    if claimed > size:
        raise InvalidRecord(f"the batch claims {claimed} bytes and {size} are there")
    if header.magic != MAGIC:
        raise InvalidRecord(f"message format v{header.magic} is not supported, only v{MAGIC} is")
    if claimed < HEADER_SIZE:
        raise CorruptMessage(f"a batch of {claimed} bytes is smaller than its header")
    if claimed < size:
        raise InvalidRecord("a produce request holds exactly one batch per partition")


def _check_payload(header: BatchHeader, records: memoryview) -> None:
    codec = header.attributes & CODEC_MASK
    if codec > Codec.ZSTD:
        raise UnsupportedCompressionType(f"there is no compression codec {codec}")
    if codec == Codec.NONE and len(records) - HEADER_SIZE < header.record_count * RECORD_SIZE_LEAST:
        raise InvalidRecord(f"{header.record_count} records do not fit into {len(records) - HEADER_SIZE} bytes")
    if not check_codec_frame(codec, records[HEADER_SIZE:]):
        raise CorruptMessage(f"the records are not compressed with codec {codec}")


def needs_preparing(settings: TopicSettings) -> bool:
    """Whether every batch of the topic goes through `prepare`."""
    return (
        settings.compact
        or settings.compression_type != "producer"
        or settings.message_timestamp_type == "LogAppendTime"
        or settings.message_timestamp_before_max_ms < BEFORE_MAX_DEFAULT
    )


def prepare(records: memoryview, settings: TopicSettings, now_ms: int) -> memoryview:
    """Return the batch as it is to be stored: the same bytes changed in place, or a recompressed copy."""
    header = BatchHeader.at(records)
    created = settings.message_timestamp_type == "CreateTime"
    bounds = (
        (now_ms - settings.message_timestamp_before_max_ms, now_ms + settings.message_timestamp_after_max_ms)
        if created
        else None
    )
    if settings.compact or (created and _timestamps_need_a_look(header, settings, now_ms)):
        _check_each(decode_batch(records, check_crc=False), keys_needed=settings.compact, bounds=bounds)
    if settings.compression_type != "producer":
        codec = CODECS[settings.compression_type]
        if codec != header.codec:
            packed = recompress_batch(records, codec, _level(codec, settings), check_crc=False)
            if len(packed) > settings.max_message_bytes:
                raise MessageTooLarge(
                    f"the batch has {len(packed)} bytes as {settings.compression_type}, "
                    f"and max.message.bytes is {settings.max_message_bytes}"
                )
            records = memoryview(bytearray(packed))
    if not created:
        set_log_append_time(records, now_ms)
    return records


def _timestamps_need_a_look(header: BatchHeader, settings: TopicSettings, now_ms: int) -> bool:
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


def _check_each(records: list[Record], *, keys_needed: bool, bounds: tuple[int, int] | None) -> None:
    """Name every record at fault (KIP-467)."""
    errors: list[tuple[int, str]] = []
    late = False
    for index, record in enumerate(records):
        if keys_needed and record.key is None:
            errors.append((index, "Compacted topic cannot accept message without key."))
        elif bounds and record.timestamp != NO_TIMESTAMP and not bounds[0] <= record.timestamp <= bounds[1]:
            late = True
            errors.append((index, f"Timestamp {record.timestamp} is outside [{bounds[0]}, {bounds[1]}]."))
    if errors:
        named = tuple(errors[:_ERRORS_NAMED_MAX])
        if late:
            raise InvalidTimestamp(
                "One or more records have been rejected due to invalid timestamp", record_errors=named
            )
        raise InvalidRecord(
            f"One or more records have been rejected due to {len(errors)} record errors", record_errors=named
        )
