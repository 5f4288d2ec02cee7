"""The fields of a message on the wire, taken from the entity classes of kio.

Describes each field of an entity class: its Kafka type, whether it may be null or is an array,
its tag and its default. `reader.py` and `writer.py` compile these descriptions into
functions. kio's own reader must not read from the network: it allocates memory for any
count that a request claims (and ends the process if there is none), accepts null where the
schema forbids it, and rejects unknown tagged fields.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from struct import Struct
from types import NoneType
from typing import Any, Final, ParamSpec, TypeVar, cast, get_args, get_origin

from kio.schema.errors import ErrorCode

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)

FIXED: Final = {
    "bool": Struct(">B"),
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "uint16": Struct(">H"),
    "int32": Struct(">i"),
    "uint32": Struct(">I"),
    "int64": Struct(">q"),
    "float64": Struct(">d"),
    "uuid": Struct(">16s"),
    "error_code": Struct(">h"),
    "timedelta_i32": Struct(">i"),
    "timedelta_i64": Struct(">q"),
    "datetime_i64": Struct(">q"),
}
"""The types of fixed size."""

PLAIN: Final = frozenset({"int8", "int16", "uint16", "int32", "uint32", "int64", "float64"})
"""The types whose value is the number itself."""

_ZERO: Final[dict[str, object]] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": EPOCH,
}


def cached(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Cache a function of classes like `functools.cache`; the type checker considers classes unhashable."""
    return cast("Callable[Arguments, Result]", cache(function))


@dataclass(frozen=True, slots=True)
class FieldShape:
    """One field. `entity` is set for nested structures, `kafka_type` for everything else."""

    name: str
    kafka_type: str
    entity: type[Any] | None
    nullable: bool
    repeated: bool
    tag: int | None
    default: object


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields in the order of the wire. Tagged ones come last, by tag."""

    plain: tuple[FieldShape, ...]
    tagged: tuple[FieldShape, ...]
    flexible: bool

    def find(self, name: str) -> FieldShape | None:
        return next((field for field in (*self.plain, *self.tagged) if field.name == name), None)


@cached
def shape_of(entity: type[Any]) -> Shape:
    shapes = [_field_shape(field) for field in fields(entity)]
    return Shape(
        plain=tuple(field for field in shapes if field.tag is None),
        tagged=tuple(sorted((field for field in shapes if field.tag is not None), key=lambda field: field.tag or 0)),
        flexible=entity.__flexible__,
    )


def _field_shape(field: "Field[Any]") -> FieldShape:
    inner, nullable = _without_none(field.type)
    repeated = get_origin(inner) is tuple
    if repeated:
        inner, _ = _without_none(get_args(inner)[0])
    entity = inner if is_dataclass(inner) and isinstance(inner, type) else None
    kafka_type = field.metadata.get("kafka_type", "")
    return FieldShape(
        name=field.name,
        kafka_type=kafka_type,
        entity=entity,
        nullable=nullable,
        repeated=repeated,
        tag=field.metadata.get("tag"),
        default=_default(field, kafka_type, entity, nullable=nullable, repeated=repeated),
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    arguments = get_args(annotation)
    if NoneType not in arguments:
        return annotation, False
    return next(argument for argument in arguments if argument is not NoneType), True


def _default(
    field: "Field[Any]", kafka_type: str, entity: type[Any] | None, *, nullable: bool, repeated: bool
) -> object:
    """Return the value of a field that a version lacks: the schema's default, or the zero value of its type."""
    if field.default is not MISSING:
        return field.default
    if repeated:
        return ()
    if entity is not None:
        return None if nullable else default_entity(entity)
    return _ZERO.get(kafka_type, 0)


@cached
def default_entity(entity: type[Any]) -> Any:
    shape = shape_of(entity)
    return entity(**{field.name: field.default for field in (*shape.plain, *shape.tagged)})


def least_size(field: FieldShape, *, flexible: bool) -> int:
    """Return the fewest bytes that a value takes, to detect a wrong count before anything is allocated."""
    if field.repeated:
        return 1 if flexible else 4
    return 1 if field.nullable and field.entity is not None else element_least_size(field, flexible=flexible)


def element_least_size(field: FieldShape, *, flexible: bool) -> int:
    if field.entity is not None:
        return entity_least_size(field.entity)
    if field.kafka_type in FIXED:
        return FIXED[field.kafka_type].size
    if flexible:
        return 1
    return 2 if field.kafka_type == "string" else 4


@cached
def entity_least_size(entity: type[Any]) -> int:
    shape = shape_of(entity)
    size = sum(least_size(field, flexible=shape.flexible) for field in shape.plain)
    return max(size + (1 if shape.flexible else 0), 1)
