"""Large bodies, decoded and encoded in slices: the readers and writers of reader.py and writer.py with pauses.

Compiled from the same shapes. Only what can be long is a job (model/job.py): arrays, and structures that contain one.
The plain readers and writers do everything else. Refuses what they refuse.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from penstock.model.job import Job
from penstock.wire import reader, writer
from penstock.wire.disposal import disposing_all
from penstock.wire.reader import AnyBody, Reader
from penstock.wire.schema import FieldShape, cached, shape_of
from penstock.wire.writer import Writer, append_uvarint

ELEMENTS_PER_CHECK: Final = 10
"""How often it is checked whether the slice has ended."""
CHECKS_PER_SLICE: Final = 20
BYTES_PER_SLICE: Final = 256 * 1024

Reading = Callable[[AnyBody, int], Job[tuple[Any, int]]]
Writing = Callable[["Out", Any], Job[None]]


class Out(bytearray):
    """The bytes written so far, and how many more array elements and bytes fit into the slice."""

    slice_left = ELEMENTS_PER_CHECK
    checks_left = CHECKS_PER_SLICE
    slice_end = BYTES_PER_SLICE


@cached
def has_arrays(entity: type[Any]) -> bool:
    """Return whether a structure can contain an array."""
    fields = shape_of(entity).plain
    return any(field.repeated or (field.entity is not None and has_arrays(field.entity)) for field in fields)


# Reading


@cached
def entity_reading(layout: type[Any], target: type[Any]) -> Reading:
    """Return `entity_reader` as a job."""
    shape, target_shape = shape_of(layout), shape_of(target)
    wanted = {field.name: field for field in (*target_shape.plain, *target_shape.tagged)}
    plan = [(field.name, field.name in wanted, *_field_reading(field, wanted, shape.flexible)) for field in shape.plain]
    absent = reader.absent_values(shape, wanted)
    read_tagged = reader.tagged_reader(shape, wanted)
    flexible = shape.flexible

    def reading(data: AnyBody, position: int) -> Job[tuple[Any, int]]:
        values = absent.copy()
        for name, kept, read, read_slowly in plan:
            if read_slowly is None:
                value, position = read(data, position)
            else:
                value, position = yield from read_slowly(data, position)
            if kept:
                values[name] = value
        if flexible:
            position = read_tagged(data, position, values)
        return target(**values), position

    return reading


def _field_reading(field: FieldShape, wanted: dict[str, FieldShape], flexible: bool) -> tuple[Reader, Reading | None]:
    plain = reader.field_reader(field, wanted, flexible)
    if field.repeated:
        return plain, _array_reading(field, wanted, flexible) if reader.is_slow_array(field) else None
    if field.entity is None or field.nullable or not has_arrays(field.entity):
        return plain, None
    target = wanted.get(field.name)
    return plain, entity_reading(field.entity, target.entity if target and target.entity else field.entity)


def _array_reading(field: FieldShape, wanted: dict[str, FieldShape], flexible: bool) -> Reading:
    read_count = reader.count_reader(field, flexible)
    read = reader.element_reader(field, wanted, flexible)
    target = wanted.get(field.name)
    nested: Reading | None = None
    if field.entity is not None and has_arrays(field.entity):
        nested = entity_reading(field.entity, target.entity if target and target.entity else field.entity)

    def reading(data: AnyBody, position: int) -> Job[tuple[Any, int]]:
        count, position = read_count(data, position)
        if count is None:
            return None, position
        elements: list[Any] = []
        try:
            for _ in range(count):
                data.slice_left -= 1
                if data.slice_left <= 0:
                    data.slice_left = ELEMENTS_PER_CHECK
                    data.checks_left -= 1
                    if data.checks_left <= 0 or position > data.slice_end:
                        data.checks_left = CHECKS_PER_SLICE
                        data.slice_end = position + BYTES_PER_SLICE
                        yield None
                if nested is None:
                    element, position = read(data, position)
                else:
                    element, position = yield from nested(data, position)
                elements.append(element)
        except Exception:
            # The request is malformed; the elements before that are as many as its sender likes.
            yield from disposing_all(elements)
            raise
        return tuple(elements), position

    return reading


# Writing


@cached
def entity_writing(layout: type[Any], source: type[Any]) -> Writing:
    """Return `entity_writer` as a job."""
    shape, source_shape = shape_of(layout), shape_of(source)
    plan: list[tuple[Callable[[Any], Any], Writer, Writing | None]] = []
    for field in shape.plain:
        known = source_shape.find(field.name)
        if known is None:
            plan.append((writer.constant(field.default), writer.field_writer(field, known, shape.flexible), None))
        else:
            plan.append((attrgetter(field.name), *_field_writing(field, known, shape.flexible)))
    write_tagged = writer.tagged_writer(shape, source_shape)

    def writing(out: Out, entity: Any) -> Job[None]:
        for take, write, write_slowly in plan:
            if write_slowly is None:
                write(out, take(entity))
            else:
                yield from write_slowly(out, take(entity))
        write_tagged(out, entity)

    return writing


def _field_writing(field: FieldShape, known: FieldShape, flexible: bool) -> tuple[Writer, Writing | None]:
    plain = writer.field_writer(field, known, flexible)
    if not field.repeated:
        if field.entity is None or field.nullable or not has_arrays(field.entity):
            return plain, None
        return plain, entity_writing(field.entity, known.entity or field.entity)
    write = writer.element_writer(field, known, flexible)
    nested: Writing | None = None
    if field.entity is not None and has_arrays(field.entity):
        nested = entity_writing(field.entity, known.entity or field.entity)

    def writing(out: Out, values: Any) -> Job[None]:
        if not values:
            plain(out, values)
            return
        if flexible:
            append_uvarint(out, len(values) + 1)
        else:
            out += len(values).to_bytes(4, "big")
        for value in values:
            out.slice_left -= 1
            if out.slice_left <= 0:
                out.slice_left = ELEMENTS_PER_CHECK
                out.checks_left -= 1
                if out.checks_left <= 0 or len(out) > out.slice_end:
                    out.checks_left = CHECKS_PER_SLICE
                    out.slice_end = len(out) + BYTES_PER_SLICE
                    yield None
            if nested is None:
                write(out, value)
            else:
                yield from nested(out, value)

    return plain, writing
