import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.compaction.batches import MalformedRecords, emptied, open_records, payload_of, with_records
from penstock.wire.batch import HEADER_SIZE, BatchHeader, HeaderTuple, patch_crc, unpack_header
from penstock.wire.records import Record, decode_batch, encode_batch

keys = st.one_of(st.none(), st.binary(max_size=40))
records = st.lists(
    st.builds(
        Record,
        offset=st.just(-1),
        timestamp=st.integers(0, 2**40),
        key=keys,
        value=st.one_of(st.none(), st.binary(max_size=200)),
        headers=st.lists(st.tuples(st.binary(max_size=5), keys), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=8,
)
codecs = st.integers(0, 4)


def header_of(batch: bytes) -> HeaderTuple:
    header: HeaderTuple = unpack_header(batch, 0)
    return header


@given(records, codecs, st.integers(0, 2**50), st.integers(0, 1))
def test_record_spans_match_decoded_records(given_records: list[Record], codec: int, base: int, stamp: int) -> None:
    batch = encode_batch(given_records, base_offset=base, codec=codec, timestamp_type=stamp)
    header = header_of(batch)
    spans = open_records(header, payload_of(header, memoryview(batch)))
    decoded = decode_batch(batch)
    assert [span.key for span in spans] == [record.key for record in decoded]
    assert [span.has_value for span in spans] == [record.value is not None for record in decoded]
    assert [base + span.offset_delta for span in spans] == [record.offset for record in decoded]


@given(records, codecs, st.data(), st.one_of(st.none(), st.integers(0, 2**41)), st.integers(0, 1))
def test_kept_records_are_unchanged(
    given_records: list[Record], codec: int, data: st.DataObject, horizon_ms: int | None, stamp: int
) -> None:
    batch = encode_batch(
        given_records, base_offset=99, codec=codec, leader_epoch=3, producer_id=8, producer_epoch=1, base_sequence=5,
        timestamp_type=stamp,
    )  # fmt: skip
    header = header_of(batch)
    payload = payload_of(header, memoryview(batch))
    spans = open_records(header, payload)
    kept = data.draw(st.sets(st.integers(0, len(spans) - 1), min_size=1).map(sorted))
    made = with_records(header, payload, [spans[index] for index in kept], horizon_ms=horizon_ms)
    decoded = decode_batch(batch)
    assert decode_batch(made) == [decoded[index] for index in kept]
    before, after = BatchHeader.at(batch), BatchHeader.at(made)
    for name in ("base_offset", "last_offset_delta", "leader_epoch", "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(after, name) == getattr(before, name)
    assert after.codec == codec
    assert after.delete_horizon_ms == horizon_ms
    assert after.max_timestamp == max(decoded[index].timestamp for index in kept)


def test_an_emptied_batch_keeps_its_offsets_and_optionally_its_sequence() -> None:
    batch = encode_batch([Record(timestamp=5, key=b"k")] * 3, base_offset=7, leader_epoch=2, producer_id=8,
                         producer_epoch=1, base_sequence=5, is_transactional=True, codec=4)  # fmt: skip
    for keeps_producer in (True, False):
        made = emptied(header_of(batch), keeps_producer=keeps_producer)
        header = BatchHeader.at(made)
        assert decode_batch(made) == []
        assert (header.base_offset, header.last_offset, header.leader_epoch) == (7, 9, 2)
        assert (header.producer_id, header.last_sequence) == ((8, 7) if keeps_producer else (-1, -1))
        assert header.is_transactional is keeps_producer
        assert len(made) == HEADER_SIZE


@given(records, st.data())
def test_garbage_is_rejected_and_changes_nothing(given_records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(encode_batch(given_records))
    at = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    patch_crc(batch)
    header = header_of(bytes(batch))
    try:
        spans = open_records(header, payload_of(header, memoryview(batch)))
    except MalformedRecords:
        return
    assert len(spans) == len(given_records)


def test_a_payload_that_cannot_be_decompressed_is_malformed() -> None:
    batch = bytearray(encode_batch([Record(key=b"k", value=b"v" * 100)] * 5, codec=4))
    batch[HEADER_SIZE + 8] ^= 0xFF
    with pytest.raises(MalformedRecords):
        payload_of(header_of(bytes(batch)), memoryview(batch))
