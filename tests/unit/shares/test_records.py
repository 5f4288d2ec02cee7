"""Records of `__share_group_state`: round trips, the layout of Kafka's schema, damage."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import Corruption
from penstock.shares.records import ShareRecord, ShareSnapshot, ShareUpdate, decode, encode
from penstock.shares.states import SharePartitionKey, StateRange

KEY = SharePartitionKey("jobs", UUID(int=7), 3)
int16, int32, int64 = st.integers(0, 2**15 - 1), st.integers(-1, 2**31 - 1), st.integers(-1, 2**63 - 1)
ranges = st.lists(st.builds(StateRange, int64, int64, st.integers(0, 4), int16), max_size=5).map(tuple)
snapshots = st.builds(ShareSnapshot, int32, int32, int32, int64, int64, int64, ranges, int32)
updates = st.builds(ShareUpdate, int32, int32, int64, ranges, int32)
keys = st.builds(SharePartitionKey, st.text(max_size=20), st.uuids(), st.integers(0, 2**31 - 1))


@given(st.builds(ShareRecord, keys, st.one_of(snapshots, updates, st.none())))
def test_a_record_survives_encoding(record: ShareRecord) -> None:
    assert decode(*encode(record)) == record


def test_a_snapshot_has_the_bytes_of_kafkas_schema() -> None:
    value = ShareSnapshot(1, 2, 3, 10, 100, 200, (StateRange(10, 12, 2, 1),), 4)
    key_bytes, value_bytes = encode(ShareRecord(KEY, value))
    assert key_bytes == b"\x00\x00" + b"\x00\x04jobs" + UUID(int=7).bytes + b"\x00\x00\x00\x03"
    assert value_bytes == bytes.fromhex(
        "0000"
        "00000001" "00000002" "00000003" "000000000000000a" "0000000000000064" "00000000000000c8"
        "02" "000000000000000a" "000000000000000c" "02" "0001" "00"
        "01" "00" "04" "00000004"
    )  # fmt: skip


def test_an_unknown_type_is_skipped() -> None:
    assert decode(b"\x00\x09" + b"anything", b"") is None


def test_the_tombstone_of_an_update_has_no_meaning() -> None:
    key, _ = encode(ShareRecord(KEY, ShareUpdate(0, 0, 0)))
    assert decode(key, None) is None


@given(st.builds(ShareRecord, keys, st.one_of(snapshots, updates)), st.data())
def test_a_record_that_is_cut_short_is_rejected(record: ShareRecord, data: st.DataObject) -> None:
    key, value = encode(record)
    assert value is not None
    with pytest.raises(Corruption):
        decode(key, value[: data.draw(st.integers(0, len(value) - 1))])
    with pytest.raises(Corruption):
        decode(key[: data.draw(st.integers(2, len(key) - 1))], value)


def test_a_newer_version_and_extra_bytes_are_rejected_with_the_reason() -> None:
    key, value = encode(ShareRecord(KEY, ShareSnapshot(1, 2, 3, 10, 100, 200)))
    assert value is not None
    with pytest.raises(Corruption, match="version 7 of share record type 0 is not supported by this release"):
        decode(key, b"\x00\x07" + value[2:])
    with pytest.raises(Corruption, match="the value of a share record of type 0 has 3 extra bytes"):
        decode(key, value + b"abc")
    with pytest.raises(Corruption, match="the key of a share record of type 0 has 1 extra bytes"):
        decode(key + b"x", value)


def test_unknown_fields_of_a_range_are_skipped() -> None:
    key, value = encode(ShareRecord(KEY, ShareUpdate(1, 2, 3, (StateRange(10, 12, 2, 1),))))
    assert value is not None
    start = value.index(b"\x00\x00\x00\x00\x00\x00\x00\x0c") + 11
    assert value[start] == 0, "the number of tagged fields behind the delivery count"
    extended = value[:start] + b"\x01\x05\x02ab" + value[start + 1 :]
    assert decode(key, extended) == decode(key, value)
