"""Primitives that the hot codecs share. Reads return (value, next position).

They rely on Python's bounds checks: `struct.error` and `IndexError` mean a frame that ends
too early, and each codec converts them into `MalformedRequest` in one place.
"""

from struct import Struct
from typing import NoReturn

from penstock.wire.frame import MalformedRequest, read_uvarint
from penstock.wire.frame import skip_tagged_fields as skip_tags

__all__ = ["read_uvarint", "skip_tags"]

Positioned = tuple[int, int]

read_i16 = Struct(">h").unpack_from
read_i32 = Struct(">i").unpack_from
pack_i16 = Struct(">h").pack
pack_i32 = Struct(">i").pack
pack_i64 = Struct(">q").pack

NO_TAGS = b"\x00"
_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def pack_uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def pack_compact_string(text: str) -> bytes:
    data = text.encode()
    return pack_uvarint(len(data) + 1) + data


def pack_string(text: str) -> bytes:
    data = text.encode()
    return pack_i16(len(data)) + data


def read_count(view: memoryview, position: int, *, flexible: bool) -> Positioned:
    """Read the length of an array that may not be null; raise MalformedRequest if it is."""
    if flexible:
        count, position = read_uvarint(view, position)
        count -= 1
    else:
        count = read_i32(view, position)[0]
        position += 4
    # Each element takes at least a byte, so a larger count is wrong.
    if not 0 <= count <= len(view) - position:
        refuse_count(count, len(view) - position)
    return count, position


def refuse_count(count: int, left: int) -> NoReturn:
    """Raise MalformedRequest for an array that is null, or announces more elements than there are bytes left."""
    if count < 0:
        raise MalformedRequest("an array is null where the schema forbids it")
    raise MalformedRequest(f"an array announces {count} elements in {left} bytes")
