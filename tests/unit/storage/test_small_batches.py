import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import InvalidRecord
from penstock.storage import small_batches
from penstock.wire.batch import HEADER_SIZE
from penstock.wire.records import Record, encode_batch

fields = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.binary(max_size=10), fields), max_size=3).map(tuple)
records = st.lists(
    st.builds(Record, offset=st.just(-1), timestamp=st.integers(0, 2**40), key=fields, value=fields, headers=headers),
    min_size=1,
    max_size=16,
)


@given(records)
def test_valid_batches_are_accepted(made: list[Record]) -> None:
    small_batches.check(memoryview(encode_batch(made)), len(made))


@given(records)
def test_a_wrong_count_raises_corruption(made: list[Record]) -> None:
    view = memoryview(encode_batch(made))
    for count in (len(made) - 1, len(made) + 1):
        with pytest.raises(InvalidRecord):
            small_batches.check(view, count)


@given(records, st.data())
def test_a_batch_without_its_end_is_rejected(made: list[Record], data: st.DataObject) -> None:
    batch = encode_batch(made)
    cut = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    with pytest.raises(InvalidRecord):
        small_batches.check(memoryview(batch[:cut]), len(made))


def one_record(body: bytes) -> memoryview:
    """Return a batch with one record that has these bytes after its size."""
    assert len(body) < 64
    return memoryview(bytes(HEADER_SIZE) + bytes((len(body) << 1,)) + body)


SOUND = b"\x00\x00\x00\x02k\x02v\x00"


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("key size", b"\x00\x00\x00\x3ck\x02v\x00"),
        ("key of size -2", b"\x00\x00\x00\x03k\x02v\x00"),
        ("value size", b"\x00\x00\x00\x02k\x3cv\x00"),
        ("header count", b"\x00\x00\x00\x02k\x02v\x01"),
        ("more headers than bytes", b"\x00\x00\x00\x02k\x02v\x7e"),
        ("null header key", b"\x00\x00\x00\x02k\x02v\x02\x01\x00"),
        ("bytes behind the headers", b"\x00\x00\x00\x02k\x02v\x00!"),
        ("endless number", b"\x00" + b"\xff" * 12),
    ],
)
def test_invalid_fields_of_a_single_record_are_rejected(what: str, body: bytes) -> None:
    small_batches.check(one_record(SOUND), 1)
    with pytest.raises(InvalidRecord):
        small_batches.check(one_record(body), 1)
