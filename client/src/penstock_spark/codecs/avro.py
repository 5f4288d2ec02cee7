"""Avro values, plain or in the wire format of schema registries, decoded with `fastavro`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock_client.errors import PenstockClientError
from penstock_spark.codecs.schemas import Schemas, opened, sealed
from penstock_spark.codecs.vectors import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_PLAIN: Final = {
    "string": "string", "int": "int", "long": "bigint", "float": "float", "double": "double", "boolean": "boolean",
    "bytes": "binary", "enum": "string", "fixed": "binary", "null": "void",
}  # fmt: skip
_LOGICAL: Final = {
    "timestamp-millis": "timestamp", "timestamp-micros": "timestamp", "date": "date", "uuid": "string",
    "local-timestamp-millis": "timestamp_ntz", "local-timestamp-micros": "timestamp_ntz",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Avro:
    """`schema` (JSON, or the path of an .avsc file) defines the columns; `schemas` is the source of writers' schemas.

    Without `schemas`, values are plain and written with `schema`. With it, values are in the wire format, and each is
    read with its writer's schema and converted to `schema`: missing fields take their defaults.
    """

    schema: str
    schemas: Schemas | None = None

    def decode(self, value: Column) -> Column:
        from penstock_spark.codecs.vectors import decoding

        return decoding(value, self.spark_type(), self.decoder)

    def encode(self, data: Column, *, schema_id: int | None = None) -> Column:
        """Encode a struct column as Avro; in the wire format if the schema id is given."""
        import pyarrow as pa
        from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

        text = self._text()

        def encode(rows: pa.Array) -> pa.Array:
            import fastavro

            parsed = fastavro.parse_schema(json.loads(text))
            out: list[bytes | None] = []
            for row in rows.to_pylist():
                if row is None:
                    out.append(None)
                    continue
                stream = io.BytesIO()
                fastavro.schemaless_writer(stream, parsed, row)
                payload = stream.getvalue()
                out.append(payload if schema_id is None else sealed(schema_id, payload))
            return pa.array(out, pa.binary())

        column: Column = arrow_udf(encode, "binary", ArrowUDFType.SCALAR)(data)
        return column

    def spark_type(self) -> DataType:
        from pyspark.sql.types import StructType

        kind = struct_type(self.ddl())
        if not isinstance(kind, StructType):
            raise PenstockClientError("the Avro schema must be a record schema, because its fields become columns")
        return kind

    def ddl(self) -> str:
        """Return the Spark type as DDL."""
        return _ddl(json.loads(self._text()), {})

    def decoder(self) -> Callable[[bytes], dict[str, Any]]:
        import fastavro

        ours = fastavro.parse_schema(json.loads(self._text()))
        schemas = self.schemas
        parsed: dict[int, Any] = {}

        def decode(value: bytes) -> dict[str, Any]:
            theirs: Any
            if schemas is None:
                theirs, payload = ours, value
            else:
                number, payload = opened(value)
                theirs = parsed.get(number)
                if theirs is None:
                    theirs = parsed[number] = fastavro.parse_schema(json.loads(schemas.text(number)))
            stream = io.BytesIO(payload)
            row: Any = fastavro.schemaless_reader(stream, theirs, ours)
            if stream.tell() != len(payload):
                raise ValueError(
                    f"{len(payload) - stream.tell()} bytes remain after the record: it was written with another schema"
                )
            return dict(row)

        return decode

    def _text(self) -> str:
        given = self.schema.strip()
        if given.startswith(("{", "[")):
            return given
        path = Path(given)
        if not path.is_file():
            raise PenstockClientError(f"the schema file {given} does not exist; give its path, or the schema as JSON")
        return path.read_text(encoding="utf-8")


def _ddl(kind: Any, named: dict[str, str]) -> str:
    """Return the Spark type of an Avro schema. `named` holds the named types that later ones may refer to."""
    if isinstance(kind, str):
        if kind in _PLAIN:
            return _PLAIN[kind]
        if kind in named:
            return named[kind]
        raise PenstockClientError(f"the Avro schema refers to {kind!r}, which it does not define")
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        if len(others) != 1:
            raise PenstockClientError(
                "a union of several types has no column type: only unions with null are supported"
            )
        return _ddl(others[0], named)
    return _complex(kind, named)


def _complex(kind: Mapping[str, Any], named: dict[str, str]) -> str:
    logical = kind.get("logicalType")
    if logical == "decimal":
        return f"decimal({kind['precision']},{kind.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    base = kind["type"]
    if base == "record":
        fields = ", ".join(f"`{one['name']}`: {_ddl(one['type'], named)}" for one in kind["fields"])
        made = f"struct<{fields}>"
    elif base == "array":
        return f"array<{_ddl(kind['items'], named)}>"
    elif base == "map":
        return f"map<string, {_ddl(kind['values'], named)}>"
    else:
        made = _ddl(base, named)
    if "name" in kind:
        named[kind["name"]] = made
        named[f"{kind.get('namespace', '')}.{kind['name']}".lstrip(".")] = made
    return made
