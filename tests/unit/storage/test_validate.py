from struct import pack_into
from typing import Any

import pytest

from penstock.model.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTxnState,
    MessageTooLarge,
    Refusal,
    UnsupportedCompressionType,
)
from penstock.storage.validate import explain, rules_of
from penstock.wire.batch import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    MAGIC_AT,
    RECORD_COUNT_AT,
    BatchHeader,
    patch_crc,
)
from penstock.wire.compression import Codec
from penstock.wire.records import Record, decode_batch, encode_batch
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import NOW_MS, append, batch, idempotent, open_log, small_settings


def changed(sealed: bytes, position: int, layout: str, value: int, *, reseal: bool = True) -> bytes:
    """Return the batch with one header field replaced."""
    copy = bytearray(sealed)
    pack_into(layout, copy, position, value)
    if reseal:
        patch_crc(copy, 0, len(copy))
    return bytes(copy)


BAD = {
    "magic 1": (changed(batch(), MAGIC_AT, ">b", 1), InvalidRecord),
    "length below the header": (changed(batch(), LENGTH_AT, ">i", 10), CorruptMessage),
    "negative length": (changed(batch(), LENGTH_AT, ">i", -1), CorruptMessage),
    "magic 3": (changed(batch(), MAGIC_AT, ">b", 3), CorruptMessage),
    "magic -1": (changed(batch(), MAGIC_AT, ">b", -1), CorruptMessage),
    "length just below the header": (changed(batch(), LENGTH_AT, ">i", 48), CorruptMessage),
    "length beyond the bytes": (changed(batch(), LENGTH_AT, ">i", 5000), InvalidRecord),
    "cut in the middle": (batch(3)[:-5], InvalidRecord),
    "a base offset of its own": (batch(base_offset=77), InvalidRecord),
    "two batches": (batch() + batch(), InvalidRecord),
    "a flipped bit": (batch()[:-3] + b"~" + batch()[-2:], CorruptMessage),
    "no records": (changed(batch(), RECORD_COUNT_AT, ">i", 0), InvalidRecord),
    "a negative count": (changed(batch(), RECORD_COUNT_AT, ">i", -1), InvalidRecord),
    "count and offsets differ": (changed(batch(2), LAST_OFFSET_DELTA_AT, ">i", 7), InvalidRecord),
    "a control batch": (batch(is_control=True), InvalidRecord),
    "no sequence": (changed(idempotent(sequence=0), BASE_SEQUENCE_AT, ">i", -1), InvalidRecord),
    "transactional without a producer": (changed(batch(), ATTRIBUTES_AT, ">h", 16), InvalidRecord),
    "an unknown codec": (changed(batch(), ATTRIBUTES_AT, ">h", 5), UnsupportedCompressionType),
    "not compressed at all": (changed(batch(), ATTRIBUTES_AT, ">h", Codec.ZSTD), CorruptMessage),
    "a transaction nobody opened": (
        idempotent(sequence=0, is_transactional=True),
        InvalidTxnState,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_batch_is_rejected_with_its_error_and_changes_nothing(name: str) -> None:
    sealed, refusal = BAD[name]
    log = open_log(SimDisk())
    with pytest.raises(refusal):
        append(log, sealed)
    assert (log.end_offset, log.size, len(log.producers())) == (0, 0, 0)


def test_a_producer_cannot_set_the_timestamp_type() -> None:
    log = open_log(SimDisk())
    appended = append(log, changed(batch(timestamp=NOW_MS - 5), ATTRIBUTES_AT, ">h", 8))
    assert appended.log_append_time_ms == -1
    assert [record.timestamp for record in decode_batch(stored_bytes(log))] == [NOW_MS - 5]
    assert stored_bytes(log)[16:] == batch(timestamp=NOW_MS - 5)[16:]


def test_a_producer_without_an_epoch_is_accepted() -> None:
    log = open_log(SimDisk())
    append(log, idempotent(sequence=0, epoch=-1))
    assert append(log, idempotent(sequence=9, epoch=-1)).base_offset == 1
    assert append(log, idempotent(sequence=9, epoch=-1)).duplicate


def test_a_record_count_that_cannot_fit_is_rejected_without_decoding() -> None:
    many = changed(changed(batch(), RECORD_COUNT_AT, ">i", 1 << 20), LAST_OFFSET_DELTA_AT, ">i", (1 << 20) - 1)
    with pytest.raises(InvalidRecord):
        append(open_log(SimDisk()), many)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_batches_are_not_decompressed(codec: int) -> None:
    log = open_log(SimDisk())
    sealed = batch(3, value=b"v" * 100, codec=codec)
    append(log, sealed)
    assert stored_bytes(log)[16:] == sealed[16:]


def stored_bytes(log: Any) -> bytes:
    piece = log.read(log.start_offset, max_bytes=1 << 20, end=log.end_offset)
    content: bytes = piece.file.read(piece.size, piece.position)
    return content


def test_a_large_batch_is_too_large() -> None:
    with pytest.raises(MessageTooLarge):
        append(open_log(SimDisk(), max_message_bytes=200), batch(value=b"x" * 200))


def test_a_compacted_topic_reports_the_records_without_a_key() -> None:
    records = [Record(timestamp=NOW_MS, key=key, value=b"v") for key in (b"a", None, b"b", None)]
    with pytest.raises(InvalidRecord) as refused:
        append(open_log(SimDisk(), cleanup_policy=frozenset({"compact"})), encode_batch(records))
    assert [index for index, _ in refused.value.record_errors] == [1, 3]


def test_a_compacted_topic_accepts_records_with_keys() -> None:
    log = open_log(SimDisk(), cleanup_policy=frozenset({"compact"}))
    assert append(log, batch(2)).last_offset == 1


def test_a_timestamp_too_far_ahead_is_reported() -> None:
    records = [Record(timestamp=NOW_MS + ahead, value=b"v") for ahead in (0, 3_600_001)]
    with pytest.raises(InvalidTimestamp) as refused:
        append(open_log(SimDisk()), encode_batch(records))
    assert [index for index, _ in refused.value.record_errors] == [1]


def test_a_timestamp_older_than_the_topic_allows_is_reported() -> None:
    log = open_log(SimDisk(), message_timestamp_before_max_ms=1000)
    with pytest.raises(InvalidTimestamp):
        append(log, batch(timestamp=NOW_MS - 1001))
    assert append(log, batch(timestamp=NOW_MS - 1000)).base_offset == 0


def test_records_without_a_timestamp_are_not_checked() -> None:
    log = open_log(SimDisk(), message_timestamp_before_max_ms=1000)
    assert append(log, batch(timestamp=-1)).base_offset == 0


def test_log_append_time_is_set_in_the_batch() -> None:
    log = open_log(SimDisk(), message_timestamp_type="LogAppendTime")
    appended = append(log, batch(2, timestamp=5), now_ms=NOW_MS + 77)
    assert appended.log_append_time_ms == NOW_MS + 77
    content = stored_bytes(log)
    assert BatchHeader.at(content).is_log_append_time
    assert [record.timestamp for record in decode_batch(content)] == [NOW_MS + 77] * 2


def test_a_duplicate_with_log_append_time_gets_the_time_of_the_first_append() -> None:
    log = open_log(SimDisk(), message_timestamp_type="LogAppendTime")
    append(log, idempotent(sequence=0), now_ms=NOW_MS)
    assert append(log, idempotent(sequence=0), now_ms=NOW_MS + 5).log_append_time_ms == NOW_MS


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_codec_of_a_topic_recompresses_other_batches(wanted: str) -> None:
    log = open_log(SimDisk(), compression_type=wanted)
    sent = [Record(timestamp=NOW_MS + index, key=b"k%d" % index, value=b"v" * 50) for index in range(5)]
    codec = Codec.NONE if wanted != "uncompressed" else Codec.GZIP
    append(log, encode_batch(sent, codec=codec, producer_id=3, producer_epoch=1, base_sequence=0), epoch=6)
    content = stored_bytes(log)
    header = BatchHeader.at(content)
    assert header.codec == {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[wanted]
    assert (header.producer_id, header.base_sequence, header.leader_epoch) == (3, 0, 6)
    assert [(record.timestamp, record.key, record.value) for record in decode_batch(content)] == [
        (record.timestamp, record.key, record.value) for record in sent
    ]


def test_a_batch_that_is_too_large_after_recompression_is_rejected() -> None:
    log = open_log(SimDisk(), compression_type="uncompressed", max_message_bytes=300)
    with pytest.raises(MessageTooLarge):
        append(log, batch(value=b"x" * 900, codec=Codec.GZIP))


def test_garbage_in_a_valid_frame_is_rejected() -> None:
    log = open_log(SimDisk(), compression_type="lz4")
    sealed = bytearray(batch(3, value=b"v" * 100, codec=Codec.ZSTD))
    sealed[70:80] = b"\xff" * 10
    patch_crc(sealed, 0, len(sealed))
    with pytest.raises(Refusal):
        append(log, bytes(sealed))


def test_a_batch_smaller_than_a_header_is_corrupt() -> None:
    with pytest.raises(CorruptMessage, match="smaller than a batch header"):
        explain(memoryview(bytearray(batch()[:40])), max_message_bytes=1000)


def test_an_unknown_codec_is_rejected() -> None:
    with pytest.raises(UnsupportedCompressionType, match="no compression codec 6"):
        explain(memoryview(bytearray(changed(batch(), ATTRIBUTES_AT, ">h", 6))), max_message_bytes=1000)


def test_only_the_first_errors_of_a_batch_are_named() -> None:
    log = open_log(SimDisk(), cleanup_policy=frozenset({"compact"}))
    with pytest.raises(InvalidRecord, match="1200 record errors") as refusal:
        append(log, batch(1200, key=None))
    assert len(refusal.value.record_errors) == 1000


def test_logs_with_the_same_settings_share_their_rules() -> None:
    settings = small_settings()
    assert rules_of(settings) is (rules := rules_of(settings))
    other = small_settings(message_timestamp_type="LogAppendTime")
    assert (rules.broker_time, rules_of(other).broker_time) == (False, True)
