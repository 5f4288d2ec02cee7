"""The encoding of records, compared with bytes from Kafka 4.3.1's serializers."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import Corruption
from penstock.transactions.records import TransactionRecord, TransactionValue, decode, encode
from penstock.transactions.states import STATES, State
from tests.unit.transactions.harness import partition

KEY = "000000067061792dc3a9"
OFFSETS_49 = frozenset({partition(49, "__consumer_offsets")})
ORDERS = frozenset({partition(0), partition(7)})


def value(state: State, **more: object) -> TransactionValue:
    fields: dict[str, object] = {
        "producer_id": 1000,
        "previous_producer_id": 1000,
        "epoch": 5,
        "timeout_ms": 60000,
        "last_update_ms": 1700000000000,
        "start_ms": 1699999999000,
    }
    return TransactionValue(state=state, **(fields | more))  # type: ignore[arg-type]


def plain(state: State, **more: object) -> TransactionValue:
    return value(state, previous_producer_id=-1, **more)


WRITTEN: dict[str, tuple[TransactionValue, int, str]] = {
    "empty": (
        value(State.EMPTY, epoch=0, start_ms=-1),
        1,
        "000100000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff01000800000000000003e8",
    ),
    "empty, plain": (
        plain(State.EMPTY, epoch=0, start_ms=-1),
        0,
        "000000000000000003e800000000ea6000ffffffff0000018bcfe56800ffffffffffffffff",
    ),
    "ongoing, of an old client": (
        value(State.ONGOING, partitions=OFFSETS_49),
        1,
        "000100000000000003e800050000ea600102135f5f636f6e73756d65725f6f6666736574730200000031000000018bcfe568000000"
        "018bcfe5641801000800000000000003e8",
    ),
    "aborted at the last epoch": (
        value(State.PREPARE_ABORT, epoch=32767, next_producer_id=2000, partitions=OFFSETS_49, client_version=2),
        1,
        "000100000000000003e87fff0000ea600302135f5f636f6e73756d65725f6f6666736574730200000031000000018bcfe568000000"
        "018bcfe5641803000800000000000003e8010800000000000007d002020002",
    ),
    "complete, with the next producer id": (
        value(State.COMPLETE_ABORT, producer_id=2000, epoch=0, client_version=2),
        1,
        "000100000000000007d000000000ea6005010000018bcfe568000000018bcfe5641802000800000000000003e802020002",
    ),
    "committed": (
        value(State.COMPLETE_COMMIT, epoch=6, client_version=2),
        1,
        "000100000000000003e800060000ea6004010000018bcfe568000000018bcfe5641802000800000000000003e802020002",
    ),
    "committed, plain": (
        plain(State.COMPLETE_COMMIT, epoch=6),
        0,
        "000000000000000003e800060000ea6004000000000000018bcfe568000000018bcfe56418",
    ),
}
READ: dict[str, tuple[TransactionValue, str]] = {
    # Kafka writes partitions in hash table order.
    "ongoing": (
        value(State.ONGOING, partitions=ORDERS, client_version=2),
        "000100000000000003e800050000ea600102076f7264657273030000000700000000000000018bcfe568000000018bcfe56418020008"
        "00000000000003e802020002",
    ),
    "ongoing, plain": (
        plain(State.ONGOING, partitions=ORDERS),
        "000000000000000003e800050000ea60010000000100066f72646572730000000200000007000000000000018bcfe5680000"
        "00018bcfe56418",
    ),
    "decided": (
        value(State.PREPARE_COMMIT, epoch=6, partitions=ORDERS, client_version=2),
        "000100000000000003e800060000ea600202076f7264657273030000000700000000000000018bcfe568000000018bcfe56418020008"
        "00000000000003e802020002",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_records_have_kafkas_bytes(name: str) -> None:
    expected, version, written = WRITTEN[name]
    record = TransactionRecord("pay-é", expected)
    assert encode(record, version=version) == (bytes.fromhex(KEY), bytes.fromhex(written))
    assert decode(bytes.fromhex(KEY), bytes.fromhex(written)) == record


@pytest.mark.parametrize("name", READ)
def test_kafkas_records_are_read(name: str) -> None:
    expected, written = READ[name]
    assert decode(bytes.fromhex(KEY), bytes.fromhex(written)) == TransactionRecord("pay-é", expected)


def test_partitions_are_written_in_order() -> None:
    partitions = frozenset({partition(10), partition(9), partition(0, "a"), partition(200)})
    key, written = encode(TransactionRecord("t", value(State.ONGOING, partitions=partitions)), version=1)
    again = encode(
        TransactionRecord("t", value(State.ONGOING, partitions=frozenset(sorted(partitions, reverse=True)))), version=1
    )
    assert (key, written) == again
    assert written is not None and written.index(b"\x02a") < written.index(b"\x07orders")


def test_a_tombstone_has_no_value() -> None:
    assert encode(TransactionRecord("pay-é", None), version=1) == (bytes.fromhex(KEY), None)
    assert decode(bytes.fromhex(KEY), None) == TransactionRecord("pay-é", None)


def test_a_key_of_an_unknown_type_is_skipped() -> None:
    assert decode(bytes.fromhex("0001000174"), b"anything") is None


WRITTEN_STATES = [state for state in State if STATES[state].is_written]
PARTITIONS = st.frozensets(
    st.builds(partition, st.integers(0, 2**31 - 1), st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)),
    max_size=12,
)
VALUES = st.builds(
    TransactionValue,
    producer_id=st.integers(0, 2**63 - 1),
    previous_producer_id=st.integers(-1, 2**63 - 1),
    next_producer_id=st.integers(-1, 2**63 - 1),
    epoch=st.integers(0, 32767),
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from([state for state in WRITTEN_STATES if state is not State.EMPTY]),
    partitions=PARTITIONS,
    last_update_ms=st.integers(-1, 2**62),
    start_ms=st.integers(-1, 2**62),
    client_version=st.integers(0, 3),
)


@given(st.text(st.characters(codec="utf-8"), max_size=50), VALUES)
def test_written_records_are_read_back(name: str, found: TransactionValue) -> None:
    record = TransactionRecord(name, found)
    key, written = encode(record, version=1)
    assert decode(key, written) == record


@given(VALUES, st.data())
def test_cut_or_longer_values_are_corruption(found: TransactionValue, data: st.DataObject) -> None:
    for version in (0, 1):
        key, written = encode(TransactionRecord("t", found), version=version)
        assert written is not None
        cut = data.draw(st.integers(0, len(written) - 1))
        for broken in (written[:cut], written + b"\x00"):
            with pytest.raises(Corruption):
                decode(key, broken)


@given(VALUES, st.integers(0, 10_000), st.integers(0, 255))
def test_a_flipped_byte_is_a_value_or_corruption(found: TransactionValue, at: int, byte: int) -> None:
    key, written = encode(TransactionRecord("t", found), version=1)
    assert written is not None
    broken = bytearray(written)
    broken[at % len(broken)] = byte
    with suppress(Corruption):
        decode(key, bytes(broken))


@pytest.mark.parametrize("number", [6, 7, 8, -1])
def test_a_state_that_is_never_written_is_corruption(number: int) -> None:
    written = bytearray.fromhex(WRITTEN["committed"][2])
    written[16] = number & 0xFF
    with pytest.raises(Corruption, match="state"):
        decode(bytes.fromhex(KEY), bytes(written))


@pytest.mark.parametrize(
    ("key", "written", "reason"),
    [
        (KEY, "0002" + "00" * 40, "version 2"),
        (KEY, "ffff" + "00" * 40, "version -1"),
        (KEY, "000000000000000003e800060000ea6004ffffffff0000018bcfe568000000018bcfe56418", "no partitions"),
        (KEY, "000000000000000003e800060000ea6001fffffffe0000018bcfe568000000018bcfe56418", "array of -2"),
        (KEY, "000100000000000003e800060000ea60010200", "null"),
        (KEY + "00", None, "extra bytes"),
        ("0000ffff", None, "null"),
        ("00000002c328", None, "UTF-8"),
        ("00", None, "ends after"),
    ],
)
def test_invalid_bytes_are_corruption(key: str, written: str | None, reason: str) -> None:
    with pytest.raises(Corruption, match=reason):
        decode(bytes.fromhex(key), None if written is None else bytes.fromhex(written))
