"""Protobuf values, plain or in the wire format of registries, from a descriptor set (`protoc --descriptor_set_out`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock_client.errors import PenstockClientError, nearest
from penstock_spark.codecs.schemas import BadRow, opened
from penstock_spark.codecs.vectors import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

# Keyed by the number of a field's type in its descriptor.
_TYPES: Final = {
    1: "double", 2: "float", 3: "bigint", 4: "decimal(20,0)", 5: "int", 6: "decimal(20,0)", 7: "bigint",
    8: "boolean", 9: "string", 12: "binary", 13: "bigint", 14: "string", 15: "int", 16: "bigint", 17: "int",
    18: "bigint",
}  # fmt: skip
_ENUM: Final = 14
_MESSAGE: Final = 11
_UNSIGNED_LONG: Final = (4, 6)
_TIMESTAMP: Final = "google.protobuf.Timestamp"


@dataclass(frozen=True, slots=True)
class Protobuf:
    """`descriptors` is the path of a descriptor set, `message` the full name of the message in it.

    `is_wire_format` means that values begin with the registry's zero byte, id and message indexes.
    """

    descriptors: str
    message: str
    is_wire_format: bool = False

    def decode(self, value: Column) -> Column:
        from penstock_spark.codecs.vectors import decoding

        content = self._content()
        message, is_wire_format = self.message, self.is_wire_format
        return decoding(value, self.spark_type(), lambda: _decoder(content, message, is_wire_format))

    def spark_type(self) -> DataType:
        return struct_type(self.ddl())

    def ddl(self) -> str:
        """Return the Spark type as DDL."""
        return _struct(_message_class(self._content(), self.message).DESCRIPTOR, ())

    def decoder(self) -> Callable[[bytes], dict[str, Any]]:
        return _decoder(self._content(), self.message, self.is_wire_format)

    def _content(self) -> bytes:
        try:
            return Path(self.descriptors).read_bytes()
        except OSError:
            raise PenstockClientError(
                f"the descriptor set {self.descriptors} does not exist: create it with "
                "protoc --include_imports --descriptor_set_out=FILE your.proto"
            ) from None


def _message_class(content: bytes, name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(content)
    known = []
    for file in files.file:
        pool.Add(file)
        known += [f"{file.package}.{one.name}".lstrip(".") for one in file.message_type]
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError:
        raise PenstockClientError(f"the descriptor set has no message {name!r}.{nearest(name, known)}") from None


def _decoder(content: bytes, name: str, is_wire_format: bool) -> Callable[[bytes], dict[str, Any]]:
    kind = _message_class(content, name)

    def decode(value: bytes) -> dict[str, Any]:
        payload = _behind_indexes(opened(value)[1]) if is_wire_format else value
        return _row(kind.FromString(payload))

    return decode


def _behind_indexes(payload: bytes) -> bytes:
    """Skip the path of the message in its file: a count and as many zigzag varints, or a single 0 for the first."""
    count, at = _varint(payload, 0)
    for _ in range(count):
        _, at = _varint(payload, at)
    return payload[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 35:
            raise BadRow("the message indexes of the wire format are truncated")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _struct(descriptor: Any, above: tuple[str, ...]) -> str:
    if descriptor.full_name in above:
        raise PenstockClientError(f"the message {descriptor.full_name} is recursive, which columns do not support")
    inside = (*above, descriptor.full_name)
    return "struct<" + ", ".join(f"`{one.name}`: {_ddl(one, inside)}" for one in descriptor.fields) + ">"


def _ddl(field: Any, above: tuple[str, ...]) -> str:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return f"map<{_ddl(entry['key'], above)}, {_ddl(entry['value'], above)}>"
    if field.type == _MESSAGE:
        one = "timestamp" if field.message_type.full_name == _TIMESTAMP else _struct(field.message_type, above)
    else:
        one = _TYPES[field.type]
    return f"array<{one}>" if _is_repeated(field) else one


def _row(message: Any) -> dict[str, Any]:
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        kind = field.message_type.fields_by_name["value"]
        return [(key, _value(one, kind)) for key, one in value.items()]
    if _is_repeated(field):
        return [_value(one, field) for one in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _value(value, field)


def _value(value: Any, field: Any) -> Any:
    if field.type == _ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    if field.type == _MESSAGE:
        if field.message_type.full_name == _TIMESTAMP:
            from datetime import UTC

            return value.ToDatetime(tzinfo=UTC)
        return _row(value)
    if field.type in _UNSIGNED_LONG:
        from decimal import Decimal

        return Decimal(value)
    return value


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _is_map(field: Any) -> bool:
    return bool(field.type == _MESSAGE and field.message_type.GetOptions().map_entry)
