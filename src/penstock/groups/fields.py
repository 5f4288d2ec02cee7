"""Schemas of records with several versions: the fields of each version, plain or flexible.

The primitives of the flexible encoding are in wire/fields.py, those of the older plain encoding here.
A schema is compiled once per version. Refuses truncated or inconsistent bytes: Corruption.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any

from penstock.model.errors import Corruption
from penstock.wire import fields
from penstock.wire.fields import Kind, Reader, write_uvarint

Type = Callable[[int, bool], Kind]
"""The encoding of a type, given the version of the enclosing struct and whether it is flexible."""

_INT16 = Struct(">h")
_INT32 = Struct(">i")


def _both(plain: Kind, flexible: Kind | None = None) -> Type:
    return lambda version, is_flexible: flexible if is_flexible and flexible is not None else plain


def _plain_sized(prefix: Struct, *, is_text: bool, nullable: bool) -> Kind:
    def write(out: bytearray, value: str | bytes | None) -> None:
        if value is None:
            assert nullable, "null in a field that is not nullable"
            out += prefix.pack(-1)
            return
        raw = value.encode() if isinstance(value, str) else value
        out += prefix.pack(len(raw))
        out += raw

    def read(reader: Reader) -> str | bytes | None:
        size: int = reader.unpack(prefix)[0]
        if size < 0:
            if size != -1 or not nullable:
                raise Corruption(f"invalid size {size} at {reader.position}")
            return None
        return _text(reader, size) if is_text else reader.take(size)

    return Kind(write, read)


def _text(reader: Reader, size: int) -> str:
    try:
        return str(reader.take(size), "utf-8")
    except UnicodeDecodeError as error:
        raise Corruption(f"a string that ends at {reader.position} is not UTF-8") from error


def _write_compact_bytes(out: bytearray, value: bytes) -> None:
    write_uvarint(out, len(value) + 1)
    out += value


def _read_compact_bytes(reader: Reader) -> bytes:
    size = reader.uvarint() - 1
    if size < 0:
        raise Corruption(f"null at {reader.position} in a field of bytes that is not nullable")
    return reader.take(size)


def _plain_array(element: Kind) -> Kind:
    def write(out: bytearray, values: tuple[Any, ...]) -> None:
        out += _INT32.pack(len(values))
        for value in values:
            element.write(out, value)

    def read(reader: Reader) -> tuple[Any, ...]:
        count = reader.unpack(_INT32)[0]
        if not 0 <= count <= len(reader.data) - reader.position:
            raise Corruption(f"an array of {count} at {reader.position} exceeds its record")
        return tuple([element.read(reader) for _ in range(count)])

    return Kind(write, read)


INT8 = _both(fields.INT8)
INT32 = _both(fields.INT32)
INT64 = _both(fields.INT64)
UUID_ = _both(fields.UUID_)
STRING = _both(_plain_sized(_INT16, is_text=True, nullable=False), fields.STRING)
NULLABLE_STRING = _both(_plain_sized(_INT16, is_text=True, nullable=True), fields.NULLABLE_STRING)
BYTES = _both(_plain_sized(_INT32, is_text=False, nullable=False), Kind(_write_compact_bytes, _read_compact_bytes))


def array(element: Type, *, nullable: bool = False) -> Type:
    def kind(version: int, flexible: bool) -> Kind:
        inner = element(version, flexible)
        return fields.array(inner, nullable=nullable) if flexible else _plain_array(inner)

    return kind


_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its attribute, its type, the versions that have it, and its tag if it is tagged."""

    name: str
    type: Type
    since: int = 0
    until: int | None = None
    tag: int | None = None
    default: Any = _ABSENT

    def is_in(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)


class Schema:
    """The fields of a struct in all its versions; encodes and decodes objects of one class."""

    def __init__(self, make: Callable[..., Any], *members: Field, latest: int = 0, flexible_from: int = 0) -> None:
        self.make = make
        self.latest = latest
        self._flexible_from = flexible_from
        self._kinds = {version: self._compile(members, version) for version in range(latest + 1)}

    def write(self, out: bytearray, value: Any, version: int) -> None:
        self._kinds[version].write(out, value)

    def read(self, reader: Reader, version: int) -> Any:
        """Read one version; fields that it lacks get the default of the class."""
        return self._kinds[version].read(reader)

    def type(self) -> Type:
        """Return the type of a field that holds this struct, in the version of the enclosing struct."""
        return lambda version, flexible: self._kinds[version]

    def nullable_type(self) -> Type:
        """Return the same type, but nullable: a byte of 1 or -1 precedes the struct (KIP-893)."""

        def kind(version: int, flexible: bool) -> Kind:
            inner = self._kinds[version]

            def write(out: bytearray, value: Any) -> None:
                if value is None:
                    out.append(0xFF)
                    return
                out.append(1)
                inner.write(out, value)

            def read(reader: Reader) -> Any:
                return inner.read(reader) if reader.take(1)[0] == 1 else None

            return Kind(write, read)

        return kind

    def _compile(self, members: tuple[Field, ...], version: int) -> Kind:
        present = [member for member in members if member.is_in(version)]
        if version >= self._flexible_from:
            layout = fields.Layout(
                self.make,
                0,
                *(
                    fields.Field(member.name, member.type(version, True), tag=member.tag, default=member.default)
                    for member in present
                ),
            )
            return layout.kind()
        plain = [(member.name, member.type(version, False)) for member in present if member.tag is None]

        def write(out: bytearray, value: Any) -> None:
            for name, kind in plain:
                kind.write(out, getattr(value, name))

        def read(reader: Reader) -> Any:
            return self.make(**{name: kind.read(reader) for name, kind in plain})

        return Kind(write, read)
