"""The columns of a row and the supported schemas. Imports neither numpy nor Arrow.

A schema such as `.schema("value BINARY, offset BIGINT")` restricts rows to these columns. An unknown column raises
PenstockClientError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock_client.errors import PenstockClientError, nearest

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HEADERS_TYPE: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
COLUMNS: Final = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
}


def ddl(*, include_headers: bool) -> str:
    parts = [f"{name} {kind}" for name, kind in COLUMNS.items()]
    if include_headers:
        parts.append(f"headers {HEADERS_TYPE}")
    return ", ".join(parts)


def check_schema(schema: StructType, *, include_headers: bool) -> None:
    known = [*COLUMNS, *(["headers"] if include_headers else [])]
    for field in schema.fields:
        if field.name == "headers" and not include_headers:
            raise PenstockClientError("the column headers requires the option includeHeaders=true")
        if field.name not in known:
            raise PenstockClientError(
                f"unknown column '{field.name}'; the columns are {', '.join(known)}.{nearest(field.name, known)}"
            )
        kind = field.dataType.simpleString().upper()
        expected = COLUMNS.get(field.name)
        if expected is not None and kind != expected:
            raise PenstockClientError(
                f"the column {field.name} is {expected}, but the schema says {kind}: read it as {expected} and cast it"
            )
