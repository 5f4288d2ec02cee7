"""The primitive fields of Kafka's flexible versions, as metadata and control records use them.

Each kind writes to a bytearray and reads through a `Reader` that checks every bound.
Pure. Raises Corruption for fields that end after their record or contradict their size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any
from uuid import UUID

from penstock.model.errors import Corruption

ZERO_UUID = UUID(int=0)


class Reader:
    """A position in bytes that only moves forward."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def take(self, size: int) -> bytes:
        start = self.position
        self.position = end = start + size
        if end > len(self.data):
            raise Corruption(f"a field of {size} bytes at {start} ends after its record of {len(self.data)} bytes")
        return self.data[start:end]

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        start = self.position
        self.position = start + layout.size
        try:
            return layout.unpack_from(self.data, start)
        except StructError as error:
            raise Corruption(f"a number at {start} ends after its record of {len(self.data)} bytes") from error

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            try:
                byte = self.data[self.position]
            except IndexError as error:
                raise Corruption(f"a varint ends after its record of {len(self.data)} bytes") from error
            self.position += 1
            if byte < 0x80:
                return value | byte << shift
            value |= (byte & 0x7F) << shift
        raise Corruption(f"a varint that ends at {self.position} is longer than 5 bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    assert value >= 0, value
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


@dataclass(frozen=True, slots=True)
class Kind:
    """The functions that write and read one type of field; the code is that of `struct` if it has one."""

    write: Callable[[bytearray, Any], None]
    read: Callable[[Reader], Any]
    code: str | None = None


def _fixed(code: str) -> Kind:
    layout = Struct(f">{code}")

    def write(out: bytearray, value: float) -> None:
        out += layout.pack(value)

    return Kind(write, lambda reader: reader.unpack(layout)[0], code)


INT8 = _fixed("b")
INT16 = _fixed("h")
UINT16 = _fixed("H")
INT32 = _fixed("i")
INT64 = _fixed("q")
FLOAT64 = _fixed("d")
BOOLEAN = _fixed("?")


def _write_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
        return
    encoded = value.encode()
    write_uvarint(out, len(encoded) + 1)
    out += encoded


def _read_nullable_string(reader: Reader) -> str | None:
    size = reader.uvarint()
    if size == 0:
        return None
    try:
        return reader.take(size - 1).decode()
    except UnicodeDecodeError as error:
        raise Corruption(f"a string that ends at {reader.position} is not UTF-8") from error


def _read_string(reader: Reader) -> str:
    value = _read_nullable_string(reader)
    if value is None:
        raise Corruption(f"null at {reader.position} where a string must be")
    return value


def _write_bytes(out: bytearray, value: bytes) -> None:
    write_uvarint(out, len(value) + 1)
    out += value


def _read_bytes(reader: Reader) -> bytes:
    size = reader.uvarint()
    if size == 0:
        raise Corruption(f"null at {reader.position} where bytes must be")
    return bytes(reader.take(size - 1))


# A replay repeats the same few directories and topics, and creating a UUID is slow.
@lru_cache(maxsize=1024)
def uuid_of(data: bytes) -> UUID:
    return UUID(bytes=data)


STRING = Kind(_write_string, _read_string)
NULLABLE_STRING = Kind(_write_string, _read_nullable_string)
BYTES = Kind(_write_bytes, _read_bytes)
UUID_ = Kind(lambda out, value: out.extend(value.bytes), lambda reader: uuid_of(reader.take(16)))


def array(element: Kind, *, nullable: bool = False) -> Kind:
    """Return the kind of a compact array, read as a tuple; null is None where allowed."""

    def write(out: bytearray, values: tuple[Any, ...] | None) -> None:
        if values is None:
            assert nullable, "null where an array must be"
            out.append(0)
            return
        write_uvarint(out, len(values) + 1)
        for value in values:
            element.write(out, value)

    def read(reader: Reader) -> tuple[Any, ...] | None:
        count = reader.uvarint() - 1
        if count <= 0:
            if count == 0:
                return ()
            if nullable:
                return None
            raise Corruption(f"null at {reader.position} where an array must be")
        # Every element takes at least a byte, so a count that is too large is caught before anything is allocated.
        if count > len(reader.data) - reader.position:
            raise Corruption(f"an array of {count} at {reader.position} ends after its record")
        if element.code is not None:
            return reader.unpack(Struct(f">{count}{element.code}"))
        return tuple([element.read(reader) for _ in range(count)])

    return Kind(write, read)


_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct: its attribute, its kind, its first version, and its tag if it is tagged."""

    name: str
    kind: Kind
    since: int = 0
    tag: int | None = None
    default: Any = _ABSENT


class Layout:
    """The fields of a struct in the order of the wire; reads and writes objects of one class."""

    def __init__(self, make: Callable[..., Any], version: int, *fields: Field) -> None:
        self.make = make
        self.version = version
        self._plain = tuple(field for field in fields if field.tag is None)
        self._tagged = tuple(
            sorted((field for field in fields if field.tag is not None), key=lambda field: field.tag or 0)
        )

    def write(self, out: bytearray, value: Any) -> None:
        """Write at the layout's version; tagged fields with their default value are omitted."""
        for field in self._plain:
            field.kind.write(out, getattr(value, field.name))
        present = [field for field in self._tagged if getattr(value, field.name) != field.default]
        write_uvarint(out, len(present))
        for field in present:
            assert field.tag is not None
            body = bytearray()
            field.kind.write(body, getattr(value, field.name))
            write_uvarint(out, field.tag)
            write_uvarint(out, len(body))
            out += body

    def read(self, reader: Reader, version: int | None = None) -> Any:
        """Read at a version up to the layout's; fields that the version lacks keep the class's default."""
        version = self.version if version is None else version
        values = {field.name: field.kind.read(reader) for field in self._plain if field.since <= version}
        tagged_count = reader.uvarint()
        if tagged_count > len(reader.data) - reader.position:
            raise Corruption(f"{tagged_count} tagged fields at {reader.position} end after their record")
        for _ in range(tagged_count):
            tag = reader.uvarint()
            body = Reader(reader.take(reader.uvarint()))
            for field in self._tagged:
                if field.tag == tag and field.since <= version:
                    values[field.name] = field.kind.read(body)
        return self.make(**values)

    def kind(self) -> Kind:
        """Return this struct as the kind of an array element."""
        return Kind(self.write, self.read)
