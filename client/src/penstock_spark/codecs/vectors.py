"""Arrow UDFs that decode a column and never fail because of a single row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock_client.errors import PenstockClientError
from penstock_spark.codecs.schemas import BadRow

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

MakeDecoder = Callable[[], Callable[[bytes], dict[str, Any]]]


def decoding(value: Column, kind: DataType, make: MakeDecoder) -> Column:
    """Return the decoded column. `make` runs on the executor once per batch: schemas and classes are not serialized."""
    import pyarrow as pa
    from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StringType, StructField, StructType

    result = StructType([StructField("data", kind), StructField("error", StringType())])
    data_type = to_arrow_type(kind, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        rows, errors = decode_all(values.to_pylist(), make())
        try:
            data = pa.array(rows, data_type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            data = one_by_one(rows, errors, data_type)
        return pa.StructArray.from_arrays([data, pa.array(errors, pa.string())], ["data", "error"])

    column: Column = arrow_udf(decode, result, ArrowUDFType.SCALAR)(value)
    return column


def decode_all(
    values: list[bytes | None], decode: Callable[[bytes], dict[str, Any]]
) -> tuple[list[dict[str, Any] | None], list[str | None]]:
    rows: list[dict[str, Any] | None] = []
    errors: list[str | None] = []
    for value in values:
        row, error = None, None
        if value is None:
            error = "NoValue: the value is null"
        else:
            try:
                row = decode(value)
            except PenstockClientError:
                raise
            except BadRow as bad:
                error = f"BadRow: {bad}"
            except Exception as bad:
                error = f"{type(bad).__name__}: {str(bad) or 'the value does not fit the schema'}"
        rows.append(row)
        errors.append(error)
    return rows, errors


def one_by_one(rows: list[dict[str, Any] | None], errors: list[str | None], kind: Any) -> Any:
    """Convert rows one by one to find those that do not fit the type; the others are kept."""
    import pyarrow as pa

    for index, row in enumerate(rows):
        try:
            pa.array([row], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as bad:
            rows[index], errors[index] = None, f"{type(bad).__name__}: {bad}"
    return pa.array(rows, kind)


def struct_type(ddl: str) -> DataType:
    """Return the Spark type of a DDL text such as struct<id: bigint>."""
    from pyspark.sql.types import StructType

    fields = StructType.fromDDL(f"data {ddl}")
    assert isinstance(fields, StructType)
    return fields.fields[0].dataType
