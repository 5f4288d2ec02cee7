"""Strings and array counts in the hot codecs of the group APIs.

Reads return (value, next position) and raise MalformedRequest for fields that end after the request.
"""

from typing import Final

from penstock.wire.frame import MalformedRequest, decode_text, read_uvarint
from penstock.wire.hot.primitives import pack_compact_string, pack_i32, pack_string, pack_uvarint, read_i16, read_i32

ELEMENT_COUNT_MAX: Final = 10_000
"""How many array elements one request may have, as in the other requests."""


def read_text(data: bytes, position: int, *, flexible: bool) -> tuple[str, int]:
    text, position = read_maybe_text(data, position, flexible=flexible)
    if text is None:
        raise MalformedRequest("a string is null where the schema forbids it")
    return text, position


def read_maybe_text(data: bytes, position: int, *, flexible: bool) -> tuple[str | None, int]:
    if flexible:
        size = data[position]
        if size < 0x80:
            position += 1
        else:
            size, position = read_uvarint(data, position)
        size -= 1
    else:
        size = read_i16(data, position)[0]
        position += 2
    if size < 0:
        if size == -1:
            return None, position
        raise MalformedRequest(f"a string has a size of {size}")
    end = position + size
    if end > len(data):
        raise MalformedRequest(f"a string claims {size} bytes and {len(data) - position} are left")
    return decode_text(data[position:end]), end


def read_maybe_count(data: bytes, position: int, *, flexible: bool, least_size: int) -> tuple[int, int]:
    """Read the number of an array's elements, -1 for null; each takes at least `least_size` bytes."""
    if flexible:
        count, position = read_uvarint(data, position)
        count -= 1
    else:
        count = read_i32(data, position)[0]
        position += 4
    if count < -1:
        raise MalformedRequest(f"an array has a count of {count}")
    if count * least_size > len(data) - position or count > ELEMENT_COUNT_MAX:
        raise MalformedRequest(f"an array announces {count} elements in {len(data) - position} bytes")
    return count, position


def read_count(data: bytes, position: int, *, flexible: bool, least_size: int) -> tuple[int, int]:
    count, position = read_maybe_count(data, position, flexible=flexible, least_size=least_size)
    if count < 0:
        raise MalformedRequest("an array is null where the schema forbids it")
    return count, position


def pack_text(text: str, *, flexible: bool) -> bytes:
    return pack_compact_string(text) if flexible else pack_string(text)


def pack_count(count: int, *, flexible: bool) -> bytes:
    return pack_uvarint(count + 1) if flexible else pack_i32(count)
