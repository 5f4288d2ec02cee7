"""Compiler of entity classes into functions that encode them in a version's layout.

The entity may be of another version's class: fields that the layout lacks are dropped,
fields that the class lacks are written with the schema's defaults.
Refuses: CannotWrite for a null that the layout forbids; a number out of range
raises struct.error, which `codec.py` converts into CannotWrite.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any
from uuid import UUID

from penstock.model.errors import PenstockError
from penstock.wire.frame import clipped
from penstock.wire.schema import EPOCH, FIXED, MILLISECOND, PLAIN, FieldShape, Shape, cached, shape_of

Writer = Callable[[bytearray, Any], None]

_INT16_MOST = 2**15 - 1
_NO_UUID = bytes(16)
_pack_int16 = FIXED["int16"].pack
_pack_int32 = FIXED["int32"].pack


class CannotWrite(PenstockError):
    """An entity that its version cannot represent: a bug of this node, not an error of the client."""


def append_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


@cached
def entity_writer(layout: type[Any], source: type[Any]) -> Writer:
    """Return a function `(out, entity of source)` that appends the entity's bytes."""
    shape, source_shape = shape_of(layout), shape_of(source)
    steps: list[tuple[Callable[[Any], Any], Writer]] = []
    for field in shape.plain:
        known = source_shape.find(field.name)
        take = constant(field.default) if known is None else attrgetter(field.name)
        steps.append((take, field_writer(field, known, shape.flexible)))
    write_tagged = tagged_writer(shape, source_shape)

    def write(out: bytearray, entity: Any) -> None:
        for take, write_value in steps:
            write_value(out, take(entity))
        write_tagged(out, entity)

    return write


def tagged_writer(shape: Shape, source_shape: Shape) -> Writer:
    """Return a function `(out, entity)` that appends the tagged fields, if the layout has any."""
    tagged = [
        (field.tag, attrgetter(field.name), field.default, field_writer(field, known, shape.flexible))
        for field in shape.tagged
        if (known := source_shape.find(field.name)) is not None
    ]
    flexible = shape.flexible

    def write_tagged(out: bytearray, entity: Any) -> None:
        if not flexible:
            return
        if not tagged:
            out.append(0)
            return
        sent = []
        for tag, take, default, write_value in tagged:
            value = take(entity)
            if value != default:
                body = bytearray()
                write_value(body, value)
                sent.append((tag, body))
        append_uvarint(out, len(sent))
        for tag, body in sent:
            append_uvarint(out, tag or 0)
            append_uvarint(out, len(body))
            out += body

    return write_tagged


def constant(value: object) -> Callable[[Any], Any]:
    return lambda _: value


def field_writer(field: FieldShape, known: FieldShape | None, flexible: bool) -> Writer:
    write = element_writer(field, known, flexible)
    if field.entity is not None and field.nullable and not field.repeated and field.tag is None:
        write = _maybe(write)
    return _array_writer(field, write, flexible) if field.repeated else write


def element_writer(field: FieldShape, known: FieldShape | None, flexible: bool) -> Writer:
    """Return a function that writes the field's value, or one element of its array."""
    if field.entity is None:
        return _value_writer(field, flexible)
    return entity_writer(field.entity, known.entity if known and known.entity else field.entity)


def _maybe(write: Writer) -> Writer:
    """Return a writer of a nullable structure, which is preceded by -1 or 1 (KIP-893)."""

    def write_maybe(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            write(out, value)

    return write_maybe


def _array_writer(field: FieldShape, write: Writer, flexible: bool) -> Writer:
    name, nullable = field.name, field.nullable

    def write_array(out: bytearray, values: Any) -> None:
        if values is None:
            if not nullable:
                raise CannotWrite(f"{name} may not be null in this version")
            out += b"\x00" if flexible else b"\xff\xff\xff\xff"
            return
        if flexible:
            append_uvarint(out, len(values) + 1)
        else:
            out += _pack_int32(len(values))
        for value in values:
            write(out, value)

    return write_array


def _value_writer(field: FieldShape, flexible: bool) -> Writer:
    kafka_type = field.kafka_type
    if kafka_type in ("string", "bytes", "records"):
        return _sized_writer(field, flexible)
    pack = FIXED[kafka_type].pack
    if kafka_type in PLAIN or kafka_type == "error_code":

        def write_number(out: bytearray, value: Any) -> None:
            out += pack(value)

        return write_number
    convert = _CONVERSIONS[kafka_type]

    def write_converted(out: bytearray, value: Any) -> None:
        out += pack(convert(value))

    return write_converted


def _uuid_bytes(value: UUID | None) -> bytes:
    return _NO_UUID if value is None else value.bytes


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "uuid": _uuid_bytes,
    "timedelta_i32": lambda value: value // MILLISECOND,
    "timedelta_i64": lambda value: value // MILLISECOND,
    "datetime_i64": lambda value: -1 if value is None else (value - EPOCH) // MILLISECOND,
}


def _sized_writer(field: FieldShape, flexible: bool) -> Writer:
    name, is_text = field.name, field.kafka_type == "string"
    nullable = field.nullable and not field.repeated
    is_message = is_text and name == "error_message"

    def write_sized(out: bytearray, value: Any) -> None:
        if value is None:
            if not nullable:
                raise CannotWrite(f"{name} may not be null in this version")
            out += b"\x00" if flexible else (b"\xff\xff" if is_text else b"\xff\xff\xff\xff")
            return
        if is_message:
            value = clipped(value)
        raw = value.encode() if is_text else value
        if flexible:
            append_uvarint(out, len(raw) + 1)
        elif is_text:
            if len(raw) > _INT16_MOST:
                raise CannotWrite(f"{name} has {len(raw)} bytes, this version allows {_INT16_MOST}")
            out += _pack_int16(len(raw))
        else:
            out += _pack_int32(len(raw))
        out += raw

    return write_sized
