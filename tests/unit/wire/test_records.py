"""Records are encoded as clients encode them and decoded strictly."""

import base64
import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from penstock.wire import batch
from penstock.wire.batch import BatchHeader
from penstock.wire.compression import check_codec_frame
from penstock.wire.records import (
    Record,
    decode_batch,
    decode_payload,
    encode_batch,
    encode_plain_batch,
    iter_batches,
    recompress_batch,
)

VECTORS = json.loads((Path(__file__).parent / "client_batches.json").read_text())

maybe_bytes = st.none() | st.binary(max_size=200)
some_records = st.lists(
    st.builds(
        Record,
        offset=st.just(-1),
        timestamp=st.integers(0, 2**50),
        key=maybe_bytes,
        value=maybe_bytes,
        headers=st.lists(st.tuples(st.binary(max_size=80), maybe_bytes), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=9000), maybe_bytes), min_size=1, max_size=200),
    st.integers(0, 2**50),
)
def test_a_plain_batch_has_the_bytes_of_encode_batch(
    pairs: list[tuple[bytes | None, bytes | None]], timestamp: int
) -> None:
    records = [Record(timestamp=timestamp, key=key, value=value) for key, value in pairs]
    assert encode_plain_batch(pairs, timestamp=timestamp) == encode_batch(records)


def batch_of(payload: bytes, *, count: int, last_delta: int | None = None, attributes: int = 0) -> bytes:
    """Return a batch with a correct checksum around the given records."""
    header = BatchHeader((0, 49 + len(payload), 0, 2, 0, attributes, 0, 1000, 1000, -1, -1, -1, count))
    header.last_offset_delta = count - 1 if last_delta is None else last_delta
    data = bytearray(header.pack() + payload)
    batch.patch_crc(data)
    return bytes(data)


# Size 6, attributes, timestamp delta, offset delta, null key, null value, no headers.
LEAST = bytes([12, 0, 0, 0, 1, 1, 0])


@given(records=some_records, codec=st.integers(0, 4), base_offset=st.integers(0, 2**62))
def test_records_and_their_offsets_round_trip(records: list[Record], codec: int, base_offset: int) -> None:
    data = encode_batch(records, base_offset=base_offset, codec=codec)
    header = BatchHeader.at(data)
    assert batch.crc_ok(data)
    assert header.size == len(data)
    assert header.record_count == len(records)
    assert header.max_timestamp == max(record.timestamp for record in records)
    expected = [record._replace(offset=base_offset + index) for index, record in enumerate(records)]
    assert decode_batch(data) == expected


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_batches_of_clients_are_decoded(client: str, codec: str) -> None:
    data = base64.b64decode(VECTORS[client][codec])
    assert check_codec_frame(BatchHeader.at(data).codec, data[batch.HEADER_SIZE :])
    assert decode_batch(data) == [
        Record(0, 1700000000000, None, b"penstock " * 12, ((b"source", client.encode()), (b"empty", None))),
        Record(1, 1700000000001, b"key-1", b"penstock " * 12),
        Record(2, 1700000000002, b"key-2", None),
    ]


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_uncompressed_batches_of_clients_equal_ours(client: str) -> None:
    data = base64.b64decode(VECTORS[client]["none"])
    assert encode_batch(decode_batch(data), leader_epoch=BatchHeader.at(data).leader_epoch) == data


def test_offsets_with_gaps_are_kept() -> None:
    records = [Record(offset=offset, timestamp=0, value=b"x") for offset in (10, 13, 400)]
    data = encode_batch(records, base_offset=10)
    assert BatchHeader.at(data).last_offset == 400
    assert decode_batch(data) == records


@pytest.mark.parametrize("offsets", [(5, 5), (6, 5), (4,), (5, 5 + 2**31)])
def test_offsets_that_do_not_rise_are_not_written(offsets: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="cannot follow"):
        encode_batch([Record(offset=offset, timestamp=0) for offset in offsets], base_offset=5)


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    assert decode_batch(batch_of(b"", count=0, last_delta=9)) == []
    assert decode_batch(batch_of(b"", count=0, last_delta=9, attributes=4)) == []


def test_bytes_behind_the_batch_are_ignored() -> None:
    data = encode_batch([Record(timestamp=1, value=b"x")])
    assert decode_batch(data + b"more") == decode_batch(data)


@given(records=some_records, codec=st.integers(0, 4), other=st.integers(0, 4))
def test_another_codec_changes_only_the_payload(records: list[Record], codec: int, other: int) -> None:
    data = encode_batch(records, base_offset=5, codec=codec, producer_id=9, producer_epoch=1, base_sequence=3)
    repacked = recompress_batch(data, other)
    before, after = BatchHeader.at(data), BatchHeader.at(repacked)
    assert batch.crc_ok(repacked)
    assert after.codec == other
    for name in set(batch.FIELDS) - {"length", "crc", "attributes"}:
        assert getattr(after, name) == getattr(before, name)
    assert decode_payload(repacked)[1] == decode_payload(data)[1]


def test_a_failed_checksum_is_corrupt_unless_the_check_is_disabled() -> None:
    data = bytearray(encode_batch([Record(timestamp=1, value=b"x")]))
    data[batch.CRC_AT] ^= 1
    with pytest.raises(CorruptMessage, match="checksum"):
        decode_batch(data)
    assert decode_batch(data, check_crc=False)[0].value == b"x"


def test_an_unknown_codec_is_unsupported() -> None:
    with pytest.raises(UnsupportedCompressionType):
        decode_batch(batch_of(LEAST, count=1, attributes=6))


def test_the_limit_applies_to_the_records_of_a_batch() -> None:
    data = encode_batch([Record(timestamp=0, value=bytes(100_000))], codec=1)
    with pytest.raises(InvalidRecord, match="more than 50000"):
        decode_batch(data, limit=50_000)


def test_the_smallest_record_is_read() -> None:
    assert decode_batch(batch_of(LEAST * 1, count=1)) == [Record(0, 1000)]


@pytest.mark.parametrize(
    ("payload", "count", "index"),
    [
        (LEAST + bytes([14, 0, 0, 2, 1, 1, 0]), 2, 1),  # A size beyond the payload.
        (bytes([10, 0, 0, 0, 1, 1, 0]), 1, 0),  # A size below the least.
        (bytes([13, 0, 0, 0, 1, 1, 0]), 1, 0),  # A negative size.
        (bytes([14, 0, 0, 0, 1, 1, 0, 0]), 1, 0),  # A byte too many inside the record.
        (bytes([12, 0, 0, 0, 20, 1, 0]), 1, 0),  # A key that ends after the record.
        (bytes([12, 0, 0, 0, 3, 1, 0]), 1, 0),  # A key of -2 bytes.
        (bytes([12, 0, 0, 0, 1, 5, 0]), 1, 0),  # A value of -3 bytes.
        (bytes([12, 0, 0, 0, 1, 1, 1]), 1, 0),  # -1 headers.
        (bytes([12, 0, 0, 0, 1, 1, 40]), 1, 0),  # 20 headers in no bytes.
        (bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1, 0),  # A header without a key.
        (bytes([12, 0, 0, 1, 1, 1, 0]), 1, 0),  # An offset delta of -1.
        (LEAST + LEAST, 2, 1),  # The same offset twice.
        (bytes([12, 0, 0, 9, 1, 1, 0]), 1, 0),  # An offset behind the last of the batch.
        (b"\xff\xff\xff\xff\xff\x01" + LEAST, 1, 0),  # A size that takes more than five bytes.
        (bytes([34, 0, *[0xFF] * 10, 1, 0, 1, 1, 0, 0, 0, 0]), 1, 0),  # A timestamp of eleven bytes.
    ],
)
def test_the_error_names_the_invalid_record(payload: bytes, count: int, index: int) -> None:
    with pytest.raises(InvalidRecord) as refusal:
        decode_batch(batch_of(payload, count=count))
    assert [at for at, _ in refusal.value.record_errors] == [index]


@pytest.mark.parametrize(("payload", "count"), [(LEAST, 2), (LEAST, 2**31 - 1), (LEAST, -1), (LEAST * 2, 1), (b"", 1)])
def test_a_count_that_does_not_fit_the_records_is_invalid(payload: bytes, count: int) -> None:
    with pytest.raises(InvalidRecord):
        decode_batch(batch_of(payload, count=count, last_delta=0))


@given(records=some_records, data=st.data())
def test_damaged_records_raise_no_other_error(records: list[Record], data: st.DataObject) -> None:
    damaged = bytearray(encode_batch(records))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidRecord, CorruptMessage, UnsupportedCompressionType):
        decode_batch(damaged, check_crc=False, limit=100_000)


def test_consecutive_batches_are_decoded_one_by_one() -> None:
    run = b"".join(encode_batch([Record(timestamp=0, value=b"%d" % n)], base_offset=n) for n in range(3))
    assert [decode_batch(view)[0].value for view in iter_batches(run)] == [b"0", b"1", b"2"]
