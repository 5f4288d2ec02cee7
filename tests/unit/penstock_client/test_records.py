"""Tests of the vectorized codec against the broker's codec, record by record."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

np = pytest.importorskip("numpy", reason="the Spark parts are not installed: pip install 'penstock[spark]'")
pa = pytest.importorskip("pyarrow")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from penstock.wire.batch import patch_crc  # noqa: E402
from penstock.wire.records import Record, decode_batch, encode_batch  # noqa: E402
from penstock_client.errors import Corrupt  # noqa: E402
from penstock_client.protocol.connection import PAD  # noqa: E402
from penstock_client.records import simple  # noqa: E402
from penstock_client.records.batches import Visible, scan  # noqa: E402
from penstock_client.records.compression import compress, decompress  # noqa: E402
from penstock_client.records.decode import Records, decode, headers  # noqa: E402
from penstock_client.records.encode import payloads, seal  # noqa: E402
from penstock_client.records.partitioner import murmur2  # noqa: E402

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
HEADER = st.tuples(st.text(max_size=5).map(str.encode), st.none() | st.binary(max_size=5))
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(-1),
        timestamp=st.integers(-(2**40), 2**45),
        key=st.none() | st.binary(max_size=300),
        value=st.none() | st.binary(max_size=300),
        headers=st.lists(
            st.tuples(st.text(max_size=5).map(str.encode), st.none() | st.binary(max_size=5)), max_size=3
        ).map(tuple),
    ),
    min_size=1,
    max_size=30,
)


def opened(data: bytes) -> Records:
    padded = bytearray(data + bytes(PAD))
    return decode(padded, list(scan(memoryview(padded), 0, len(data))))


def rows(records: Records) -> list[Record]:
    """Convert the columns back to records."""
    listed = headers(records, HEADERS).to_pylist()
    return [
        Record(offset, stamp, key, value, tuple((one["key"].encode(), one["value"]) for one in some or ()))
        for offset, stamp, key, value, some in zip(
            records.offsets.tolist(),
            records.timestamps.tolist(),
            records.keys().to_pylist(),
            records.values().to_pylist(),
            listed,
            strict=True,
        )
    ]


@given(batches=st.lists(RECORDS, min_size=1, max_size=4), codec=st.integers(0, 4))
@settings(max_examples=60)
def test_records_are_decoded_as_by_the_broker(batches: list[list[Record]], codec: int) -> None:
    data, base = b"", 7
    expected: list[Record] = []
    for records in batches:
        encoded = encode_batch(records, base_offset=base, codec=codec)
        expected += decode_batch(encoded)
        data += encoded
        base += len(records)
    assert rows(opened(data)) == expected


@given(records=RECORDS, codec=st.integers(0, 4), size=st.integers(40, 2000))
@settings(max_examples=60)
def test_rows_are_encoded_so_that_the_broker_can_read_them(records: list[Record], codec: int, size: int) -> None:
    given_headers = pa.array(
        [[{"key": name.decode(), "value": value} for name, value in one.headers] or None for one in records], HEADERS
    )
    written = payloads(
        pa.array([one.key for one in records], pa.binary()),
        pa.array([one.value for one in records], pa.binary()),
        np.array([one.timestamp for one in records], dtype=np.int64),
        given_headers,
        size_max=size,
    )
    found: list[Record] = []
    for payload in written:
        assert payload.count == 1 or len(payload.data) <= size
        sealed = b"".join(seal(payload, codec=codec, producer_id=1, epoch=2, sequence=3, transactional=True))
        found += decode_batch(sealed)
    assert [one._replace(offset=-1) for one in found] == records


@pytest.mark.parametrize("shape", ["text", "zeros", "random", "like records"])
def test_a_large_batch_is_split_at_real_record_starts(shape: str) -> None:
    chosen = random.Random(shape)
    inner = encode_batch([Record(timestamp=0, key=b"k", value=b"inner" * 5)] * 3)[61:]
    makers: dict[str, Callable[[int], bytes]] = {
        "text": lambda size: bytes(chosen.choice(b"abcdefgh{}:,") for _ in range(size)),
        "zeros": lambda size: bytes(size),
        "random": chosen.randbytes,
        "like records": lambda size: b"\x00" + inner * (1 + size // 60),
    }
    make = makers[shape]
    records = [
        Record(timestamp=index // 7, key=b"%d" % index, value=make(chosen.randrange(200))) for index in range(6000)
    ]
    expected = [one._replace(offset=index) for index, one in enumerate(records)]
    assert rows(opened(encode_batch(records))) == expected
    small = b"".join(encode_batch(records[start : start + 50], base_offset=start) for start in range(0, 6000, 50))
    assert rows(opened(small)) == expected


@pytest.mark.parametrize("odd", [None, 100, 9000])
def test_records_of_one_size_are_found_even_if_their_size_changes(odd: int | None) -> None:
    records = [Record(timestamp=5, key=b"%d" % index, value=b"\x00v" * 20) for index in range(4000)]
    if odd is not None:
        records[2500] = records[2500]._replace(value=bytes(odd))
    expected = [one._replace(offset=index) for index, one in enumerate(records)]
    halves = encode_batch(records[:2000]) + encode_batch(records[2000:], base_offset=2000)
    assert rows(opened(halves)) == expected


@pytest.mark.parametrize("change", [-1, 1])
def test_a_batch_of_equal_records_with_a_wrong_count_is_rejected(change: int) -> None:
    whole = encode_batch([Record(timestamp=1, value=b"x" * 30)] * 3000)
    padded = bytearray(whole + bytes(PAD))
    (batch,) = scan(memoryview(padded), 0, len(whole))
    with pytest.raises(Corrupt, match=f"has 3000 records but its header says {3000 + change}"):
        decode(padded, [batch._replace(record_count=3000 + change)])


def test_corruption_is_detected() -> None:
    data = bytearray(encode_batch([Record(timestamp=1, key=b"key", value=b"value" * 9)] * 4))
    data[80] ^= 1
    with pytest.raises(Corrupt, match="the batch at offset 0 fails its checksum"):
        opened(bytes(data))
    for codec in (1, 2, 3, 4):
        with pytest.raises(Corrupt):
            decompress(codec, b"\x00garbage\xff" * 3)
        packed = bytes(compress(codec, b"something" * 100))
        with pytest.raises(Corrupt):
            decompress(codec, packed[: len(packed) // 2])


def test_a_batch_with_a_wrong_count_is_rejected() -> None:
    whole = encode_batch([Record(timestamp=1, value=b"x")] * 3)
    padded = bytearray(whole + bytes(PAD))
    (batch,) = scan(memoryview(padded), 0, len(whole))
    with pytest.raises(Corrupt, match="has 3 records but its header says 5"):
        decode(padded, [batch._replace(record_count=5)])


def test_aborted_transactions_and_markers_are_hidden() -> None:
    def data(offset: int, producer: int) -> bytes:
        return encode_batch(
            [Record(timestamp=0, value=b"%d" % offset)],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )

    def marker(offset: int, producer: int, *, commit: bool) -> bytes:
        key = b"\x00\x00\x00" + (b"\x01" if commit else b"\x00")
        record = Record(timestamp=0, key=key, value=b"\x00\x00\x00\x00\x00\x00")
        return encode_batch(
            [record], base_offset=offset, producer_id=producer, producer_epoch=0, is_transactional=True, is_control=True
        )

    log = data(0, 1) + data(1, 2) + marker(2, 1, commit=False) + data(3, 1) + marker(4, 2, commit=True)
    log += marker(5, 1, commit=True)
    view = memoryview(log)
    aborted = [(1, 0)]
    seen = Visible(aborted, committed_only=True)
    assert [batch.base_offset for batch in scan(view, 0, len(log)) if seen(batch, view)] == [1, 3]
    everything = Visible(aborted, committed_only=False)
    assert [batch.base_offset for batch in scan(view, 0, len(log)) if everything(batch, view)] == [0, 1, 3]


def test_a_batch_truncated_by_the_fetch_is_left_to_the_next_fetch() -> None:
    whole = encode_batch([Record(timestamp=1, value=b"x" * 50)])
    data = memoryview(whole + whole[:-1])
    assert [batch.end for batch in scan(data, 0, len(data))] == [len(whole)]


def test_murmur2_equals_javas() -> None:
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    keys = pa.array(list(known), pa.binary())
    assert murmur2(keys).view(np.int32).tolist() == list(known.values())
    assert murmur2(keys.slice(2, 3)).view(np.int32).tolist() == list(known.values())[2:5]


def test_single_records_survive_a_round_trip() -> None:
    data = simple.encode_one(b"query", b"{}" * 100, 1_700_000_000_000)
    assert [(one.key, one.value) for one in decode_batch(data)] == [(b"query", b"{}" * 100)]
    both = memoryview(data + data)
    assert list(simple.decode_all(both, 0, len(both))) == [(0, b"query", b"{}" * 100)] * 2


def test_an_old_format_and_a_broken_header_are_rejected_with_the_offset() -> None:
    sealed = bytearray(encode_batch([Record(timestamp=1, key=b"k", value=b"v")], base_offset=42))
    old = bytes(sealed[:16]) + b"\x01" + bytes(sealed[17:])
    with pytest.raises(Corrupt, match="the batch at offset 42 has format 1; only version 2"):
        list(scan(memoryview(old), 0, len(old)))
    for at, number in ((8, 5), (23, -1), (57, -1)):
        broken = bytearray(sealed)
        broken[at : at + 4] = number.to_bytes(4, "big", signed=True)
        with pytest.raises(Corrupt, match="the batch at offset 42 has an invalid header"):
            list(scan(memoryview(broken), 0, len(broken)))


def test_timestamps_far_apart_are_decoded() -> None:
    stamps = [0, 2**61, 5]
    sealed = encode_batch([Record(timestamp=each, key=None, value=b"v") for each in stamps])
    assert opened(sealed).timestamps.tolist() == stamps


def test_records_with_log_append_time_have_the_time_of_their_batch() -> None:
    plain = encode_batch([Record(timestamp=1, key=None, value=b"a"), Record(timestamp=9, key=None, value=b"b")])
    stamped = bytearray(
        encode_batch([Record(timestamp=1, key=None, value=b"c"), Record(timestamp=7, key=None, value=b"d")])
    )
    stamped[22] |= 8
    patch_crc(stamped)
    found = opened(plain + bytes(stamped))
    assert found.timestamps.tolist() == [1, 9, 7, 7]
    assert found.timestamp_types.tolist() == [0, 0, 1, 1]


def test_compressed_and_plain_batches_are_decoded_together() -> None:
    batches = [
        encode_batch([Record(timestamp=1, key=None, value=value)], codec=codec)
        for value, codec in ((b"a", 0), (b"b", 4), (b"c", 0))
    ]
    assert opened(b"".join(batches)).values().to_pylist() == [b"a", b"b", b"c"]


@pytest.mark.parametrize("codec", (5, 7))
def test_an_unknown_codec_is_rejected(codec: int) -> None:
    with pytest.raises(Corrupt, match=f"unknown compression codec {codec}"):
        decompress(codec, b"")


def test_concatenated_snappy_streams_are_one() -> None:
    one, two = bytes(compress(2, b"first ")), bytes(compress(2, b"second"))
    assert bytes(decompress(2, one + two)) == b"first second"
    with pytest.raises(Corrupt, match="the snappy stream is truncated"):
        decompress(2, one + two[:18])
    with pytest.raises(Corrupt, match="the snappy stream is truncated"):
        decompress(2, one[:-1])


def test_a_header_without_a_key_and_cut_headers_are_rejected() -> None:
    good = encode_batch([Record(timestamp=1, key=None, value=None, headers=((b"k", b"v"),))])
    kind = HEADERS
    assert headers(opened(good), kind).to_pylist() == [[{"key": "k", "value": b"v"}]]
    at = good.rindex(b"\x02k")
    for change, why in ((b"\x01", "a header has no key"), (b"\x00", "the headers of a record do not fill its length")):
        broken = bytearray(good[:at] + change + good[at + 1 :])
        patch_crc(broken)
        with pytest.raises(Corrupt, match=why):
            headers(opened(bytes(broken)), kind)
