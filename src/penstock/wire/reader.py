"""Compiler of entity classes into functions that decode them from untrusted bytes.

The bytes are in the layout of one version, and the result is an entity of another version's class: fields
that the layout lacks take the schema's defaults, fields that the class lacks are read and dropped. Counts and
sizes are checked against the remaining bytes before anything is allocated, unknown tagged fields are skipped
(KIP-482), invalid UTF-8 is replaced.
Refuses: MalformedRequest; bytes that end early raise struct.error or IndexError, which
`codec.py` converts into MalformedRequest.
"""

from collections.abc import Callable
from datetime import timedelta
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct
from typing import Any, Self
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.wire.frame import MalformedRequest, decode_text, read_uvarint
from penstock.wire.schema import (
    EPOCH,
    FIXED,
    MILLISECOND,
    PLAIN,
    FieldShape,
    Shape,
    cached,
    element_least_size,
    shape_of,
)

ELEMENT_COUNT_MAX = 200_000
"""How many array elements one request may have. Decoding them takes half a second, in slices."""


class Body(bytes):
    """The bytes of a body, and how many more array elements it may have."""

    elements_left = ELEMENT_COUNT_MAX
    slice_left = checks_left = slice_end = 0
    """How many elements are decoded, and up to which position, before other work may run (sliced.py)."""


class LargeBody(mmap):
    """Memory for a body that is copied in slices: unlike a bytearray's it need not be filled or moved in one step."""

    elements_left = ELEMENT_COUNT_MAX
    slice_left = checks_left = slice_end = 0

    def __new__(cls, size: int) -> Self:
        return super().__new__(cls, -1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)


AnyBody = Body | LargeBody
Reader = Callable[[AnyBody, int], tuple[Any, int]]

_int16 = Struct(">h").unpack_from
_int32 = Struct(">i").unpack_from
_NO_UUID = bytes(16)


@cached
def entity_reader(layout: type[Any], target: type[Any]) -> Reader:
    """Return a function `(data, position) -> (target entity, position behind it)`."""
    shape, target_shape = shape_of(layout), shape_of(target)
    wanted = {field.name: field for field in (*target_shape.plain, *target_shape.tagged)}
    plain = [(field.name, field.name in wanted, field_reader(field, wanted, shape.flexible)) for field in shape.plain]
    absent = absent_values(shape, wanted)
    read_tagged = tagged_reader(shape, wanted)
    flexible = shape.flexible

    def read(data: AnyBody, position: int) -> tuple[Any, int]:
        values = absent.copy()
        for name, kept, read_value in plain:
            value, position = read_value(data, position)
            if kept:
                values[name] = value
        if flexible:
            position = read_tagged(data, position, values)
        return target(**values), position

    return read


def absent_values(shape: Shape, wanted: dict[str, FieldShape]) -> dict[str, Any]:
    """Return the values of the target's fields that the layout lacks, or that may be omitted."""
    on_wire = {field.name for field in shape.plain}
    # A tagged field that is omitted has its default, so only untagged ones are always set.
    absent = {name: field.default for name, field in wanted.items() if name not in on_wire}
    return absent | {field.name: field.default for field in shape.tagged if field.name in wanted}


def tagged_reader(shape: Shape, wanted: dict[str, FieldShape]) -> Callable[[AnyBody, int, dict[str, Any]], int]:
    """Return a function `(data, position, values) -> position behind the tagged fields` that sets the values."""
    tagged = {
        field.tag: (field.name, field.name in wanted, field_reader(field, wanted, shape.flexible))
        for field in shape.tagged
    }

    def read_tagged(data: AnyBody, position: int, values: dict[str, Any]) -> int:
        if data[position] == 0:
            return position + 1
        count, position = read_uvarint(data, position)
        if 2 * count > len(data) - position:
            raise MalformedRequest(f"{count} tagged fields in {len(data) - position} bytes")
        data.elements_left -= count
        if data.elements_left < 0:
            raise MalformedRequest("the request has too many tagged fields")
        for _ in range(count):
            tag, position = read_uvarint(data, position)
            size, position = read_uvarint(data, position)
            end = position + size
            if end > len(data):
                raise MalformedRequest(f"tagged field {tag} of {size} bytes ends after the request")
            if tag in tagged:
                name, kept, read = tagged[tag]
                value, read_to = read(data, position)
                if read_to != end:
                    raise MalformedRequest(f"tagged field {name} has {read_to - position} bytes but claims {size}")
                if kept:
                    values[name] = value
            position = end
        return position

    return read_tagged


def field_reader(field: FieldShape, wanted: dict[str, FieldShape], flexible: bool) -> Reader:
    read = element_reader(field, wanted, flexible)
    if field.entity is not None and field.nullable and not field.repeated and field.tag is None:
        read = _maybe(read)
    return _array_reader(field, read, flexible) if field.repeated else read


def element_reader(field: FieldShape, wanted: dict[str, FieldShape], flexible: bool) -> Reader:
    """Return a function that reads the field's value, or one element of its array."""
    if field.entity is None:
        return _value_reader(field, flexible)
    target = wanted.get(field.name)
    return entity_reader(field.entity, target.entity if target and target.entity else field.entity)


def is_slow_array(field: FieldShape) -> bool:
    """Return whether the elements are read one by one; arrays of numbers are not."""
    return field.kafka_type not in PLAIN


def _maybe(read: Reader) -> Reader:
    """Return a reader of a nullable structure, which is preceded by -1 or 1 (KIP-893)."""

    def read_maybe(data: AnyBody, position: int) -> tuple[Any, int]:
        mark = data[position]
        if mark == 0xFF:
            return None, position + 1
        if mark != 1:
            raise MalformedRequest(f"a nullable structure begins with {mark}, not -1 or 1")
        return read(data, position + 1)

    return read_maybe


def count_reader(field: FieldShape, flexible: bool) -> Callable[[AnyBody, int], tuple[int | None, int]]:
    """Return a function that reads how many elements an array has, None for null."""
    name, nullable = field.name, field.nullable
    least = element_least_size(field, flexible=flexible)

    def read_count(data: AnyBody, position: int) -> tuple[int | None, int]:
        if flexible:
            count, position = read_uvarint(data, position)
            count -= 1
        else:
            count = _int32(data, position)[0]
            position += 4
        if count < 0:
            if count == -1 and nullable:
                return None, position
            raise MalformedRequest(f"{name} is null or negative")
        if count * least > len(data) - position:
            raise MalformedRequest(f"{name} claims {count} elements in {len(data) - position} bytes")
        data.elements_left -= count
        if data.elements_left < 0:
            raise MalformedRequest("the request has too many array elements")
        return count, position

    return read_count


def _array_reader(field: FieldShape, read: Reader, flexible: bool) -> Reader:
    read_count = count_reader(field, flexible)
    numbers = None if is_slow_array(field) else FIXED[field.kafka_type].format[1:]
    least = element_least_size(field, flexible=flexible)

    def read_array(data: AnyBody, position: int) -> tuple[Any, int]:
        count, position = read_count(data, position)
        if count is None:
            return None, position
        if numbers is not None:
            return Struct(f">{count}{numbers}").unpack_from(data, position), position + count * least
        elements = []
        for _ in range(count):
            element, position = read(data, position)
            elements.append(element)
        return tuple(elements), position

    return read_array


def _value_reader(field: FieldShape, flexible: bool) -> Reader:
    kafka_type = field.kafka_type
    if kafka_type in ("string", "bytes", "records"):
        return _sized_reader(field, flexible)
    layout = FIXED[kafka_type]
    unpack, size = layout.unpack_from, layout.size
    if kafka_type in PLAIN:

        def read_number(data: AnyBody, position: int) -> tuple[Any, int]:
            return unpack(data, position)[0], position + size

        return read_number
    convert = _CONVERSIONS[kafka_type]
    if kafka_type == "datetime_i64" and field.nullable:
        convert = _optional_time

    def read_converted(data: AnyBody, position: int) -> tuple[Any, int]:
        return convert(unpack(data, position)[0]), position + size

    return read_converted


def _optional_time(milliseconds: int) -> Any:
    return None if milliseconds == -1 else EPOCH + timedelta(milliseconds=milliseconds)


def _duration(milliseconds: int) -> timedelta:
    """Return a duration; one that Python cannot express becomes the longest that it can."""
    return timedelta(milliseconds=max(-_DURATION_MS_MAX, min(milliseconds, _DURATION_MS_MAX)))


_DURATION_MS_MAX = timedelta.max // MILLISECOND
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "uuid": lambda raw: None if raw == _NO_UUID else UUID(bytes=raw),
    "error_code": ErrorCode,
    "timedelta_i32": lambda milliseconds: timedelta(milliseconds=milliseconds),
    "timedelta_i64": _duration,
    "datetime_i64": lambda milliseconds: EPOCH + timedelta(milliseconds=milliseconds),
}


def _sized_reader(field: FieldShape, flexible: bool) -> Reader:
    name, is_text = field.name, field.kafka_type == "string"
    # The elements of an array are never null; the field's nullability applies to the array.
    nullable = field.nullable and not field.repeated
    unpack, prefix_size = (_int16, 2) if is_text else (_int32, 4)

    def read_sized(data: AnyBody, position: int) -> tuple[Any, int]:
        if flexible:
            size, position = read_uvarint(data, position)
            size -= 1
        else:
            size = unpack(data, position)[0]
            position += prefix_size
        if size < 0:
            if size == -1 and nullable:
                return None, position
            raise MalformedRequest(f"{name} is null or negative")
        end = position + size
        if end > len(data):
            raise MalformedRequest(f"{name} claims {size} bytes but {len(data) - position} are left")
        raw = data[position:end]
        return (decode_text(raw) if is_text else raw), end

    return read_sized
