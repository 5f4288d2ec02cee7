"""Scanning records agrees with decoding them, whatever the chunks and the damage."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import CorruptMessage, InvalidRecord
from penstock.model.job import Job, finish
from penstock.wire.batch import HEADER_SIZE, BatchHeader, patch_crc
from penstock.wire.codecs import NONE, ZSTD
from penstock.wire.hot.primitives import pack_uvarint
from penstock.wire.record_heads import HEADS_PER_READ_MAX, Head, RecordHeads
from penstock.wire.records import Record, decode_batch, encode_batch
from penstock.wire.unpacking import CHUNK_SIZE

SIZES = st.one_of(st.none(), st.integers(0, 40), st.integers(CHUNK_SIZE - 30, CHUNK_SIZE + 30), st.just(3 * CHUNK_SIZE))
SHAPES = st.lists(
    st.tuples(st.integers(0, 1 << 50), SIZES, SIZES, st.lists(st.tuples(st.integers(0, 5), SIZES), max_size=2)),
    min_size=1,
    max_size=4,
)
"""Of each record: timestamp, sizes of key and value, and those of the headers' keys and values."""


def filled(size: int | None) -> bytes | None:
    return None if size is None else bytes(size)


def records_of(shapes: list[tuple[int, int | None, int | None, list[tuple[int, int | None]]]]) -> list[Record]:
    return [
        Record(
            timestamp=timestamp,
            key=filled(key),
            value=filled(value),
            headers=tuple((bytes(name), filled(size)) for name, size in headers),
        )
        for timestamp, key, value, headers in shapes
    ]


def heads_of(sealed: bytes) -> list[Head]:
    def read() -> Job[list[Head]]:
        found: list[Head] = []
        heads = RecordHeads(BatchHeader.at(sealed), memoryview(sealed)[HEADER_SIZE:])
        while (more := (yield from heads.read())) is not None:
            assert 0 < len(more) <= HEADS_PER_READ_MAX
            found += more
        return found

    return finish(read())


def as_heads(sealed: bytes) -> list[Head]:
    base = BatchHeader.at(sealed)
    return [
        (each.timestamp - base.base_timestamp, each.offset, -1 if each.key is None else len(each.key))
        for each in decode_batch(sealed, check_crc=False)
    ]


@settings(deadline=None, max_examples=60)
@given(shapes=SHAPES, codec=st.sampled_from((NONE, ZSTD)))
def test_every_record_is_found(shapes: Any, codec: int) -> None:
    sealed = encode_batch(records_of(shapes), codec=codec)
    assert heads_of(sealed) == as_heads(sealed)


@settings(deadline=None, max_examples=150)
@given(shapes=SHAPES, where=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_damage_is_rejected_by_both_or_by_neither(shapes: Any, where: float, byte: int) -> None:
    sealed = bytearray(encode_batch(records_of(shapes)))
    # Most bytes are in the middle of a value: prefer one of the first.
    reach = min(len(sealed) - HEADER_SIZE, 60)
    sealed[HEADER_SIZE + int(where * reach)] = byte
    patch_crc(sealed)
    try:
        expected: list[Head] | None = as_heads(bytes(sealed))
    except (InvalidRecord, CorruptMessage):
        expected = None
    try:
        found: list[Head] | None = heads_of(bytes(sealed))
    except (InvalidRecord, CorruptMessage):
        found = None
    assert found == expected


def test_a_record_with_very_many_headers_takes_many_steps() -> None:
    record = Record(timestamp=1, key=b"k", value=b"v", headers=((b"", None),) * 200_000)
    sealed = encode_batch([record], codec=ZSTD)
    heads = RecordHeads(BatchHeader.at(sealed), memoryview(sealed)[HEADER_SIZE:])
    job = heads.read()
    steps = 0
    try:
        while True:
            assert next(job) is None
            steps += 1
    except StopIteration as end:
        assert end.value == [(0, 0, 1)]
    assert steps > 20


@pytest.mark.parametrize("count", (1, 7))
def test_a_batch_with_fewer_records_than_it_claims_names_the_one_that_is_missing(count: int) -> None:
    sealed = bytearray(encode_batch([Record(timestamp=1, key=b"k", value=b"v")] * count))
    sealed[HEADER_SIZE - 4 : HEADER_SIZE] = (count + 1).to_bytes(4, "big")
    sealed[23:27] = count.to_bytes(4, "big")
    with pytest.raises(InvalidRecord, match=f"record {count}"):
        heads_of(bytes(sealed))


def zigzag(value: int) -> bytes:
    return pack_uvarint((value << 1) ^ (value >> 31))


def batch_of(fields: bytes, *, size: int | None = None, count: int = 1, behind: bytes = b"") -> bytes:
    """Return a batch with one record of the given fields behind its attributes."""
    body = b"\x00" + fields
    payload = zigzag(len(body) if size is None else size) + body + behind
    sealed = bytearray(encode_batch([Record(timestamp=1, key=None, value=None)]))
    sealed[HEADER_SIZE:] = payload
    sealed[8:12] = (len(sealed) - 12).to_bytes(4, "big")
    sealed[HEADER_SIZE - 4 : HEADER_SIZE] = count.to_bytes(4, "big")
    patch_crc(sealed)
    return bytes(sealed)


SMALL_VALUE = zigzag(1) + b"v"
LARGE_VALUE = zigzag(CHUNK_SIZE) + bytes(CHUNK_SIZE)
"""A record with it does not fit into a chunk, and is scanned field by field."""
START = b"\x00\x00\x01"
"""Timestamp delta and offset delta 0, no key."""


@pytest.mark.parametrize("value", (SMALL_VALUE, LARGE_VALUE), ids=("small", "large"))
@pytest.mark.parametrize(
    ("start", "rest", "why"),
    [
        (b"\x00" + zigzag(1) + b"\x01", b"\x00", "offset delta 1 is not within 0 and 0"),
        (b"\x00" + zigzag(-1) + b"\x01", b"\x00", "offset delta -1 is not within 0 and 0"),
        (b"\x00\x00" + zigzag(-2), b"\x00", "key of -2 bytes"),
        (START, zigzag(-1), "-1 headers in"),
        (START, zigzag(9) + b"\x00\x00", "9 headers in 2 bytes"),
        (START, zigzag(1) + zigzag(-1) + b"\x00", "a header without a key"),
        (START, zigzag(1) + b"\x00" + zigzag(-2), "a header value of -2 bytes"),
        (START, b"\x00" + b"rest", r"its fields take \d+ bytes"),
        (b"\x80" * 10 + b"\x00", b"\x00", "a variable-length integer is longer than 10 bytes"),
        (b"\x00" + b"\x80" * 5 + b"\x00", b"\x00", "a variable-length integer is longer than 5 bytes"),
    ],
)
def test_a_broken_record_is_rejected_with_its_position_and_the_reason(
    value: bytes, start: bytes, rest: bytes, why: str
) -> None:
    with pytest.raises(InvalidRecord, match=why) as raised:
        heads_of(batch_of(start + value + rest))
    assert str(raised.value).startswith("record 0: ")
    assert [index for index, _ in raised.value.record_errors] == [0]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (START + zigzag(2 * CHUNK_SIZE) + bytes(2 * CHUNK_SIZE) + b"\x00", "is larger than the rest of the record"),
        (
            START + zigzag(CHUNK_SIZE - 3) + bytes(CHUNK_SIZE - 3) + zigzag(64),
            "its fields take more bytes than its size",
        ),
    ],
)
def test_fields_of_a_large_record_stay_within_its_size(fields: bytes, why: str) -> None:
    with pytest.raises(InvalidRecord, match=why):
        heads_of(batch_of(fields, size=CHUNK_SIZE + 4))


@pytest.mark.parametrize("size", (1, 3 * CHUNK_SIZE))
def test_bytes_behind_the_last_record_are_rejected_with_their_number(size: int) -> None:
    with pytest.raises(InvalidRecord, match=f"{size} bytes follow the 1 records of the batch"):
        heads_of(batch_of(START + SMALL_VALUE + b"\x00", behind=bytes(size)))
