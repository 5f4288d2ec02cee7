"""Fields of records on disk: values, nulls and damaged bytes."""

import pytest

from penstock.model.errors import Corruption
from penstock.wire.fields import BYTES, INT32, NULLABLE_STRING, STRING, Kind, Reader, array


def written(kind: Kind, value: object) -> bytes:
    out = bytearray()
    kind.write(out, value)
    return bytes(out)


@pytest.mark.parametrize("value", (None, (), (1, -2)))
def test_an_array_that_may_be_null_is_read_as_it_was_written(value: object) -> None:
    kind = array(INT32, nullable=True)
    assert kind.read(Reader(written(kind, value))) == value


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        (STRING, b"\x00", "null at 1 where a string must be"),
        (BYTES, b"\x00", "null at 1 where bytes must be"),
        (array(INT32), b"\x00", "null at 1 where an array must be"),
        (array(INT32), b"\x09\x00", "an array of 8 at 1 ends after its record"),
        (NULLABLE_STRING, b"\x03\xff\xfe", "a string that ends at 3 is not UTF-8"),
        (STRING, b"\x05ab", "a field of 4 bytes at 1 ends after its record of 3 bytes"),
    ],
)
def test_damage_is_reported_with_its_position(kind: Kind, data: bytes, why: str) -> None:
    with pytest.raises(Corruption, match=why):
        kind.read(Reader(data))
