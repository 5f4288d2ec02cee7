"""Encoding and decoding of the protocol's primitive types.

`Writer` collects the parts of a request; `Reader` reads a response. Flexible versions use the compact forms.
APIs and sockets are handled elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, TypeVar

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Writer:
    """An encoder of one request body; `compact` selects the forms of flexible versions."""

    __slots__ = ("compact", "parts")

    def __init__(self, *, compact: bool = False) -> None:
        self.parts: list[Buffer] = []
        self.compact = compact

    def int8(self, value: int) -> Writer:
        self.parts.append(value.to_bytes(1, "big", signed=True))
        return self

    def int16(self, value: int) -> Writer:
        self.parts.append(_INT16.pack(value))
        return self

    def int32(self, value: int) -> Writer:
        self.parts.append(_INT32.pack(value))
        return self

    def int64(self, value: int) -> Writer:
        self.parts.append(_INT64.pack(value))
        return self

    def boolean(self, value: bool) -> Writer:
        self.parts.append(b"\x01" if value else b"\x00")
        return self

    def raw(self, value: Buffer) -> Writer:
        self.parts.append(value)
        return self

    def string(self, value: str | None) -> Writer:
        if value is None:
            self.parts.append(b"\x00" if self.compact else b"\xff\xff")
            return self
        data = value.encode()
        self.parts.append(unsigned_varint(len(data) + 1) if self.compact else _INT16.pack(len(data)))
        self.parts.append(data)
        return self

    def bytes_(self, value: Buffer) -> Writer:
        self.parts.append(unsigned_varint(len(value) + 1) if self.compact else _INT32.pack(len(value)))
        self.parts.append(value)
        return self

    def array(self, values: Iterable[T] | None, write: Callable[[T], object]) -> Writer:
        if values is None:
            self.parts.append(b"\x00" if self.compact else b"\xff\xff\xff\xff")
            return self
        items = list(values)
        self.parts.append(unsigned_varint(len(items) + 1) if self.compact else _INT32.pack(len(items)))
        for item in items:
            write(item)
        return self

    def tags(self) -> Writer:
        """Write an empty tag section, which only flexible versions have."""
        if self.compact:
            self.parts.append(b"\x00")
        return self


class Reader:
    """A decoder of one response body."""

    __slots__ = ("compact", "data", "position")

    def __init__(self, data: Buffer, *, position: int = 0, compact: bool = False) -> None:
        self.data = data
        self.position = position
        self.compact = compact

    def int8(self) -> int:
        value = self.data[self.position]
        self.position += 1
        return value - 256 if value > 127 else value

    def int16(self) -> int:
        (value,) = _INT16.unpack_from(self.data, self.position)
        self.position += 2
        return int(value)

    def int32(self) -> int:
        (value,) = _INT32.unpack_from(self.data, self.position)
        self.position += 4
        return int(value)

    def int64(self) -> int:
        (value,) = _INT64.unpack_from(self.data, self.position)
        self.position += 8
        return int(value)

    def boolean(self) -> bool:
        return self.int8() != 0

    def uuid(self) -> bytes:
        return self._take(16)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _take(self, size: int) -> bytes:
        value = bytes(self.data[self.position : self.position + size])
        self.position += size
        return value

    def nullable_string(self) -> str | None:
        size = self.varint() - 1 if self.compact else self.int16()
        return None if size < 0 else self._take(size).decode()

    def string(self) -> str:
        return self.nullable_string() or ""

    def count(self) -> int:
        """Read the length of an array; a null array counts as empty."""
        return max(0, self.varint() - 1 if self.compact else self.int32())

    def array(self, read: Callable[[], T]) -> list[T]:
        return [read() for _ in range(self.count())]

    def bytes_(self) -> bytes:
        size = self.varint() - 1 if self.compact else self.int32()
        return self._take(max(0, size))

    def span(self) -> tuple[int, int]:
        """Return the start and end of nullable bytes, without copying."""
        size = max(0, self.varint() - 1 if self.compact else self.int32())
        start = self.position
        self.position += size
        return start, start + size

    def tags(self) -> None:
        if not self.compact:
            return
        for _ in range(self.varint()):
            self.varint()
            # The size must be read before the position moves past it.
            size = self.varint()
            self.position += size
