"""Random entities of any of kio's classes, with values that clients and brokers really send."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from penstock.wire.schema import FieldShape, cached, shape_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) | st.sampled_from([-2, -1, 0, 1])


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _signed(8),
    "int16": _signed(16),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": _signed(32),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": _signed(64),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(max_size=12) | st.just("long " * 40),
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=20),
    # kio reads the zero id as None.
    "uuid": st.none() | st.uuids().filter(lambda value: value != UUID(int=0)),
    "error_code": st.sampled_from(list(ErrorCode)),
    "timedelta_i32": _signed(32).map(lambda value: timedelta(milliseconds=value)),
    "timedelta_i64": st.integers(0, 2**40).map(lambda value: timedelta(milliseconds=value)),
    "datetime_i64": st.integers(0, 2**41).map(lambda value: _EPOCH + timedelta(milliseconds=value)),
}


@cached
def entities(entity: type[Any]) -> st.SearchStrategy[Any]:
    shape = shape_of(entity)
    return st.builds(entity, **{field.name: _field(field) for field in (*shape.plain, *shape.tagged)})


def _field(field: FieldShape) -> st.SearchStrategy[Any]:
    values = _VALUES[field.kafka_type] if field.entity is None else entities(field.entity)
    if field.repeated:
        values = st.lists(values, max_size=3).map(tuple)
    # A tagged field is null if it is omitted.
    if field.nullable and field.tag is None:
        values = st.none() | values
    return values
